#include "provisioners/gpushare/limiter/folder.h"

#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/page.h"

const char* egpuFolder(void) { return EGPU_LIMITER_FOLDER; }
