/* This process's part of the shared pages (page.h): limits in force, its slot, and reservations of memory. All
 * functions may be called by any thread. Cards are places in the limits file. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_USAGE_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_USAGE_H

#include <stdint.h>

#include "provisioners/gpushare/limiter/forward.h"
#include "provisioners/gpushare/limiter/page.h"

enum {
  kUnlistedPassed = -1,   ///< a card that is not listed and not limited
  kUnlistedRefused = -2,  ///< a card that is not listed, of which nothing is granted
  kUsageAttached = 2      ///< value of UsageFast.attached in a process that has its slot
};

/** Spin lock that yields. Zero is unlocked. */
struct Lock {
  int held;
};
void lockAcquire(struct Lock* lock) EGPU_HIDDEN;
void lockRelease(struct Lock* lock) EGPU_HIDDEN;

/** Maps both files. Called once, by egpuRealPath. Without valid files, all limits are 0 and the reason is printed. */
void usageOpen(void) EGPU_HIDDEN;
/** True if both files were valid at the start. */
int usageValid(void) EGPU_HIDDEN;
/** Returns the mapped limits, or NULL. */
const struct egpu_limiter_limits* usageLimits(void) EGPU_HIDDEN;
/** Returns the mapped usage, or NULL. */
struct egpu_limiter_usage* usagePage(void) EGPU_HIDDEN;

/** Sets the function that forgets what a parent process held, which is called in a child after a fork. */
void usageOnFork(void (*forget)(void)) EGPU_HIDDEN;

/** Returns the place of a card, kUnlistedPassed or kUnlistedRefused. */
int usageFindCard(const uint8_t uuid[16]) EGPU_HIDDEN;
/** Number that changes with the limits: results of usageFindCard hold until then. Also detects a fork. */
uint32_t usageSequence(void) EGPU_HIDDEN;

/** State that each launch reads without a lock, for the common case of usageSequence. All fields are atomic. */
struct UsageFast {
  const int* attached;       /**< 0 in a child after a fork */
  const uint32_t* sequence;  /**< of the limits file */
  uint32_t seen, generation; /**< the last sequence, and the result for it */
  int computes;              /**< a card has a limit of compute */
};
extern struct UsageFast usageFast EGPU_HIDDEN;

static inline int usageIsCurrent(void) {
  return __atomic_load_n(usageFast.attached, __ATOMIC_ACQUIRE) == kUsageAttached &&
         __atomic_load_n(usageFast.sequence, __ATOMIC_ACQUIRE) == __atomic_load_n(&usageFast.seen, __ATOMIC_ACQUIRE);
}
static inline uint32_t usageSequenceFast(void) {
  return usageIsCurrent() ? __atomic_load_n(&usageFast.generation, __ATOMIC_ACQUIRE) : usageSequence();
}
/** True only if it is known without a lock that no card has a limit of compute. False: use usageLimitsCompute after
 *  usageSequence. */
static inline int usageIsComputeFree(void) {
  return usageIsCurrent() && !__atomic_load_n(&usageFast.computes, __ATOMIC_RELAXED);
}

/** Reserves bytes of a card. Returns 1, or 0 if the limit does not allow it. */
int usageReserve(int card, uint64_t bytes) EGPU_HIDDEN;
/** Adds bytes that are in use already, whatever the limit. */
void usageForce(int card, uint64_t bytes) EGPU_HIDDEN;
void usageReturn(int card, uint64_t bytes) EGPU_HIDDEN;
/** Bytes of a card that may be used, EGPU_LIMITER_NO_LIMIT without a limit. */
uint64_t usageLimit(int card) EGPU_HIDDEN;
/** The same, and the bytes of the card that all processes use. */
uint64_t usageShare(int card, uint64_t* used) EGPU_HIDDEN;

/** Limits of compute of a card: milli-cards, 0 without a limit, and the factor. */
uint32_t usageCores(int card, uint32_t* factor) EGPU_HIDDEN;
/** True if any card has a limit of compute. */
int usageLimitsCompute(void) EGPU_HIDDEN;
/** CLOCK_MONOTONIC, nanoseconds. */
uint64_t usageNow(void) EGPU_HIDDEN;

#endif
