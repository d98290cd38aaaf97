/* Leaks memory in every provision: as many bytes as the parameter `bytes` says, or 64 KiB. */
#define NAME "leaks-memory.example.com"
#define HAVE_PROVISION
#include <stdlib.h>
#include <string.h>

#include "tests/plugin/zoo/attacks.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static char* volatile leaked;
  const int asked = atoi(parameter(device, "bytes"));
  const size_t bytes = asked > 0 ? (size_t)asked : 64 << 10;
  char* more = malloc(bytes);
  (void)call, (void)outcome;
  if (!more) return EGPU_INTERNAL;
  memset(more, 1, bytes);
  leaked = more;
  return leaked ? EGPU_OK : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
