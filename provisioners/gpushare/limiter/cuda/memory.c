// Plain allocations, arrays, and the amounts of memory that the driver reports.
#include <limits.h>
#include <string.h>

#include "provisioners/gpushare/limiter/cuda/charge.h"
#include "provisioners/gpushare/limiter/cuda/pools.h"
#include "provisioners/gpushare/limiter/cuda/vmm.h"
#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

enum { kPitchAlignment = 512 };

/// Product that saturates: such a request is refused.
static uint64_t product(uint64_t a, uint64_t b) {
  uint64_t out;
  return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX : out;
}

EGPU_LIMITED(cuMemAlloc_v2)(DevicePointer* out, size_t bytes) {
  struct Charge charge;
  if (chargeCurrent(&charge, bytes, kDeviceMemory) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAlloc_v2, DevicePointer*, size_t)(out, bytes);
  return chargeEnd(&charge, result, result == kSuccess ? *out : 0);
}

EGPU_LIMITED(cuMemAlloc)(unsigned* out, unsigned bytes) {
  struct Charge charge;
  if (chargeCurrent(&charge, bytes, kDeviceMemory) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAlloc, unsigned*, unsigned)(out, bytes);
  return chargeEnd(&charge, result, result == kSuccess ? *out : 0);
}

/// The driver chooses the pitch. It is a multiple of 512 bytes on all cards so far; the difference is corrected after.
static int endPitch(struct Charge* charge, int result, uint64_t key, uint64_t pitch, uint64_t height) {
  const uint64_t real = product(pitch, height);
  if (result == kSuccess && charge->open && real > charge->allocation.bytes) {
    usageForce(charge->allocation.card, real - charge->allocation.bytes);
    charge->allocation.bytes = real;
  }
  return chargeEnd(charge, result, key);
}

