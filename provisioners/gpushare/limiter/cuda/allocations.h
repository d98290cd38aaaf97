/* Charged memory of this process: key (address or handle) to size, card and context. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_ALLOCATIONS_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_ALLOCATIONS_H

#include "provisioners/gpushare/limiter/cuda/driver.h"

enum AllocationKind { kDeviceMemory = 1, kArrayMemory = 2, kPoolMemory = 3 };

struct Allocation {
  uint64_t key, bytes;
  Handle owner;  ///< the context; the pool of kPoolMemory
  int16_t card;
  int16_t kind;
  uint32_t spare;
};

/** Returns 0 without memory. Replaces an allocation with this key and kind. */
int allocationAdd(const struct Allocation* allocation) EGPU_HIDDEN;
/** Removes it and stores it. Returns 0 if it is unknown. */
int allocationTake(uint64_t key, int kind, struct Allocation* out) EGPU_HIDDEN;
/** Removes all allocations of an owner: with `pools`, only those of kind kPoolMemory, otherwise only the others. Adds
 *  their bytes to `bytes`, by card. */
void allocationDropOwner(Handle owner, int pools, uint64_t* bytes) EGPU_HIDDEN;
/** After a fork: forgets all without releasing memory. */
void allocationForgetAll(void) EGPU_HIDDEN;

#endif
