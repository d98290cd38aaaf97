/* Captures of streams into graphs. While a stream is captured, nothing is recorded on it, and nothing is charged: its
 * graph is charged at its launch. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CAPTURES_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CAPTURES_H

#include "provisioners/gpushare/limiter/cuda/driver.h"

/** True if the stream is being captured, or if the driver does not tell. */
int isCapturing(Handle stream, int perThread) EGPU_HIDDEN;

/** Around the limiter's own calls of the driver: a capture of another thread must not be invalidated by them. Returns
 *  the mode to restore. */
int relaxCaptures(void) EGPU_HIDDEN;
void restoreCaptures(int mode) EGPU_HIDDEN;

#endif
