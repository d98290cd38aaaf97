/* provision writes noise into the host's socket, as a plugin with a stray descriptor could. */
#define NAME "garbage-frames.example.com"
#define HAVE_PROVISION
#include <string.h>
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static char noise[4096];
  (void)call, (void)device;
  memset(noise, 0xff, sizeof noise);
  return write(3, noise, sizeof noise) > 0 ? EGPU_OK : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
