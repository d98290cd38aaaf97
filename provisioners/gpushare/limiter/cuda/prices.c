#include "provisioners/gpushare/limiter/cuda/prices.h"

#include <string.h>
#include <time.h>

#include "provisioners/gpushare/limiter/bucket.h"
#include "provisioners/gpushare/limiter/cuda/captures.h"
#include "provisioners/gpushare/limiter/cuda/cards.h"
#include "provisioners/gpushare/limiter/old_libc.h"

enum {
  kPrices = 8192,
  kProbes = 16,
  kSamples = 64,
  kFirstSamples = 3,      ///< the first launches of a kernel are measured
  kShortKernel = 100000,  ///< ns
  kSampleShort = 128,     ///< then one in so many launches of a shorter kernel,
  kSampleEvery = 32,      ///< and one in so many of another one
  kLongKernel = 1000000,  ///< ns; each launch of a longer kernel is measured
  kMinSleep = 50000,      ///< ns
  kMaxSleep = 5000000,    ///< ns; limits that change take effect within this time
};

/// All fields are atomic. A key stays in its cell; 0 is free.
static struct Price {
  uint64_t key, nanoseconds;  ///< 0: not known yet
  uint32_t launches, spare;
} prices[kPrices];
static struct Price otherPrices;  ///< price of all keys without a cell

enum { kFree = 0, kClaimed = 1, kRecorded = 2 };

static struct Sample {
  int state;  ///< atomic
  Handle context, before, after;
  struct Price* price;
  int card;
  int64_t charged;
} samples[kSamples];

static int sampleCount;  ///< atomic: samples at and after this one have never been used

static uint64_t mixed(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdu;
  return key ^ key >> 33;
}

uint64_t kernelKey(Handle function, uint64_t blocks) {
  const unsigned magnitude = blocks == 0 ? 0 : 64 - (unsigned)__builtin_clzll(blocks);
  return (uintptr_t)function ^ (uint64_t)magnitude << 57 ^ (uint64_t)1 << 56;
}

uint64_t graphKey(Handle executable) { return (uintptr_t)executable ^ (uint64_t)1 << 55; }

