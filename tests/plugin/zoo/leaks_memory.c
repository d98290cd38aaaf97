/* Keeps 64 KiB of every provision for ever. */
#define NAME "leaks-memory.example.com"
#define HAVE_PROVISION
#include <stdlib.h>
#include <string.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static char* volatile kept;
  char* more = malloc(64 << 10);
  (void)call, (void)device;
  if (!more) return EGPU_INTERNAL;
  memset(more, 1, 64 << 10);
  kept = more;
  return kept ? EGPU_OK : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
