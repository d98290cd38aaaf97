#include "provisioners/gpushare/limiter/page.h"

#include <string.h>

uint64_t egpu_limiter_checksum(const void* bytes, size_t size) {
  const unsigned char* at = bytes;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

uint64_t egpu_limiter_paths_checksum(const struct egpu_limiter_limits* limits) {
  return egpu_limiter_checksum(&limits->size, sizeof limits->size) ^
         egpu_limiter_checksum(limits->cuda, sizeof limits->cuda + sizeof limits->nvml);
}

int egpu_limiter_make_limits(struct egpu_limiter_limits* limits, const char* cuda, const char* nvml) {
  memset(limits, 0, sizeof *limits);
  const size_t cudaLength = strlen(cuda), nvmlLength = strlen(nvml);
  if (cudaLength >= sizeof limits->cuda || nvmlLength >= sizeof limits->nvml) return -1;
  memmove(limits->cuda, cuda, cudaLength);
  memmove(limits->nvml, nvml, nvmlLength);
  limits->size = sizeof *limits;
  limits->checksum = egpu_limiter_paths_checksum(limits);
  limits->magic = EGPU_LIMITER_MAGIC;
  return 0;
}

void egpu_limiter_make_usage(struct egpu_limiter_usage* usage) {
  memset(usage, 0, sizeof *usage);
  usage->size = sizeof *usage;
  usage->magic = EGPU_LIMITER_MAGIC;
}

void egpu_limiter_set(struct egpu_limiter_limits* limits, const struct egpu_limiter_card* cards, uint32_t count,
                      uint32_t flags) {
  const uint32_t next = __atomic_load_n(&limits->sequence, __ATOMIC_RELAXED) + 1;
  struct egpu_limiter_bank bank;
  memset(&bank, 0, sizeof bank);
  bank.cards = count < EGPU_LIMITER_CARDS ? count : EGPU_LIMITER_CARDS;
  bank.flags = flags;
  for (uint32_t i = 0; i < bank.cards; i++) bank.card[i] = cards[i];
  bank.checksum = egpu_limiter_checksum(&bank, offsetof(struct egpu_limiter_bank, checksum));
  // Word by word: a process that still reads this bank sees a wrong checksum, or a sequence that has changed.
  uint64_t* to = (uint64_t*)&limits->bank[next & 1];
  const uint64_t* from = (const uint64_t*)&bank;
  for (size_t i = 0; i < sizeof bank / sizeof *to; i++) __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
  __atomic_store_n(&limits->sequence, next, __ATOMIC_RELEASE);
}

static int readBank(const struct egpu_limiter_limits* limits, uint32_t sequence, struct egpu_limiter_bank* out) {
  const uint64_t* from = (const uint64_t*)&limits->bank[sequence & 1];
  uint64_t* to = (uint64_t*)out;
  for (size_t i = 0; i < sizeof *out / sizeof *to; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
  return out->cards <= EGPU_LIMITER_CARDS &&
                 out->checksum == egpu_limiter_checksum(out, offsetof(struct egpu_limiter_bank, checksum))
             ? 0
             : -1;
}

int egpu_limiter_get(const struct egpu_limiter_limits* limits, struct egpu_limiter_bank* out) {
  // The agent seldom writes: the second attempt already finds a bank that stays.
  for (int attempt = 0; attempt < 64; attempt++) {
    const uint32_t sequence = __atomic_load_n(&limits->sequence, __ATOMIC_ACQUIRE);
    const int result = readBank(limits, sequence, out);
    if (__atomic_load_n(&limits->sequence, __ATOMIC_RELAXED) == sequence) return result;
  }
  return -1;
}

static uint64_t addSaturated(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

uint64_t egpu_limiter_used(const struct egpu_limiter_usage* usage, uint32_t card) {
  if (card >= EGPU_LIMITER_CARDS) return 0;
  uint64_t sum = 0;
  uint32_t high = __atomic_load_n(&usage->high, __ATOMIC_ACQUIRE);
  if (high > EGPU_LIMITER_SLOTS) high = EGPU_LIMITER_SLOTS;
  for (uint32_t i = 0; i < high; i++) sum = addSaturated(sum, __atomic_load_n(&usage->used[card][i], __ATOMIC_RELAXED));
  return sum;
}

uint32_t egpu_limiter_clear(struct egpu_limiter_usage* usage, egpu_limiter_runs runs, void* context) {
  uint32_t cleared = 0;
  for (uint32_t i = 0; i < EGPU_LIMITER_SLOTS; i++) {
    struct egpu_limiter_slot* slot = &usage->slot[i];
    const uint64_t owner = __atomic_load_n(&slot->owner, __ATOMIC_ACQUIRE);
    const uint64_t started = __atomic_load_n(&slot->started, __ATOMIC_ACQUIRE);
    if (owner == 0 || runs(context, owner, started, __atomic_load_n(&slot->pidNamespace, __ATOMIC_RELAXED))) continue;
    __atomic_store_n(&usage->want[i].bytes, 0, __ATOMIC_RELAXED);
    for (uint32_t card = 0; card < EGPU_LIMITER_CARDS; card++)
      __atomic_store_n(&usage->used[card][i], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->started, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->pidNamespace, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
    cleared++;
  }
  return cleared;
}

static uint64_t squareRoot(uint64_t value) {
  uint64_t root = 0;
  for (uint64_t bit = (uint64_t)1 << 31; bit != 0; bit >>= 1)
    if ((root | bit) <= value / (root | bit)) root |= bit;
  return root;
}

uint32_t egpu_limiter_next_factor(uint32_t factor, uint64_t measured, uint64_t charged) {
  const uint64_t old = factor == 0 ? EGPU_LIMITER_FACTOR_ONE : factor;
  if (measured == 0 || charged == 0) return (uint32_t)old;
  // The square root damps: half of the error, in logarithms, is corrected per period.
  const uint64_t scaledMeasured = measured >> 16, scaledCharged = charged >> 16;
  uint64_t ratio = ((scaledMeasured == 0 ? 1 : scaledMeasured) << 16) / (scaledCharged == 0 ? 1 : scaledCharged);
  if (ratio > (uint64_t)1 << 32) ratio = (uint64_t)1 << 32;
  const uint64_t root = squareRoot(ratio << 16);
  const uint64_t next = old * root >> 16;
  const uint64_t least = EGPU_LIMITER_FACTOR_ONE / 20, max = EGPU_LIMITER_FACTOR_ONE + EGPU_LIMITER_FACTOR_ONE / 2;
  return (uint32_t)(next < least ? least : next > max ? max : next);
}
