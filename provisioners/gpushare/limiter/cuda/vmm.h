/* Virtual memory management: a physical allocation is charged until its handle and its last mapping are gone. Imported
 * handles, multicast objects and memory of the host are not charged. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_VMM_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_VMM_H

#include "provisioners/gpushare/limiter/cuda/driver.h"

/** An array has ended, and with it the mappings of physical memory into it. */
void vmmArrayEnded(Handle array) EGPU_HIDDEN;
/** After a fork. */
void vmmForgetAll(void) EGPU_HIDDEN;

#endif
