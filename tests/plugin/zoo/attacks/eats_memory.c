/* provision allocates memory until that fails, and continues. */
#define NAME "eats-memory.example.com"
#define HAVE_PROVISION
#include <stdlib.h>
#include <string.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  while (memset(malloc(16 << 20), 1, 16 << 20)) continue;
  return EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
