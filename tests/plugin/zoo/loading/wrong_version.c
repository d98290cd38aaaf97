/* Built for a future ABI version. */
#define HAVE_TABLE                                                                                              \
  {                                                                                                             \
    .struct_size = sizeof(egpu_provisioner), .abi_version = EGPU_ABI_VERSION + 1, .describe = describe,         \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list, .mount = mount_slot \
  }
#include "tests/plugin/zoo/good.h"
