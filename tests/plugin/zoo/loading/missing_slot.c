/* Lacks the slot mount. */
#define HAVE_MOUNT
#define HAVE_TABLE                                                                                  \
  {                                                                                                 \
    .struct_size = sizeof(egpu_provisioner), .abi_version = EGPU_ABI_VERSION, .describe = describe, \
    .validate = validate, .provision = provision, .deprovision = deprovision, .list = list          \
  }
#include "tests/plugin/zoo/good.h"