static uint64_t pitchedBytes(uint64_t width, uint64_t height) {
  if (width > UINT64_MAX - kPitchAlignment) return UINT64_MAX;
  return product((width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment, height);
}

EGPU_LIMITED(cuMemAllocPitch_v2)(DevicePointer* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  struct Charge charge;
  if (chargeCurrent(&charge, pitchedBytes(width, height), kDeviceMemory) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAllocPitch_v2, DevicePointer*, size_t*, size_t, size_t, unsigned)(out, pitch, width,
                                                                                                      height, element);
  return result == kSuccess ? endPitch(&charge, result, *out, *pitch, height) : chargeEnd(&charge, result, 0);
}

EGPU_LIMITED(cuMemAllocPitch)(unsigned* out, unsigned* pitch, unsigned width, unsigned height, unsigned element) {
  struct Charge charge;
  if (chargeCurrent(&charge, pitchedBytes(width, height), kDeviceMemory) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAllocPitch, unsigned*, unsigned*, unsigned, unsigned, unsigned)(out, pitch, width,
                                                                                                    height, element);
  return result == kSuccess ? endPitch(&charge, result, *out, *pitch, height) : chargeEnd(&charge, result, 0);
}

EGPU_LIMITED(cuMemAllocManaged)(DevicePointer* out, size_t bytes, unsigned flags) {
  struct Charge charge;
  if (chargeCurrent(&charge, bytes, kDeviceMemory) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemAllocManaged, DevicePointer*, size_t, unsigned)(out, bytes, flags);
  return chargeEnd(&charge, result, result == kSuccess ? *out : 0);
}

EGPU_LIMITED(cuMemFree_v2)(DevicePointer address) {
  struct Charge charge;
  struct PoolRelease pool = {.open = 0};
  releaseBegin(&charge, address, kDeviceMemory);
  if (!charge.open) poolReleaseBegin(&pool, address);  // memory of a pool may be freed this way, too
  const int result = EGPU_REAL(cuMemFree_v2, DevicePointer)(address);
  if (charge.open) return releaseEnd(&charge, result);
  poolReleaseEnd(&pool, result);
  if (result == kSuccess && pool.open) poolsUpdate();
  return result;
}

EGPU_LIMITED(cuMemFree)(unsigned address) {
  struct Charge charge;
  releaseBegin(&charge, address, kDeviceMemory);
  return releaseEnd(&charge, EGPU_REAL(cuMemFree, unsigned)(address));
}

/// Bytes of an array's element, from the numbers of CUarray_format; 8 per channel for formats that are not known, which
/// is the most of all.
static unsigned elementBytes(int format, unsigned channels) {
  static const struct {
    int format;
    unsigned bytes;
    int whole;  ///< bytes of all channels
  } kFormats[] = {{0x01, 1, 0}, {0x02, 2, 0}, {0x03, 4, 0}, {0x08, 1, 0}, {0x09, 2, 0}, {0x0a, 4, 0}, {0x10, 2, 0},
                  {0x20, 4, 0}, {0xc0, 1, 1}, {0xc1, 2, 1}, {0xc2, 4, 1}, {0xc3, 2, 1}, {0xc4, 4, 1}, {0xc5, 8, 1},
                  {0xc6, 1, 1}, {0xc7, 2, 1}, {0xc8, 4, 1}, {0xc9, 2, 1}, {0xca, 4, 1}, {0xcb, 8, 1}, {0x50, 4, 1}};
  for (unsigned i = 0; i < sizeof kFormats / sizeof *kFormats; i++)
    if (kFormats[i].format == format) return kFormats[i].whole ? kFormats[i].bytes : kFormats[i].bytes * channels;
  if (format >= 0x91 && format <= 0x9e) return 1;  // compressed blocks: at most 16 bytes per 4 x 4 elements
  return 8 * (channels == 0 ? 1 : channels);
}

static uint64_t levelBytes(const struct Array3dDescriptor* of, unsigned level) {
  uint64_t size = elementBytes(of->format, of->channels);
  const int layered = (of->flags & 1) != 0;
  const size_t sides[] = {of->width, of->height, layered ? 0 : of->depth};
  for (int i = 0; i < 3; i++) {
    const size_t side = level < 64 ? sides[i] >> level : 0;
    size = product(size, side == 0 ? 1 : side);
  }
  return layered && of->depth != 0 ? product(size, of->depth) : size;
}

static int chargeArray(struct Charge* charge, const struct Array3dDescriptor* of, unsigned levels) {
  uint64_t bytes = 0;
  if ((of->flags & kArrayWithoutMemory) == 0)
    for (unsigned level = 0; level < levels && level < 64; level++) {
      const uint64_t more = levelBytes(of, level);
      bytes = bytes + more < bytes ? UINT64_MAX : bytes + more;
    }
  return chargeCurrent(charge, bytes, kArrayMemory);
}

static struct Array3dDescriptor fromOld(const struct Array3dDescriptorOld* of) {
  return (struct Array3dDescriptor){of->width, of->height, of->depth, of->format, of->channels, of->flags};
}

static uint64_t keyOf(int result, Handle* array) { return result == kSuccess ? (uintptr_t)*array : 0; }

EGPU_LIMITED(cuArrayCreate_v2)(Handle* out, const struct ArrayDescriptor* of) {
  struct Charge charge = {0};
  const struct Array3dDescriptor whole = {of ? of->width : 0,  of ? of->height : 0,   0,
                                          of ? of->format : 0, of ? of->channels : 0, 0};
  if (of != NULL && chargeArray(&charge, &whole, 1) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuArrayCreate_v2, Handle*, const void*)(out, of);
  return chargeEnd(&charge, result, keyOf(result, out));
}

EGPU_LIMITED(cuArrayCreate)(Handle* out, const struct ArrayDescriptorOld* of) {
  struct Charge charge = {0};
  const struct Array3dDescriptor whole = {of ? of->width : 0,  of ? of->height : 0,   0,
                                          of ? of->format : 0, of ? of->channels : 0, 0};
  if (of != NULL && chargeArray(&charge, &whole, 1) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuArrayCreate, Handle*, const void*)(out, of);
  return chargeEnd(&charge, result, keyOf(result, out));
}

EGPU_LIMITED(cuArray3DCreate_v2)(Handle* out, const struct Array3dDescriptor* of) {
  struct Charge charge = {0};
  if (of != NULL && chargeArray(&charge, of, 1) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuArray3DCreate_v2, Handle*, const void*)(out, of);
  return chargeEnd(&charge, result, keyOf(result, out));
}

EGPU_LIMITED(cuArray3DCreate)(Handle* out, const struct Array3dDescriptorOld* of) {
  struct Charge charge = {0};
  const struct Array3dDescriptor whole = of != NULL ? fromOld(of) : (struct Array3dDescriptor){0};
  if (of != NULL && chargeArray(&charge, &whole, 1) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuArray3DCreate, Handle*, const void*)(out, of);
  return chargeEnd(&charge, result, keyOf(result, out));
}

EGPU_LIMITED(cuMipmappedArrayCreate)(Handle* out, const struct Array3dDescriptor* of, unsigned levels) {
  struct Charge charge = {0};
  if (of != NULL && chargeArray(&charge, of, levels == 0 ? 1 : levels) != kSuccess) return kOutOfMemory;
  const int result = EGPU_REAL(cuMipmappedArrayCreate, Handle*, const void*, unsigned)(out, of, levels);
  return chargeEnd(&charge, result, keyOf(result, out));
}

EGPU_LIMITED(cuArrayDestroy)(Handle array) {
  struct Charge charge;
  releaseBegin(&charge, (uintptr_t)array, kArrayMemory);
  const int result = releaseEnd(&charge, EGPU_REAL(cuArrayDestroy, Handle)(array));
  if (result == kSuccess) vmmArrayEnded(array);
  return result;
}

EGPU_LIMITED(cuMipmappedArrayDestroy)(Handle array) {
  struct Charge charge;
  releaseBegin(&charge, (uintptr_t)array, kArrayMemory);
  const int result = releaseEnd(&charge, EGPU_REAL(cuMipmappedArrayDestroy, Handle)(array));
  if (result == kSuccess) vmmArrayEnded(array);
  return result;
}

/// Lowers reported amounts of the current card's memory to the share.
static void clampInfo(uint64_t* freeBytes, uint64_t* total) {
  Handle context;
  int device;
  if (currentContext(&context, &device) != 0) return;
  const int card = cardOfDevice(device);
  uint64_t used;
  poolsUpdate();
  const uint64_t limit = usageShare(card, &used);
  if (limit == EGPU_LIMITER_NO_LIMIT) return;
  const uint64_t rest = used < limit ? limit - used : 0;
  if (*total > limit) *total = limit;
  if (*freeBytes > rest) *freeBytes = rest;
}

EGPU_LIMITED(cuMemGetInfo_v2)(size_t* freeBytes, size_t* total) {
  uint64_t ofFree = 0, ofTotal = 0;
  const int result =
      EGPU_REAL(cuMemGetInfo_v2, uint64_t*, uint64_t*)(freeBytes ? &ofFree : NULL, total ? &ofTotal : NULL);
  if (result != kSuccess) return result;
  clampInfo(&ofFree, &ofTotal);
  if (freeBytes != NULL) *freeBytes = ofFree;
  if (total != NULL) *total = ofTotal;
  return result;
}

EGPU_LIMITED(cuMemGetInfo)(unsigned* freeBytes, unsigned* total) {
  const int result = EGPU_REAL(cuMemGetInfo, unsigned*, unsigned*)(freeBytes, total);
  if (result != kSuccess || freeBytes == NULL || total == NULL) return result;
  uint64_t ofFree = *freeBytes, ofTotal = *total;
  clampInfo(&ofFree, &ofTotal);
  *freeBytes = (unsigned)ofFree;
  *total = (unsigned)ofTotal;
  return result;
}

EGPU_LIMITED(cuDeviceTotalMem_v2)(size_t* bytes, int device) {
  const int result = EGPU_REAL(cuDeviceTotalMem_v2, size_t*, int)(bytes, device);
  if (result != kSuccess) return result;
  const uint64_t limit = usageLimit(cardOfDevice(device));
  if (*bytes > limit) *bytes = limit;
  return result;
}

EGPU_LIMITED(cuDeviceTotalMem)(unsigned* bytes, int device) {
  const int result = EGPU_REAL(cuDeviceTotalMem, unsigned*, int)(bytes, device);
  if (result != kSuccess) return result;
  const uint64_t limit = usageLimit(cardOfDevice(device));
  if (*bytes > limit) *bytes = (unsigned)limit;
  return result;
}
