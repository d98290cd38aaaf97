/* Its entry refuses and logs the reason. */
#include "api/plugin/provisioner.h"
int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  (void)out;
  h->log(EGPU_ERROR, "no license for this machine");
  return EGPU_UNAVAILABLE;
}
