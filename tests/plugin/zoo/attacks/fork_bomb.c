/* provision forks, and every child forks, forever. */
#define NAME "fork-bomb.example.com"
#define HAVE_PROVISION
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  while (fork() >= 0 || usleep(1000) <= 0) continue;
  return EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
