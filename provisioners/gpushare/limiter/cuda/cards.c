#include "provisioners/gpushare/limiter/cuda/cards.h"

#include "provisioners/gpushare/limiter/old_libc.h"

enum { kDevices = 64, kContexts = 64 };

/// By device number: generation of the limits << 32 | place + 3; 0: unknown.
static uint64_t places[kDevices];
/// By a hash of the context: its address << 8 | device number + 1; 0: unknown.
static uint64_t contexts[kContexts];

static int findCard(int device) {
  uint8_t uuid[16];
  int result = kNotFound;
  if (EGPU_HAS_REAL(cuDeviceGetUuid_v2))
    result = EGPU_REAL(cuDeviceGetUuid_v2, uint8_t*, int)(uuid, device);
  else if (EGPU_HAS_REAL(cuDeviceGetUuid))
    result = EGPU_REAL(cuDeviceGetUuid, uint8_t*, int)(uuid, device);
  return result == kSuccess ? usageFindCard(uuid) : kUnlistedRefused;
}

int cardOfDevice(int device) { return cardOfDeviceAt(device, usageSequence()); }

int cardOfDeviceAt(int device, uint32_t sequence) {
  const uint64_t generation = sequence;
  if (device < 0) return kUnlistedRefused;
  if (device >= kDevices) return findCard(device);
  const uint64_t known = __atomic_load_n(&places[device], __ATOMIC_RELAXED);
  if (known != 0 && known >> 32 == generation) return (int)(known & 0xff) - 3;
  const int place = findCard(device);
  __atomic_store_n(&places[device], generation << 32 | (uint64_t)(place + 3), __ATOMIC_RELAXED);
  return place;
}

int onlyCardAt(uint32_t sequence) {
  static int devices;  // atomic; 0: not asked yet
  int count = __atomic_load_n(&devices, __ATOMIC_RELAXED);
  if (__builtin_expect(count == 0, 0)) {
    if (EGPU_REAL(cuDeviceGetCount, int*)(&count) != kSuccess) return kSeveralDevices;
    __atomic_store_n(&devices, count, __ATOMIC_RELAXED);
  }
  return count == 1 ? cardOfDeviceAt(0, sequence) : kSeveralDevices;
}

static uint64_t* contextCell(Handle context) {
  return &contexts[((uintptr_t)context >> 4 ^ (uintptr_t)context >> 12) % kContexts];
}

int currentContext(Handle* context, int* device) {
  if (EGPU_REAL(cuCtxGetCurrent, Handle*)(context) != kSuccess || *context == NULL) return -1;
  uint64_t* cell = contextCell(*context);
  const uint64_t known = __atomic_load_n(cell, __ATOMIC_RELAXED);
  if (known >> 8 == (uintptr_t)*context) {
    *device = (int)(known & 0xff) - 1;
    return 0;
  }
  if (EGPU_REAL(cuCtxGetDevice, int*)(device) != kSuccess || *device < 0) return -1;
  if (*device < 255)
    __atomic_store_n(cell, (uint64_t)(uintptr_t)*context << 8 | (unsigned)(*device + 1), __ATOMIC_RELAXED);
  return 0;
}

int deviceOfStream(Handle stream) {
  Handle context, own = NULL;
  int device;
  if (currentContext(&context, &device) != 0) return -1;
  if ((uintptr_t)stream <= 2 || !EGPU_HAS_REAL(cuStreamGetCtx)) return device;
  if (EGPU_REAL(cuStreamGetCtx, Handle, Handle*)(stream, &own) != kSuccess || own == context || own == NULL)
    return device;
  if (EGPU_REAL(cuCtxPushCurrent_v2, Handle)(own) != kSuccess) return device;
  Handle popped;
  int other = device;
  EGPU_REAL(cuCtxGetDevice, int*)(&other);
  EGPU_REAL(cuCtxPopCurrent_v2, Handle*)(&popped);
  return other;
}

void forgetContext(Handle context) { __atomic_store_n(contextCell(context), 0, __ATOMIC_RELAXED); }
