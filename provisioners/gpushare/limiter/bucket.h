/* GPU time as tokens (struct egpu_limiter_bucket), shared by the processes of a container. The clock is an argument, so
 * that simulations use the same code. Time adds tokens up to one burst. A launch that took less time than it was
 * charged returns tokens, so there may be more than a burst, up to egpu_bucket_max. Whatever the page contains,
 * egpu_bucket_refill brings the tokens back between the greatest debt and that number. Any thread, any process. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_BUCKET_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_BUCKET_H

#include <stdint.h>

#include "provisioners/gpushare/limiter/page.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EGPU_BUCKET_BURST_TIME 50000000  /* ns of the card's share that are kept while nothing runs */
#define EGPU_BUCKET_MAX_DEBT 10000000000 /* ns of GPU time */
#define EGPU_BUCKET_DEFAULT_PRICE 10000u /* ns, of a kernel that was not measured yet */

/** Returns event time times factor. */
static inline int64_t egpu_bucket_price(uint64_t eventTime, uint32_t factor) {
  if (eventTime > EGPU_BUCKET_MAX_DEBT) eventTime = EGPU_BUCKET_MAX_DEBT;
  return (int64_t)(eventTime * factor / EGPU_LIMITER_FACTOR_ONE);
}

static inline int64_t egpu_bucket_tokens(const struct egpu_limiter_bucket* bucket) {
  return (int64_t)(__atomic_load_n(&bucket->granted, __ATOMIC_RELAXED) -
                   __atomic_load_n(&bucket->spent, __ATOMIC_RELAXED));
}

/** Greatest number of tokens that time adds, for a share of `cores` milli-cards. */
static inline int64_t egpu_bucket_burst(uint32_t cores) {
  return (int64_t)EGPU_BUCKET_BURST_TIME / EGPU_LIMITER_WHOLE * cores;
}

/** Greatest number of tokens, with those that were returned. */
static inline int64_t egpu_bucket_max(uint32_t cores) { return 10 * egpu_bucket_burst(cores); }

/** True if a launch may proceed. False also if the page contains an impossible number: refill, then ask again. */
static inline int egpu_bucket_allows(const struct egpu_limiter_bucket* bucket, uint32_t cores) {
  return (uint64_t)egpu_bucket_tokens(bucket) <= (uint64_t)egpu_bucket_max(cores);
}

/** Charges nanoseconds; negative to correct. */
static inline void egpu_bucket_charge(struct egpu_limiter_bucket* bucket, int64_t nanoseconds) {
  __atomic_fetch_add(&bucket->spent, (uint64_t)nanoseconds, __ATOMIC_RELAXED);
}

/** Adds the tokens of the time since the last refill. `now` is CLOCK_MONOTONIC in nanoseconds. Returns the tokens. */
int64_t egpu_bucket_refill(struct egpu_limiter_bucket* bucket, uint32_t cores, uint64_t now);

/** Returns the nanoseconds until a bucket with these tokens allows a launch. */
static inline uint64_t egpu_bucket_wait(int64_t tokens, uint32_t cores) {
  return tokens >= 0 ? 0 : (uint64_t)-tokens * EGPU_LIMITER_WHOLE / (cores == 0 ? 1 : cores);
}

#ifdef __cplusplus
}
#endif

#endif
