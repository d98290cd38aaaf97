#include "provisioners/gpushare/limiter/cuda/pools.h"

#include <stdlib.h>
#include <string.h>

#include "provisioners/gpushare/limiter/cuda/captures.h"
#include "provisioners/gpushare/limiter/cuda/cards.h"
#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

enum { kPoolChunk = 2 << 20, kPoolAlignment = 512, kDevices = 16 };

struct Pool {
  Handle handle;
  int card;  ///< negative: not charged
  struct Lock lock;
  uint64_t charged, used;  ///< reserved bytes as of the last comparison; bytes of live allocations
  int released;            ///< memory was released since the last comparison
  int ended;               ///< destroyed; memory of live allocations is still charged
  struct Pool* next;
};

static struct Lock listLock;  ///< guards the list; pools are never freed
static struct Pool* pools;
static int anyReleased;  ///< atomic

/// Graph memory of each device: charged bytes.
static struct Lock graphLock;
static uint64_t graphCharged[kDevices];

/// The list's lock is held.
static struct Pool* find(Handle handle) {
  struct Pool* pool = pools;
  while (pool != NULL && (pool->handle != handle || pool->ended)) pool = pool->next;
  return pool;
}

/// Returns the record of a pool, or NULL if nothing was allocated from it.
static struct Pool* findPool(Handle handle) {
  lockAcquire(&listLock);
  struct Pool* pool = find(handle);
  lockRelease(&listLock);
  return pool;
}

/// Returns the record of a pool, made on first sight. `card` counts only then.
static struct Pool* poolOf(Handle handle, int card) {
  lockAcquire(&listLock);
  struct Pool* pool = find(handle);
  if (pool == NULL && (pool = calloc(1, sizeof *pool)) != NULL) {
    pool->handle = handle;
    pool->card = card;
    pool->next = pools;
    pools = pool;
  }
  lockRelease(&listLock);
  return pool;
}

static uint64_t reservedBytes(const struct Pool* pool) {
  uint64_t reserved = 0;
  const int result =
      EGPU_REAL(cuMemPoolGetAttribute, Handle, int, void*)(pool->handle, kPoolReservedCurrent, &reserved);
  return result == kSuccess ? reserved : pool->charged;
}

/// Makes the charge equal to the driver's reserved bytes. The pool's lock is held.
static void compare(struct Pool* pool) {
  const uint64_t reserved = reservedBytes(pool);
  if (reserved > pool->charged) usageForce(pool->card, reserved - pool->charged);
  if (reserved < pool->charged) usageReturn(pool->card, pool->charged - reserved);
  pool->charged = reserved;
}

