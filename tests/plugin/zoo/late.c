/* provision returns a little after its deadline. */
#define NAME "late.example.com"
#define HAVE_PROVISION
#include <time.h>

#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int provision(const egpu_call* call, const egpu_device* device) {
  const struct timespec moment = {0, 1000000};
  (void)device;
  while (!host->cancelled(call)) nanosleep(&moment, 0);
  for (int i = 0; i < 30; ++i) nanosleep(&moment, 0);
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"
