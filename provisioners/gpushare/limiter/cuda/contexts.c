// The end of a context frees its memory.
#include "provisioners/gpushare/limiter/cuda/charge.h"
#include "provisioners/gpushare/limiter/cuda/pools.h"
#include "provisioners/gpushare/limiter/cuda/prices.h"
#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

enum { kDevices = 64 };
static Handle primaries[kDevices];  ///< atomic: primary contexts by device number

static int contextEnded(int result, Handle context) {
  if (result != kSuccess) return result;
  releaseContext(context);
  poolsContextEnded();
  return result;
}

EGPU_LIMITED(cuCtxDestroy_v2)(Handle context) {
  pricesForgetContext(context);
  return contextEnded(EGPU_REAL(cuCtxDestroy_v2, Handle)(context), context);
}

EGPU_LIMITED(cuCtxDestroy)(Handle context) {
  pricesForgetContext(context);
  return contextEnded(EGPU_REAL(cuCtxDestroy, Handle)(context), context);
}

/// Without cuCtxAttach, which no header offers any more, a context has one reference.
EGPU_LIMITED(cuCtxDetach)(Handle context) {
  unsigned version;
  const int result = EGPU_REAL(cuCtxDetach, Handle)(context);
  const int lives = EGPU_HAS_REAL(cuCtxGetApiVersion) &&
                    EGPU_REAL(cuCtxGetApiVersion, Handle, unsigned*)(context, &version) == kSuccess;
  return lives ? result : contextEnded(result, context);
}

EGPU_LIMITED(cuDevicePrimaryCtxRetain)(Handle* out, int device) {
  const int result = EGPU_REAL(cuDevicePrimaryCtxRetain, Handle*, int)(out, device);
  if (result == kSuccess && device >= 0 && device < kDevices)
    __atomic_store_n(&primaries[device], *out, __ATOMIC_RELAXED);
  return result;
}

/// After a release or reset: the primary context has ended if it is not active any more.
static int primaryReleased(int result, int device) {
  unsigned flags;
  int active = 1;
  if (result != kSuccess || device < 0 || device >= kDevices) return result;
  Handle context = __atomic_load_n(&primaries[device], __ATOMIC_RELAXED);
  if (context == NULL) return result;
  EGPU_REAL(cuDevicePrimaryCtxGetState, int, unsigned*, int*)(device, &flags, &active);
  if (active) return result;
  return contextEnded(result, context);
}

EGPU_LIMITED(cuDevicePrimaryCtxRelease)(int device) {
  return primaryReleased(EGPU_REAL(cuDevicePrimaryCtxRelease, int)(device), device);
}

EGPU_LIMITED(cuDevicePrimaryCtxRelease_v2)(int device) {
  return primaryReleased(EGPU_REAL(cuDevicePrimaryCtxRelease_v2, int)(device), device);
}

static void beginReset(int device) {
  if (device >= 0 && device < kDevices) pricesForgetContext(__atomic_load_n(&primaries[device], __ATOMIC_RELAXED));
}

/// A reset destroys all allocations, even if the context is still retained.
static int endReset(int result, int device) {
  if (device < 0 || device >= kDevices) return result;
  Handle context = __atomic_load_n(&primaries[device], __ATOMIC_RELAXED);
  return context == NULL ? result : contextEnded(result, context);
}

EGPU_LIMITED(cuDevicePrimaryCtxReset)(int device) {
  beginReset(device);
  return endReset(EGPU_REAL(cuDevicePrimaryCtxReset, int)(device), device);
}

EGPU_LIMITED(cuDevicePrimaryCtxReset_v2)(int device) {
  beginReset(device);
  return endReset(EGPU_REAL(cuDevicePrimaryCtxReset_v2, int)(device), device);
}