void poolsUpdate(void) {
  if (!__atomic_load_n(&anyReleased, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&anyReleased, 0, __ATOMIC_RELAXED);
  lockAcquire(&listLock);
  struct Pool* pool = pools;
  lockRelease(&listLock);
  for (; pool != NULL; pool = pool->next) {
    lockAcquire(&pool->lock);
    if (pool->released && !pool->ended && pool->card >= 0) {
      compare(pool);
      // Work that has not ended keeps memory: look again at the next end.
      pool->released = pool->charged > (pool->used + kPoolChunk - 1) / kPoolChunk * kPoolChunk;
      if (pool->released) __atomic_store_n(&anyReleased, 1, __ATOMIC_RELAXED);
    }
    lockRelease(&pool->lock);
  }
}

void poolsContextEnded(void) {
  lockAcquire(&listLock);
  struct Pool* pool = pools;
  lockRelease(&listLock);
  for (; pool != NULL; pool = pool->next) {
    lockAcquire(&pool->lock);
    if (!pool->ended && pool->card >= 0) {
      compare(pool);
      // Only here: a release of another thread that is not recorded yet would otherwise be subtracted twice.
      if (pool->used > pool->charged) pool->used = pool->charged;
    }
    lockRelease(&pool->lock);
  }
}

static uint64_t rounded(uint64_t bytes, uint64_t unit) {
  return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}

/// Returns the bytes by which an allocation may raise the pool's reserved memory.
static uint64_t growthOf(const struct Pool* pool, uint64_t bytes) {
  const uint64_t spare = pool->charged > pool->used ? pool->charged - pool->used : 0;
  return bytes <= spare ? 0 : rounded(bytes - spare, kPoolChunk);
}

/// Reserves the growth of a pool. Near the limit, memory that the pool does not need any more is released first.
static int reserveGrowth(struct Pool* pool, uint64_t bytes, uint64_t* growth) {
  *growth = growthOf(pool, bytes);
  if (*growth == 0 || usageReserve(pool->card, *growth)) return 1;
  compare(pool);
  *growth = growthOf(pool, bytes);
  return *growth == 0 || usageReserve(pool->card, *growth);
}

struct PoolCall {
  struct Pool* pool;
  uint64_t bytes, growth;
  DevicePointer* out;
};

/// Begins an allocation; the pool's lock is held until poolCallEnd if `pool` is set.
static int poolCallBegin(struct PoolCall* call, Handle handle, int card, size_t bytes) {
  call->pool = NULL;
  call->bytes = rounded(bytes, kPoolAlignment);
  if (handle == NULL || card == kUnlistedPassed) return kSuccess;
  struct Pool* pool = poolOf(handle, card);
  if (pool == NULL) return kOutOfMemory;
  if (pool->card == kUnlistedPassed) return kSuccess;
  lockAcquire(&pool->lock);
  if (!reserveGrowth(pool, call->bytes, &call->growth)) {
    lockRelease(&pool->lock);
    return kOutOfMemory;
  }
  pool->charged += call->growth;
  call->pool = pool;
  return kSuccess;
}

static int poolCallEnd(struct PoolCall* call, int result, DevicePointer address) {
  struct Pool* pool = call->pool;
  if (pool == NULL) return result;
  if (result == kSuccess) {
    const struct Allocation record = {address, call->bytes, pool, (int16_t)pool->card, kPoolMemory, 0};
    if (allocationAdd(&record)) pool->used += call->bytes;
  }
  if (call->growth != 0) compare(pool);
  lockRelease(&pool->lock);
  return result;
}

/// Finds the pool and the card of an allocation by stream. A capture records a node, which the graph's launch charges.
static int streamPool(Handle stream, int perThread, Handle* pool, int* card) {
  *pool = NULL;
  *card = kUnlistedPassed;
  if (isCapturing(stream, perThread)) return kSuccess;
  const int device = deviceOfStream(stream);
  if (device < 0 || !EGPU_HAS_REAL(cuDeviceGetMemPool)) return kSuccess;
  *card = cardOfDevice(device);
  if (*card == kUnlistedRefused) return kOutOfMemory;
  if (EGPU_REAL(cuDeviceGetMemPool, Handle*, int)(pool, device) != kSuccess) *pool = NULL;
  return kSuccess;
}

EGPU_LIMITED(cuMemAllocAsync)(DevicePointer* out, size_t bytes, Handle stream) {
  struct PoolCall call;
  Handle pool;
  int card;
  if (streamPool(stream, 0, &pool, &card) != kSuccess) return kOutOfMemory;
  if (poolCallBegin(&call, pool, card, bytes) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAllocAsync, DevicePointer*, size_t, Handle)(out, bytes, stream);
  return poolCallEnd(&call, result, result == kSuccess ? *out : 0);
}

EGPU_LIMITED(cuMemAllocAsync_ptsz)(DevicePointer* out, size_t bytes, Handle stream) {
  struct PoolCall call;
  Handle pool;
  int card;
  if (streamPool(stream, 1, &pool, &card) != kSuccess) return kOutOfMemory;
  if (poolCallBegin(&call, pool, card, bytes) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAllocAsync_ptsz, DevicePointer*, size_t, Handle)(out, bytes, stream);
  return poolCallEnd(&call, result, result == kSuccess ? *out : 0);
}

/// A pool that was not seen before is on the current device: all others were seen when they were made.
static int beginFromPool(struct PoolCall* call, size_t bytes, Handle handle, Handle stream, int perThread) {
  Handle ofStream;
  int card;
  if (streamPool(stream, perThread, &ofStream, &card) != kSuccess) return kOutOfMemory;
  return poolCallBegin(call, ofStream == NULL ? NULL : handle, card, bytes);
}

EGPU_LIMITED(cuMemAllocFromPoolAsync)(DevicePointer* out, size_t bytes, Handle pool, Handle stream) {
  struct PoolCall call;
  if (beginFromPool(&call, bytes, pool, stream, 0) != kSuccess) return kOutOfMemory;
  const int result =
      EGPU_REAL(cuMemAllocFromPoolAsync, DevicePointer*, size_t, Handle, Handle)(out, bytes, pool, stream);
  return poolCallEnd(&call, result, result == kSuccess ? *out : 0);
}

EGPU_LIMITED(cuMemAllocFromPoolAsync_ptsz)(DevicePointer* out, size_t bytes, Handle pool, Handle stream) {
  struct PoolCall call;
  if (beginFromPool(&call, bytes, pool, stream, 1) != kSuccess) return kOutOfMemory;
  const int result =
      EGPU_REAL(cuMemAllocFromPoolAsync_ptsz, DevicePointer*, size_t, Handle, Handle)(out, bytes, pool, stream);
  return poolCallEnd(&call, result, result == kSuccess ? *out : 0);
}

void poolReleaseBegin(struct PoolRelease* release, DevicePointer address) {
  release->open = allocationTake(address, kPoolMemory, &release->allocation);
}

void poolReleaseEnd(struct PoolRelease* release, int result) {
  if (!release->open) return;
  if (result != kSuccess) {
    allocationAdd(&release->allocation);
    return;
  }
  struct Pool* pool = release->allocation.owner;
  lockAcquire(&pool->lock);
  pool->used -= release->allocation.bytes < pool->used ? release->allocation.bytes : pool->used;
  pool->released = 1;
  if (pool->ended) {  // the driver keeps a destroyed pool until its last allocation is released
    const uint64_t left = rounded(pool->used, kPoolChunk);
    if (left < pool->charged) {
      usageReturn(pool->card, pool->charged - left);
      pool->charged = left;
    }
  }
  lockRelease(&pool->lock);
  __atomic_store_n(&anyReleased, 1, __ATOMIC_RELAXED);
}

EGPU_LIMITED(cuMemFreeAsync)(DevicePointer address, Handle stream) {
  struct PoolRelease release;
  poolReleaseBegin(&release, address);
  const int result = EGPU_REAL(cuMemFreeAsync, DevicePointer, Handle)(address, stream);
  poolReleaseEnd(&release, result);
  return result;
}

EGPU_LIMITED(cuMemFreeAsync_ptsz)(DevicePointer address, Handle stream) {
  struct PoolRelease release;
  poolReleaseBegin(&release, address);
  const int result = EGPU_REAL(cuMemFreeAsync_ptsz, DevicePointer, Handle)(address, stream);
  poolReleaseEnd(&release, result);
  return result;
}

static int seenPool(int result, Handle* out, const struct MemLocation* location) {
  if (result == kSuccess && location != NULL)
    poolOf(*out, location->type == kLocationDevice ? cardOfDevice(location->id) : kUnlistedPassed);
  return result;
}

EGPU_LIMITED(cuMemPoolCreate)(Handle* out, const struct AllocationProperties* of) {
  const int result = EGPU_REAL(cuMemPoolCreate, Handle*, const void*)(out, of);
  return seenPool(result, out, of == NULL ? NULL : &of->location);
}

EGPU_LIMITED(cuMemGetDefaultMemPool)(Handle* out, struct MemLocation* location, int type) {
  return seenPool(EGPU_REAL(cuMemGetDefaultMemPool, Handle*, void*, int)(out, location, type), out, location);
}

EGPU_LIMITED(cuMemGetMemPool)(Handle* out, struct MemLocation* location, int type) {
  return seenPool(EGPU_REAL(cuMemGetMemPool, Handle*, void*, int)(out, location, type), out, location);
}

/// Memory of a pool of another process is charged there.
EGPU_LIMITED(cuMemPoolImportFromShareableHandle)(Handle* out, void* handle, int type, unsigned long long flags) {
  const int result =
      EGPU_REAL(cuMemPoolImportFromShareableHandle, Handle*, void*, int, unsigned long long)(out, handle, type, flags);
  if (result == kSuccess) poolOf(*out, kUnlistedPassed);
  return result;
}

EGPU_LIMITED(cuMemPoolDestroy)(Handle handle) {
  struct Pool* pool = findPool(handle);
  if (pool == NULL) return EGPU_REAL(cuMemPoolDestroy, Handle)(handle);
  lockAcquire(&pool->lock);
  const int result = EGPU_REAL(cuMemPoolDestroy, Handle)(handle);
  if (result == kSuccess) {
    const uint64_t left = rounded(pool->used, kPoolChunk);
    if (left < pool->charged) {
      usageReturn(pool->card, pool->charged - left);
      pool->charged = left;
    }
    pool->ended = 1;
  }
  lockRelease(&pool->lock);
  return result;
}

EGPU_LIMITED(cuMemPoolTrimTo)(Handle handle, size_t minimum) {
  const int result = EGPU_REAL(cuMemPoolTrimTo, Handle, size_t)(handle, minimum);
  if (result != kSuccess) return result;
  struct Pool* pool = findPool(handle);
  if (pool == NULL || pool->card < 0) return result;
  lockAcquire(&pool->lock);
  compare(pool);
  lockRelease(&pool->lock);
  return result;
}

// ---- graphs' memory

static uint64_t graphBytes(int device, int attribute) {
  uint64_t bytes = 0;
  if (!EGPU_HAS_REAL(cuDeviceGetGraphMemAttribute)) return 0;
  const int result = EGPU_REAL(cuDeviceGetGraphMemAttribute, int, int, void*)(device, attribute, &bytes);
  return result == kSuccess ? bytes : 0;
}

/// Makes the charge equal to the driver's reserved bytes. graphLock is held.
static void compareGraphs(int device) {
  const uint64_t reserved = graphBytes(device, kGraphReservedCurrent);
  const int card = cardOfDevice(device);
  if (reserved > graphCharged[device]) usageForce(card, reserved - graphCharged[device]);
  if (reserved < graphCharged[device]) usageReturn(card, graphCharged[device] - reserved);
  graphCharged[device] = reserved;
}

int graphMemoryBegin(int device, uint64_t bytes) {
  if (device < 0 || device >= kDevices) return 0;
  lockAcquire(&graphLock);
  const uint64_t used = graphBytes(device, kGraphUsedCurrent);
  const uint64_t spare = graphCharged[device] > used ? graphCharged[device] - used : 0;
  const uint64_t growth = bytes <= spare ? 0 : rounded(bytes - spare, kPoolChunk);
  const int granted = growth == 0 || usageReserve(cardOfDevice(device), growth);
  if (granted)
    graphCharged[device] += growth;
  else
    lockRelease(&graphLock);
  return granted;  // the lock is held until graphMemoryEnd
}

void graphMemoryEnd(int device) {
  compareGraphs(device);
  lockRelease(&graphLock);
}

EGPU_LIMITED(cuDeviceGraphMemTrim)(int device) {
  const int result = EGPU_REAL(cuDeviceGraphMemTrim, int)(device);
  if (result != kSuccess || device < 0 || device >= kDevices) return result;
  lockAcquire(&graphLock);
  compareGraphs(device);
  lockRelease(&graphLock);
  return result;
}

void poolsForgetAll(void) {
  pools = NULL;
  anyReleased = 0;
  memset(&listLock, 0, sizeof listLock);
  memset(&graphLock, 0, sizeof graphLock);
  memset(graphCharged, 0, sizeof graphCharged);
}

// ---- the end of work returns memory of pools to the device

EGPU_LIMITED(cuStreamSynchronize)(Handle stream) {
  const int result = EGPU_REAL(cuStreamSynchronize, Handle)(stream);
  if (result == kSuccess) poolsUpdate();
  return result;
}

EGPU_LIMITED(cuStreamSynchronize_ptsz)(Handle stream) {
  const int result = EGPU_REAL(cuStreamSynchronize_ptsz, Handle)(stream);
  if (result == kSuccess) poolsUpdate();
  return result;
}

EGPU_LIMITED(cuEventSynchronize)(Handle event) {
  const int result = EGPU_REAL(cuEventSynchronize, Handle)(event);
  if (result == kSuccess) poolsUpdate();
  return result;
}

EGPU_LIMITED(cuCtxSynchronize)(void) {
  const int result = EGPU_REAL(cuCtxSynchronize, void)();
  if (result == kSuccess) poolsUpdate();
  return result;
}

EGPU_LIMITED(cuCtxSynchronize_v2)(Handle context) {
  const int result = EGPU_REAL(cuCtxSynchronize_v2, Handle)(context);
  if (result == kSuccess) poolsUpdate();
  return result;
}
