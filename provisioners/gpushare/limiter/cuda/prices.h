/* GPU time of kernels and graphs: each launch is charged its price, a moving average of measured launches. A measured
 * launch has an event before and after it; when both have passed, the difference from its charge is corrected. Any
 * thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_PRICES_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_PRICES_H

#include "provisioners/gpushare/limiter/cuda/driver.h"

struct Price;
struct Sample;

/** A launch between launchBegin and launchEnd. */
struct Launch {
  struct Sample* sample;  ///< NULL: not measured
  int card;               ///< negative: not charged
  int perThread;
  int64_t charged;
  Handle stream;
};

/** Key of a kernel with a grid: kernels run longer on larger grids. */
uint64_t kernelKey(Handle function, uint64_t blocks) EGPU_HIDDEN;
uint64_t graphKey(Handle executable) EGPU_HIDDEN;

/** Waits until the card's bucket allows a launch, and charges it. Without a limit it does nothing. */
void launchBegin(struct Launch* launch, uint64_t key, Handle stream, int perThread) EGPU_HIDDEN;
/** Ends a launch with the driver's result; a failed one is returned. Returns result. */
int launchEnd(struct Launch* launch, int result) EGPU_HIDDEN;

/** Charges a launch that is not measured. */
void launchUnmeasured(uint64_t key, int device) EGPU_HIDDEN;

/** Nanoseconds of a key, the default if it was not measured yet. */
uint64_t priceOf(uint64_t key) EGPU_HIDDEN;
/** Sets a price that the next measurement corrects. */
void setPrice(uint64_t key, uint64_t nanoseconds) EGPU_HIDDEN;

/** A context ends, and its events with it. Called before it ends. */
void pricesForgetContext(Handle context) EGPU_HIDDEN;
/** After a fork. */
void pricesForgetAll(void) EGPU_HIDDEN;

#endif
