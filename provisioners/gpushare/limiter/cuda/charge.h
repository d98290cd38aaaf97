/* Charging one allocation: reserve, call the driver, record or return. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CHARGE_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CHARGE_H

#include "provisioners/gpushare/limiter/cuda/allocations.h"
#include "provisioners/gpushare/limiter/cuda/cards.h"

struct Charge {
  struct Allocation allocation;
  int open;  ///< bytes are reserved
};

/** Reserves bytes of the current context's card. Returns kSuccess, or kOutOfMemory. Without a context it reserves
 *  nothing: the driver refuses the call itself. */
int chargeCurrent(struct Charge* charge, uint64_t bytes, int kind) EGPU_HIDDEN;
/** Records the allocation under its key, or returns the bytes if the driver's result is an error. Returns result. */
int chargeEnd(struct Charge* charge, int result, uint64_t key) EGPU_HIDDEN;

/** Takes the record of an allocation before it is freed, as its key may be used again at once. */
void releaseBegin(struct Charge* charge, uint64_t key, int kind) EGPU_HIDDEN;
/** Returns the bytes, or restores the record if the driver's result is an error. Returns result. */
int releaseEnd(struct Charge* charge, int result) EGPU_HIDDEN;

/** Returns all that a context held. */
void releaseContext(Handle context) EGPU_HIDDEN;

#endif
