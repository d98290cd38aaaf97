/* Crashes before it reports its name. */
#include <stdlib.h>

#include "api/plugin/provisioner.h"
int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  (void)h, (void)out;
  abort();
}
