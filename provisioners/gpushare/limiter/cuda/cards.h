/* The card and the context that a call concerns. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CARDS_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_CARDS_H

#include "provisioners/gpushare/limiter/cuda/driver.h"
#include "provisioners/gpushare/limiter/usage.h"

/** Place of the card of a device number (usageFindCard). A number that the driver does not know is refused. */
int cardOfDevice(int device) EGPU_HIDDEN;
/** The same, after a call of usageSequence. */
int cardOfDeviceAt(int device, uint32_t sequence) EGPU_HIDDEN;
/** The same if the process has one device, else kSeveralDevices. Contexts then need not be asked. */
enum { kSeveralDevices = -3 };
int onlyCardAt(uint32_t sequence) EGPU_HIDDEN;
/** Stores the calling thread's context and its device's number. Returns 0, or -1 if it has none. */
int currentContext(Handle* context, int* device) EGPU_HIDDEN;
/** Number of the device of a stream: of its context, or of the current one for the default streams; -1 if unknown. */
int deviceOfStream(Handle stream) EGPU_HIDDEN;
/** Forgets a context that has ended. */
void forgetContext(Handle context) EGPU_HIDDEN;

#endif
