/* Folder of the shared files. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_FOLDER_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_FOLDER_H

#include "provisioners/gpushare/limiter/forward.h"

/** Returns EGPU_LIMITER_FOLDER. Only the libraries of the tests read it from the environment: a container must not be
 *  able to name other limits. */
const char* egpuFolder(void) EGPU_HIDDEN;

#endif
