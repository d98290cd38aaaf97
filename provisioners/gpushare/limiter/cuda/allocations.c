#include "provisioners/gpushare/limiter/cuda/allocations.h"

#include <stdlib.h>
#include <string.h>

#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/usage.h"

enum { kShards = 64, kFirstCapacity = 64 };

/// Open addressing with linear probing, at most half full. A free cell has the kind 0.
static struct Shard {
  struct Lock lock;
  uint32_t capacity, count;
  struct Allocation* cells;
} shards[kShards];

static uint64_t hashOf(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdu;
  return key ^ key >> 33;
}

static struct Shard* shardOf(uint64_t hash) { return &shards[hash % kShards]; }

static uint32_t home(const struct Shard* shard, uint64_t key) {
  return (uint32_t)(hashOf(key) >> 8) & (shard->capacity - 1);
}

/// Returns the cell of a key, or the free cell where it belongs.
static struct Allocation* find(const struct Shard* shard, uint64_t key, int kind) {
  uint32_t at = home(shard, key);
  while (shard->cells[at].kind != 0 && (shard->cells[at].key != key || shard->cells[at].kind != kind))
    at = (at + 1) & (shard->capacity - 1);
  return &shard->cells[at];
}

static int grow(struct Shard* shard) {
  struct Shard larger = *shard;
  larger.capacity = shard->capacity == 0 ? kFirstCapacity : shard->capacity * 2;
  larger.cells = calloc(larger.capacity, sizeof *larger.cells);
  if (larger.cells == NULL) return 0;
  for (uint32_t i = 0; i < shard->capacity; i++)
    if (shard->cells[i].kind != 0) *find(&larger, shard->cells[i].key, shard->cells[i].kind) = shard->cells[i];
  free(shard->cells);
  shard->cells = larger.cells;
  shard->capacity = larger.capacity;
  return 1;
}

int allocationAdd(const struct Allocation* allocation) {
  struct Shard* shard = shardOf(hashOf(allocation->key));
  lockAcquire(&shard->lock);
  int added = shard->count * 2 < shard->capacity || grow(shard);
  if (added) {
    struct Allocation* cell = find(shard, allocation->key, allocation->kind);
    if (cell->kind == 0) shard->count++;
    *cell = *allocation;
  }
  lockRelease(&shard->lock);
  return added;
}

/// Frees a cell and moves those behind it that would no longer be found.
static void removeCell(struct Shard* shard, struct Allocation* cell) {
  const uint32_t mask = shard->capacity - 1;
  uint32_t hole = (uint32_t)(cell - shard->cells);
  for (uint32_t at = (hole + 1) & mask; shard->cells[at].kind != 0; at = (at + 1) & mask)
    if (((at - home(shard, shard->cells[at].key)) & mask) >= ((at - hole) & mask)) {
      shard->cells[hole] = shard->cells[at];
      hole = at;
    }
  shard->cells[hole].kind = 0;
  shard->count--;
}

int allocationTake(uint64_t key, int kind, struct Allocation* out) {
  struct Shard* shard = shardOf(hashOf(key));
  int found = 0;
  lockAcquire(&shard->lock);
  if (shard->capacity != 0) {
    struct Allocation* cell = find(shard, key, kind);
    if (cell->kind != 0) {
      *out = *cell;
      removeCell(shard, cell);
      found = 1;
    }
  }
  lockRelease(&shard->lock);
  return found;
}

void allocationDropOwner(Handle owner, int pools, uint64_t* bytes) {
  for (int i = 0; i < kShards; i++) {
    struct Shard* shard = &shards[i];
    lockAcquire(&shard->lock);
    for (uint32_t at = 0; at < shard->capacity;) {
      struct Allocation* cell = &shard->cells[at];
      if (cell->kind == 0 || cell->owner != owner || (cell->kind == kPoolMemory) != (pools != 0)) {
        at++;
        continue;
      }
      if (cell->card >= 0) bytes[cell->card] += cell->bytes;
      removeCell(shard, cell);  // looks at this cell again: another one may have moved here
    }
    lockRelease(&shard->lock);
  }
}

void allocationForgetAll(void) { memset(shards, 0, sizeof shards); }
