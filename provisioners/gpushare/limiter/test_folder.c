// In the libraries of the tests the folder is given by the environment.
#include <stdlib.h>

#include "provisioners/gpushare/limiter/folder.h"
#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/page.h"

const char* egpuFolder(void) {
  const char* folder = getenv("ELASTICGPU_LIMITER_FOLDER");
  return folder == NULL ? EGPU_LIMITER_FOLDER : folder;
}
