/* list answers more than the host accepts; provision prints endlessly. */
#define NAME "floods.example.com"
#define HAVE_LIST
#define HAVE_PROVISION
#include <stdio.h>

#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int list(const egpu_call* call) {
  for (int i = 0; i < 1000000; ++i) host->reply_key(call, "00000000-0000-0000-0000-000000000000");
  return EGPU_OK;
}
static int provision(const egpu_call* call, const egpu_device* device) {
  (void)call, (void)device;
  for (int i = 0; i < 20000; ++i) fprintf(stderr, "line %d of a plugin that talks too much\n", i);
  return EGPU_OK;
}
#include "tests/plugin/zoo/good.h"
