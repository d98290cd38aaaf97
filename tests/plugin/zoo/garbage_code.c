/* provision returns an invalid code; mount returns an invalid device node; list returns an invalid key. */
#define NAME "garbage-code.example.com"
#define HAVE_PROVISION
#define HAVE_MOUNT
#define HAVE_LIST
#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  return 4711;
}
static int mount_slot(const egpu_call* call, const egpu_device* device, const egpu_container* container) {
  (void)device, (void)container;
  return host->reply_device_node(call, "../../dev/mem", "", "rw");
}
static int list(const egpu_call* call) {
  host->reply_key(call, 0);
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"
