/* provision closes standard output and error; list still answers. */
#define NAME "closes-output.example.com"
#define HAVE_PROVISION
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  return close(1) == 0 && close(2) == 0 ? EGPU_OK : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
