/* Leaks a descriptor per provision, keeps all keys, and changes its mount: egpu-sanity must find that. */
#define NAME "leaks.example.com"
#define HAVE_PROVISION
#define HAVE_MOUNT
#include <fcntl.h>
#include <stdio.h>

#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call;
  if (!device->key[0] || device->card_count == 0 || !device->cards[0]->uuid[0]) {
    host->reply_message(call, "a field is missing");
    return EGPU_INVALID;
  }
  return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? EGPU_OK : EGPU_INTERNAL;
}
static int mount_slot(const egpu_call* call, const egpu_device* device, const egpu_container* container) {
  static int count;
  char text[32];
  (void)device, (void)container;
  snprintf(text, sizeof text, "%d", __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
  return host->reply_env(call, "COUNT", text);
}
#include "tests/plugin/zoo/good.h"
