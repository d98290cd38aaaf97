/* Memory pools (stream-ordered allocations) and graphs' memory, charged by the bytes that the driver has reserved for
 * them. Reserved memory grows by an allocation that the pool's free memory cannot serve, and shrinks at the end of
 * work. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_POOLS_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_POOLS_H

#include "provisioners/gpushare/limiter/cuda/allocations.h"

struct PoolRelease {
  struct Allocation allocation;
  int open;
};

/** Around the release of an address that may belong to a pool. */
void poolReleaseBegin(struct PoolRelease* release, DevicePointer address) EGPU_HIDDEN;
void poolReleaseEnd(struct PoolRelease* release, int result) EGPU_HIDDEN;

/** Compares with the driver's reserved bytes, if memory was released since the last time. */
void poolsUpdate(void) EGPU_HIDDEN;

/** A context has ended, perhaps with allocations of pools: compares all pools. */
void poolsContextEnded(void) EGPU_HIDDEN;

/** Reserves the growth of a card's graph memory by a launch that allocates up to `bytes`. Returns 0 if the limit does
 *  not allow it. After the driver's call, graphMemoryEnd compares with the driver. */
int graphMemoryBegin(int device, uint64_t bytes) EGPU_HIDDEN;
void graphMemoryEnd(int device) EGPU_HIDDEN;

/** After a fork. */
void poolsForgetAll(void) EGPU_HIDDEN;

#endif
