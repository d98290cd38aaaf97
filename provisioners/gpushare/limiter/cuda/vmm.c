#include "provisioners/gpushare/limiter/cuda/vmm.h"

#include <stdlib.h>
#include <string.h>

#include "provisioners/gpushare/limiter/cuda/cards.h"
#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

/// A physical allocation.
struct Physical {
  uint64_t handle, bytes;
  uint32_t handles, mappings;
  int card;
  struct Physical* next;
};

/// A mapping to addresses, or into an array (`bytes` is 0, `at` the array).
struct Mapping {
  uint64_t at, bytes;
  struct Physical* physical;
  struct Mapping* next;
};

enum { kBuckets = 1024 };

static struct Lock lock;  ///< guards all below
static struct Physical* physicals[kBuckets];
static struct Mapping* mappings[kBuckets];  ///< by `at`, in units of 2 MiB
static struct Mapping* arrayMappings;

static unsigned bucketOf(uint64_t key) { return (unsigned)((key * 0x9e3779b97f4a7c15u) >> 54); }
static unsigned bucketAt(uint64_t address) { return bucketOf(address >> 21); }

static struct Physical** findPhysical(uint64_t handle) {
  struct Physical** at = &physicals[bucketOf(handle)];
  while (*at != NULL && ((*at)->handle != handle || (*at)->handles == 0)) at = &(*at)->next;
  return at;
}

static void unlinkPhysical(struct Physical* physical) {
  struct Physical** at = &physicals[bucketOf(physical->handle)];
  while (*at != physical) at = &(*at)->next;
  *at = physical->next;
}

static struct Physical* mappedAt(uint64_t address) {
  for (int i = 0; i < kBuckets; i++)
    for (struct Mapping* at = mappings[i]; at != NULL; at = at->next)
      if (address >= at->at && address - at->at < at->bytes) return at->physical;
  return NULL;
}

/// Removes an allocation without handle and mapping. Returns its bytes, which are to be returned without the lock.
static uint64_t endIfUnused(struct Physical* physical, int* card) {
  if (physical->handles != 0 || physical->mappings != 0) return 0;
  unlinkPhysical(physical);
  const uint64_t bytes = physical->bytes;
  *card = physical->card;
  free(physical);
  return bytes;
}

EGPU_LIMITED(cuMemCreate)
(uint64_t* out, size_t bytes, const struct AllocationProperties* of, unsigned long long flags) {
  int card = kUnlistedPassed;
  if (of != NULL && of->location.type == kLocationDevice) card = cardOfDevice(of->location.id);
  if (!usageReserve(card, bytes)) return kOutOfMemory;
  const int result = EGPU_REAL(cuMemCreate, uint64_t*, size_t, const void*, unsigned long long)(out, bytes, of, flags);
  struct Physical* physical = result == kSuccess && card >= 0 ? malloc(sizeof *physical) : NULL;
  if (result != kSuccess) usageReturn(card, bytes);
  if (physical == NULL) return result;
  *physical = (struct Physical){*out, bytes, 1, 0, card, NULL};
  lockAcquire(&lock);
  physical->next = physicals[bucketOf(*out)];
  physicals[bucketOf(*out)] = physical;
  lockRelease(&lock);
  return result;
}

EGPU_LIMITED(cuMemRelease)(uint64_t handle) {
  int card = -1;
  uint64_t bytes = 0;
  // The record changes first: the driver may give the same handle to another thread as soon as it is free.
  lockAcquire(&lock);
  struct Physical* physical = *findPhysical(handle);
  if (physical != NULL) physical->handles--;
  const int result = EGPU_REAL(cuMemRelease, uint64_t)(handle);
  if (physical != NULL && result != kSuccess)
    physical->handles++;
  else if (physical != NULL)
    bytes = endIfUnused(physical, &card);
  lockRelease(&lock);
  usageReturn(card, bytes);
  return result;
}

EGPU_LIMITED(cuMemRetainAllocationHandle)(uint64_t* out, void* address) {
  const int result = EGPU_REAL(cuMemRetainAllocationHandle, uint64_t*, void*)(out, address);
  if (result != kSuccess) return result;
  lockAcquire(&lock);
  struct Physical* physical = *findPhysical(*out);
  if (physical == NULL && (physical = mappedAt((uintptr_t)address)) != NULL) {
    // Its handle was released, and it may have another one now.
    unlinkPhysical(physical);
    physical->handle = *out;
    physical->next = physicals[bucketOf(*out)];
    physicals[bucketOf(*out)] = physical;
  }
  if (physical != NULL) physical->handles++;
  lockRelease(&lock);
  return result;
}