static struct Price* findPrice(uint64_t key) {
  unsigned at = (unsigned)(mixed(key) % kPrices);
  for (int probe = 0; probe < kProbes; probe++, at = (at + 1) % kPrices) {
    uint64_t seen = __atomic_load_n(&prices[at].key, __ATOMIC_RELAXED);
    if (seen == key) return &prices[at];
    if (seen == 0 && (__atomic_compare_exchange_n(&prices[at].key, &seen, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
                      seen == key))
      return &prices[at];
  }
  return &otherPrices;
}

static uint64_t nanosecondsOf(const struct Price* price) {
  const uint64_t known = __atomic_load_n(&price->nanoseconds, __ATOMIC_RELAXED);
  return known == 0 ? EGPU_BUCKET_DEFAULT_PRICE : known;
}

uint64_t priceOf(uint64_t key) { return nanosecondsOf(findPrice(key)); }

void setPrice(uint64_t key, uint64_t nanoseconds) {
  struct Price* price = findPrice(key);
  __atomic_store_n(&price->nanoseconds, nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&price->launches, 0, __ATOMIC_RELAXED);
}

static struct egpu_limiter_bucket* bucketOf(int card) { return &usagePage()->bucket[card]; }

/// Charges the difference between a launch's duration and its charge, and updates the price.
static void settle(struct Sample* sample, float milliseconds) {
  uint32_t factor = 0;
  if (!(milliseconds >= 0) || milliseconds > 1e6F) return;
  const uint64_t duration = (uint64_t)(milliseconds * 1e6F);
  const uint64_t known = __atomic_load_n(&sample->price->nanoseconds, __ATOMIC_RELAXED);
  const uint64_t next = known == 0 ? duration : known + (uint64_t)(((int64_t)duration - (int64_t)known) / 8);
  __atomic_store_n(&sample->price->nanoseconds, next == 0 ? 1 : next, __ATOMIC_RELAXED);
  if (usageCores(sample->card, &factor) == 0) return;
  egpu_bucket_charge(bucketOf(sample->card), egpu_bucket_price(duration, factor) - sample->charged);
}

/// Settles the samples that the card has passed. Events may be asked from any context.
static void pollSamples(void) {
  const int count = __atomic_load_n(&sampleCount, __ATOMIC_RELAXED);
  for (int i = 0; i < count; i++) {
    struct Sample* sample = &samples[i];
    int state = kRecorded;
    if (__atomic_load_n(&sample->state, __ATOMIC_RELAXED) != kRecorded ||
        !__atomic_compare_exchange_n(&sample->state, &state, kClaimed, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    float milliseconds = -1;
    int result = EGPU_REAL(cuEventQuery, Handle)(sample->after);
    if (result == kSuccess) {
      result = EGPU_REAL(cuEventElapsedTime, float*, Handle, Handle)(&milliseconds, sample->before, sample->after);
      if (result == kSuccess) settle(sample, milliseconds);
    }
    __atomic_store_n(&sample->state, result == kNotReady ? kRecorded : kFree, __ATOMIC_RELEASE);
  }
}

static int hasEvents(void) {
  return EGPU_HAS_REAL(cuEventCreate) && EGPU_HAS_REAL(cuEventRecord) && EGPU_HAS_REAL(cuEventQuery) &&
         EGPU_HAS_REAL(cuEventElapsedTime);
}

static int record(Handle event, Handle stream, int perThread) {
  if (perThread && EGPU_HAS_REAL(cuEventRecord_ptsz))
    return EGPU_REAL(cuEventRecord_ptsz, Handle, Handle)(event, stream);
  return EGPU_REAL(cuEventRecord, Handle, Handle)(event, stream);
}

/// Claims a sample whose events belong to this context, or one without events.
static struct Sample* claimSample(Handle context) {
  for (int empty = 0; empty < 2; empty++)
    for (int i = 0; i < kSamples; i++) {
      struct Sample* sample = &samples[i];
      int state = kFree;
      if (__atomic_load_n(&sample->state, __ATOMIC_RELAXED) != kFree ||
          !__atomic_compare_exchange_n(&sample->state, &state, kClaimed, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        continue;
      int count = __atomic_load_n(&sampleCount, __ATOMIC_RELAXED);
      while (i >= count &&
             !__atomic_compare_exchange_n(&sampleCount, &count, i + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      }
      if (sample->context == (empty ? NULL : context)) return sample;
      __atomic_store_n(&sample->state, kFree, __ATOMIC_RELEASE);
    }
  return NULL;
}

static struct Sample* beginSample(Handle context, struct Price* price, const struct Launch* launch) {
  struct Sample* sample = hasEvents() ? claimSample(context) : NULL;
  if (sample == NULL) return NULL;
  int usable = sample->context != NULL;
  if (!usable && EGPU_REAL(cuEventCreate, Handle*, unsigned)(&sample->before, 0) == kSuccess) {
    if (EGPU_REAL(cuEventCreate, Handle*, unsigned)(&sample->after, 0) == kSuccess) {
      sample->context = context;
      usable = 1;
    } else {
      EGPU_REAL(cuEventDestroy_v2, Handle)(sample->before);
    }
  }
  if (!usable || record(sample->before, launch->stream, launch->perThread) != kSuccess) {
    __atomic_store_n(&sample->state, kFree, __ATOMIC_RELEASE);
    return NULL;
  }
  sample->price = price;
  sample->card = launch->card;
  sample->charged = launch->charged;
  return sample;
}

static int isSampleDue(struct Price* price, uint64_t nanoseconds) {
  const uint32_t launches = __atomic_load_n(&price->launches, __ATOMIC_RELAXED);
  __atomic_store_n(&price->launches, launches + 1, __ATOMIC_RELAXED);
  // Until a price is known, each launch is measured and looks for measurements that have ended.
  return __atomic_load_n(&price->nanoseconds, __ATOMIC_RELAXED) == 0 || launches < kFirstSamples ||
         launches % (nanoseconds < kShortKernel ? kSampleShort : kSampleEvery) == 0 || nanoseconds >= kLongKernel;
}

static __attribute__((noinline)) void waitForTokens(int card) {
  struct egpu_limiter_bucket* bucket = bucketOf(card);
  for (;;) {
    uint32_t factor;
    usageSequence();
    const uint32_t cores = usageCores(card, &factor);
    if (cores == 0) return;
    const int mode = relaxCaptures();
    pollSamples();
    restoreCaptures(mode);
    const int64_t tokens = egpu_bucket_refill(bucket, cores, usageNow());
    if (tokens >= 0) return;
    uint64_t pause = egpu_bucket_wait(tokens, cores);
    pause = pause < kMinSleep ? kMinSleep : pause > kMaxSleep ? kMaxSleep : pause;
    const struct timespec time = {0, (long)pause};
    nanosleep(&time, NULL);
  }
}

static __attribute__((noinline)) struct Sample* measure(struct Price* price, const struct Launch* launch) {
  Handle context;
  int device;
  if (currentContext(&context, &device) != 0) return NULL;
  const int mode = relaxCaptures();
  pollSamples();
  struct Sample* sample = beginSample(context, price, launch);
  restoreCaptures(mode);
  return sample;
}

static int currentCard(uint32_t sequence) {
  Handle context;
  int device;
  const int only = onlyCardAt(sequence);
  if (only != kSeveralDevices) return only;
  return currentContext(&context, &device) == 0 ? cardOfDeviceAt(device, sequence) : -1;
}

void launchBegin(struct Launch* launch, uint64_t key, Handle stream, int perThread) {
  uint32_t factor;
  launch->sample = NULL;
  launch->card = -1;
  const uint32_t sequence = usageSequenceFast();
  if (!usageLimitsCompute()) return;
  const int card = currentCard(sequence);
  const uint32_t cores = usageCores(card, &factor);
  if (cores == 0 || isCapturing(stream, perThread)) return;
  struct egpu_limiter_bucket* bucket = bucketOf(card);
  if (__builtin_expect(!egpu_bucket_allows(bucket, cores), 0)) waitForTokens(card);
  struct Price* price = findPrice(key);
  const uint64_t nanoseconds = nanosecondsOf(price);
  launch->card = card;
  launch->stream = stream;
  launch->perThread = perThread;
  launch->charged = egpu_bucket_price(nanoseconds, factor);
  egpu_bucket_charge(bucket, launch->charged);
  if (__builtin_expect(isSampleDue(price, nanoseconds), 0)) launch->sample = measure(price, launch);
}

int launchEnd(struct Launch* launch, int result) {
  if (launch->card < 0) return result;
  struct Sample* sample = launch->sample;
  if (result != kSuccess) egpu_bucket_charge(bucketOf(launch->card), -launch->charged);
  if (sample == NULL) return result;
  const int recorded = result == kSuccess && record(sample->after, launch->stream, launch->perThread) == kSuccess;
  __atomic_store_n(&sample->state, recorded ? kRecorded : kFree, __ATOMIC_RELEASE);
  return result;
}

void launchUnmeasured(uint64_t key, int device) {
  uint32_t factor;
  usageSequence();
  const int card = usageLimitsCompute() ? cardOfDevice(device) : -1;
  const uint32_t cores = usageCores(card, &factor);
  if (cores == 0) return;
  if (!egpu_bucket_allows(bucketOf(card), cores)) waitForTokens(card);
  egpu_bucket_charge(bucketOf(card), egpu_bucket_price(priceOf(key), factor));
}

void pricesForgetContext(Handle context) {
  for (int i = 0; i < kSamples; i++) {
    struct Sample* sample = &samples[i];
    int state = kFree;
    if (!__atomic_compare_exchange_n(&sample->state, &state, kClaimed, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) &&
        (state != kRecorded ||
         !__atomic_compare_exchange_n(&sample->state, &state, kClaimed, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
      continue;  // a launch of another thread in a context that ends: its events fail
    if (sample->context == context) {
      if (EGPU_HAS_REAL(cuEventDestroy_v2)) {
        EGPU_REAL(cuEventDestroy_v2, Handle)(sample->before);
        EGPU_REAL(cuEventDestroy_v2, Handle)(sample->after);
      }
      sample->context = NULL;
      state = kFree;
    }
    __atomic_store_n(&sample->state, state, __ATOMIC_RELEASE);
  }
}

void pricesForgetAll(void) {
  memset(samples, 0, sizeof samples);
  memset(prices, 0, sizeof prices);
}
