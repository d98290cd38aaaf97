/* Its table ends before a required slot; the memory behind it is garbage. */
#define HAVE_TABLE                                                                                              \
  {                                                                                                             \
    .struct_size = offsetof(egpu_provisioner, list), .abi_version = EGPU_ABI_VERSION, .describe = describe,     \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list, .mount = mount_slot \
  }
#include "tests/plugin/zoo/good.h"
