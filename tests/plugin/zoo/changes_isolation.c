/* Each provision of a device replies another isolation. */
#define NAME "changes-isolation.example.com"
#define HAVE_PROVISION
#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device);
#include "tests/plugin/zoo/good.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  static int calls;
  const egpu_isolation isolation = {sizeof isolation, ++calls % 2 ? "mps" : "none", "Soft", "Soft", "None"};
  (void)device;
  return host->reply_isolation(call, &isolation);
}
