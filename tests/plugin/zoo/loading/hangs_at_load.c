/* Never returns from its entry. */
#include <unistd.h>

#include "api/plugin/provisioner.h"
int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  (void)h, (void)out;
  while (sleep(3600) == 0) continue;
  return EGPU_INTERNAL;
}
