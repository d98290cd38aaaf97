/* provision opens files until that fails; it returns NO_CHANGE if the limit was low. */
#define NAME "eats-files.example.com"
#define HAVE_PROVISION
#include <fcntl.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  for (int i = 0; i < 100000; ++i)
    if (open("/dev/null", O_RDONLY) < 0) return i < 256 ? EGPU_NO_CHANGE : EGPU_INVALID;
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"
