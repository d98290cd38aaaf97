/* provision leaks memory up to a bound, as a heap does before its first collections. */
#define NAME "warms-up.example.com"
#define HAVE_PROVISION
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static atomic_int calls;
  (void)call, (void)device;
  if (atomic_fetch_add(&calls, 1) < 260) { /* more than ten windows of 26 */
    char* cache = malloc(32 << 10);
    if (cache) memset(cache, 1, 32 << 10);
  }
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"
