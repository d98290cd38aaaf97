/* Each provision of a device replies another isolation, in the first layout of egpu_isolation. */
#include <stddef.h>
#define NAME "changes-isolation.example.com"
#define HAVE_PROVISION
#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device);
#include "tests/plugin/zoo/good.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static int calls;
  const char* mode = ++calls % 2 ? "mps" : "none";
  const egpu_isolation isolation = {offsetof(egpu_isolation, managed_memory), mode, "Soft", "Soft", "None", "garbage"};
  (void)device;
  return host->reply_isolation(call, &isolation);
}
