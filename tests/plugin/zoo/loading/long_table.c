/* Built against a later header of the same version: its table is longer than the host's. It must work. */
#define NAME "long.example.com"
#define HAVE_ENTRY
#include "tests/plugin/zoo/good.h"
static const struct {
  egpu_provisioner now;
  void* later[8];
} longer = {{.struct_size = sizeof(egpu_provisioner) + 8 * sizeof(void*),
             .abi_version = EGPU_ABI_VERSION,
             .describe = describe,
             .validate = validate,
             .provision = provision,
             .deprovision = deprovision,
             .list = list,
             .mount = mount_slot},
            {0}};
int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  (void)table;
  host = h;
  *out = &longer.now;
  return EGPU_OK;
}
