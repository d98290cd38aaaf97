/* provision never returns. */
#include <unistd.h>
#define NAME "hangs.example.com"
#define HAVE_PROVISION
#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  while (sleep(3600) == 0) continue;
  return EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
