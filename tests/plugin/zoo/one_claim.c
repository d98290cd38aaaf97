/* provision treats the claim as part of the device's content. */
#define NAME "one-claim.example.com"
#define HAVE_PROVISION
#include <string.h>

#include "api/plugin/provisioner.h"
static const egpu_host* host;
static int provision(const egpu_call* call, const egpu_device* device) {
  static char first[256];
  if (!first[0]) strncpy(first, device->claim, sizeof first - 1);
  host->reply_message(call, "another claim");
  return strcmp(first, device->claim) == 0 ? EGPU_OK : EGPU_EXISTS;
}
#include "tests/plugin/zoo/good.h"
