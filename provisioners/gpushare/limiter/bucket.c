#include "provisioners/gpushare/limiter/bucket.h"

int64_t egpu_bucket_refill(struct egpu_limiter_bucket* bucket, uint32_t cores, uint64_t now) {
  uint64_t last = __atomic_load_n(&bucket->refilled, __ATOMIC_ACQUIRE);
  int64_t more = 0;
  // Several threads and processes refill: the tokens of a period are added once.
  if (last != now &&
      __atomic_compare_exchange_n(&bucket->refilled, &last, now, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    uint64_t elapsed = now > last ? now - last : 0;
    if (elapsed > EGPU_BUCKET_MAX_DEBT) elapsed = EGPU_BUCKET_MAX_DEBT;  // the first refill, or a page that was damaged
    more = (int64_t)(elapsed * cores / EGPU_LIMITER_WHOLE);
  }
  const int64_t burst = egpu_bucket_burst(cores), max = egpu_bucket_max(cores);
  uint64_t granted = __atomic_load_n(&bucket->granted, __ATOMIC_RELAXED);
  int64_t tokens;
  uint64_t next;
  do {
    const uint64_t spent = __atomic_load_n(&bucket->spent, __ATOMIC_RELAXED);
    tokens = (int64_t)(granted - spent);
    if (tokens < -(int64_t)EGPU_BUCKET_MAX_DEBT) tokens = -(int64_t)EGPU_BUCKET_MAX_DEBT;
    if (tokens > max) tokens = max;
    if (tokens < burst) tokens = tokens + more > burst ? burst : tokens + more;
    next = spent + (uint64_t)tokens;
  } while (next != granted &&
           !__atomic_compare_exchange_n(&bucket->granted, &granted, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return tokens;
}