static void addMapping(struct Mapping** list, uint64_t at, uint64_t bytes, uint64_t handle) {
  lockAcquire(&lock);
  struct Physical* physical = *findPhysical(handle);
  struct Mapping* mapping = physical == NULL ? NULL : malloc(sizeof *mapping);
  if (mapping != NULL) {
    *mapping = (struct Mapping){at, bytes, physical, *list};
    *list = mapping;
    physical->mappings++;
  }
  lockRelease(&lock);
}

EGPU_LIMITED(cuMemMap)(DevicePointer at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
  const int result = EGPU_REAL(cuMemMap, DevicePointer, size_t, size_t, uint64_t, unsigned long long)(at, bytes, offset,
                                                                                                      handle, flags);
  if (result == kSuccess) addMapping(&mappings[bucketAt(at)], at, bytes, handle);
  return result;
}

/// Removes the mappings of a list within a range, and stores up to one card's bytes per call of the loop.
static void dropMappings(struct Mapping** list, uint64_t from, uint64_t bytes, uint64_t* freed) {
  for (struct Mapping** at = list; *at != NULL;) {
    struct Mapping* mapping = *at;
    const int inside = mapping->bytes == 0 ? mapping->at == from : mapping->at >= from && mapping->at - from < bytes;
    if (!inside) {
      at = &mapping->next;
      continue;
    }
    *at = mapping->next;
    mapping->physical->mappings--;
    int card = -1;
    const uint64_t ended = endIfUnused(mapping->physical, &card);
    if (card >= 0) freed[card] += ended;
    free(mapping);
  }
}

static void returnAll(const uint64_t* freed) {
  for (int card = 0; card < (int)EGPU_LIMITER_CARDS; card++) usageReturn(card, freed[card]);
}

EGPU_LIMITED(cuMemUnmap)(DevicePointer from, size_t bytes) {
  uint64_t freed[EGPU_LIMITER_CARDS] = {0};
  lockAcquire(&lock);
  const int result = EGPU_REAL(cuMemUnmap, DevicePointer, size_t)(from, bytes);
  const uint64_t units = ((from & 0x1fffff) + bytes + 0x1fffff) >> 21;
  for (uint64_t i = 0; result == kSuccess && i < (units < kBuckets ? units : kBuckets); i++)
    dropMappings(units < kBuckets ? &mappings[bucketAt(from + (i << 21))] : &mappings[i], from, bytes, freed);
  lockRelease(&lock);
  returnAll(freed);
  return result;
}

/// Memory mapped into an array stays charged until the array ends: an unmapping does not name the memory.
static void mapArrays(const struct ArrayMapping* list, unsigned count) {
  for (unsigned i = 0; list != NULL && i < count; i++)
    if (list[i].operation == 1) addMapping(&arrayMappings, (uintptr_t)list[i].resource, 0, list[i].handle);
}

EGPU_LIMITED(cuMemMapArrayAsync)(struct ArrayMapping* list, unsigned count, Handle stream) {
  const int result = EGPU_REAL(cuMemMapArrayAsync, void*, unsigned, Handle)(list, count, stream);
  if (result == kSuccess) mapArrays(list, count);
  return result;
}

EGPU_LIMITED(cuMemMapArrayAsync_ptsz)(struct ArrayMapping* list, unsigned count, Handle stream) {
  const int result = EGPU_REAL(cuMemMapArrayAsync_ptsz, void*, unsigned, Handle)(list, count, stream);
  if (result == kSuccess) mapArrays(list, count);
  return result;
}

void vmmArrayEnded(Handle array) {
  uint64_t freed[EGPU_LIMITER_CARDS] = {0};
  if (__atomic_load_n(&arrayMappings, __ATOMIC_RELAXED) == NULL) return;
  lockAcquire(&lock);
  dropMappings(&arrayMappings, (uintptr_t)array, 0, freed);
  lockRelease(&lock);
  returnAll(freed);
}

void vmmForgetAll(void) {
  memset(&lock, 0, sizeof lock);
  memset(physicals, 0, sizeof physicals);
  memset(mappings, 0, sizeof mappings);
  arrayMappings = NULL;
}
