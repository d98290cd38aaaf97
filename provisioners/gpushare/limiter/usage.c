#include "provisioners/gpushare/limiter/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provisioners/gpushare/limiter/folder.h"
#include "provisioners/gpushare/limiter/old_libc.h"

enum { kNew = 0, kAttaching = 1, kAttached = kUsageAttached };

static struct {
  const struct egpu_limiter_limits* limits;
  struct egpu_limiter_usage* usage;
  int valid;
  int* phase;  ///< in a page that a fork empties: kNew in a child
  int wipes;   ///< the kernel empties that page
  int pid;     ///< compared if it does not
  void (*forget)(void);

  struct Lock lock;                ///< guards all below, except atomic reads of `cores` and `factors`
  struct egpu_limiter_slot* slot;  ///< NULL: all slots were taken
  uint32_t place;                  ///< of `slot`
  uint64_t owner;
  uint64_t used[EGPU_LIMITER_CARDS];  ///< the truth about this process; the slot is its copy
  struct egpu_limiter_bank bank;      ///< the last valid one
  uint32_t cores[EGPU_LIMITER_CARDS], factors[EGPU_LIMITER_CARDS];
} self;

static const int kNeverAttached = kNew;
static const uint32_t kNoSequence = 0;
struct UsageFast usageFast = {&kNeverAttached, &kNoSequence, 0, 0, 0};

void lockAcquire(struct Lock* lock) {
  for (int tries = 0; __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) != 0; tries++) {
    while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0 && tries < 64) {
      __builtin_ia32_pause();
      tries++;
    }
    if (tries >= 64) sched_yield();
  }
}

void lockRelease(struct Lock* lock) { __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); }

static void report(const char* what) {
  char line[512];
  const int length = snprintf(line, sizeof line, "elasticgpu limiter: %s/%s\n", egpuFolder(), what);
  if (length > 0 && write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0) return;
}

/// Maps a file of exactly the expected size: a shorter one would end the process at the first access.
static void* mapFile(const char* name, size_t size, int writable) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", egpuFolder(), name);
  const int file = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0) return NULL;
  void* mapped = MAP_FAILED;
  if (lseek(file, 0, SEEK_END) >= (off_t)size)
    mapped = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? NULL : mapped;
}

/// Returns field 22 of /proc/PID/stat, or 0.
static uint64_t startTime(int pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* at = strrchr(text, ')');  // the name in parentheses may contain anything
  for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static uint64_t pidNamespace(void) {
  char text[64];
  const ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* at = strchr(text, '[');
  return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static int runsHere(void* context, uint64_t owner, uint64_t started, uint64_t ofNamespace) {
  const uint64_t mine = *(const uint64_t*)context;
  const int pid = (int)(owner >> 32);
  if (mine == 0 || ofNamespace != mine || owner == self.owner) return 1;
  if (pid <= 0) return 0;
  if (kill(pid, 0) != 0 && errno == ESRCH) return 0;
  const uint64_t now = startTime(pid);
  return now == 0 || started == 0 || now == started;
}

/// Frees the slots of processes that ended in this PID namespace. Skips it if another process is about to.
static void clearEnded(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/usage", egpuFolder());
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  uint64_t mine = pidNamespace();
  if (flock(file, LOCK_EX | LOCK_NB) == 0) egpu_limiter_clear(self.usage, runsHere, &mine);
  close(file);
}

static void adoptBank(const struct egpu_limiter_bank* bank) {
  self.bank = *bank;
  int computes = 0;
  for (uint32_t i = 0; i < EGPU_LIMITER_CARDS; i++) {
    const struct egpu_limiter_card* card = &bank->card[i];
    const uint32_t cores = i < bank->cards && card->cores < EGPU_LIMITER_WHOLE ? card->cores : 0;
    if (cores != 0) computes = 1;
    __atomic_store_n(&self.cores[i], cores, __ATOMIC_RELAXED);
    __atomic_store_n(&self.factors[i], card->factor == 0 ? EGPU_LIMITER_FACTOR_ONE : card->factor, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&usageFast.computes, computes, __ATOMIC_RELAXED);
  __atomic_add_fetch(&usageFast.generation, 1, __ATOMIC_RELEASE);
}

/// Takes over changed limits. The lock is held.
static void readLimits(void) {
  if (!self.valid) return;
  const uint32_t sequence = __atomic_load_n(&self.limits->sequence, __ATOMIC_ACQUIRE);
  if (sequence == __atomic_load_n(&usageFast.seen, __ATOMIC_RELAXED)) return;
  struct egpu_limiter_bank bank;
  if (egpu_limiter_get(self.limits, &bank) == 0) adoptBank(&bank);
  __atomic_store_n(&usageFast.seen, sequence, __ATOMIC_RELEASE);
}

static int tryTakeSlot(void) {
  for (uint32_t i = 0; i < EGPU_LIMITER_SLOTS; i++) {
    struct egpu_limiter_slot* slot = &self.usage->slot[i];
    uint64_t expected = 0;
    if (!__atomic_compare_exchange_n(&slot->owner, &expected, self.owner, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      continue;
    uint32_t high = __atomic_load_n(&self.usage->high, __ATOMIC_RELAXED);
    while (high < i + 1 &&
           !__atomic_compare_exchange_n(&self.usage->high, &high, i + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    __atomic_store_n(&slot->pidNamespace, pidNamespace(), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->started, startTime(getpid()), __ATOMIC_RELEASE);
    self.slot = slot;
    self.place = i;
    return 1;
  }
  return 0;
}

/// Takes a slot, and writes what this process holds into it. The lock is held.
static void takeSlot(void) {
  static uint32_t attempts;
  self.slot = NULL;
  if (!self.valid) return;
  self.owner = (uint64_t)(uint32_t)getpid() << 32 | (++attempts & 0xffffff) | (uint64_t)1 << 24;
  clearEnded();
  if (!tryTakeSlot()) {
    report("usage: all slots are in use; this process gets no memory");
    return;
  }
  for (uint32_t card = 0; card < EGPU_LIMITER_CARDS; card++)
    __atomic_store_n(&self.usage->used[card][self.place], self.used[card], __ATOMIC_SEQ_CST);
}

/// First call in a process, or in a child after a fork.
static void attach(void) {
  int expected = kNew;
  if (__atomic_compare_exchange_n(self.phase, &expected, kAttaching, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    self.lock.held = 0;  // a thread of the parent may have held it
    memset(self.used, 0, sizeof self.used);
    __atomic_store_n(&self.pid, getpid(), __ATOMIC_RELAXED);
    if (self.forget != NULL) self.forget();
    takeSlot();
    __atomic_add_fetch(&usageFast.generation, 1, __ATOMIC_RELEASE);
    __atomic_store_n(self.phase, kAttached, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(self.phase, __ATOMIC_ACQUIRE) != kAttached) sched_yield();
}

/// Without MADV_WIPEONFORK (Linux before 4.14) each call compares the PID instead. One thread of a child notices.
static void comparePid(void) {
  int parent = __atomic_load_n(&self.pid, __ATOMIC_RELAXED);
  const int own = getpid();
  if (parent != 0 && parent != own &&
      __atomic_compare_exchange_n(&self.pid, &parent, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    __atomic_store_n(self.phase, kNew, __ATOMIC_RELEASE);
}

static inline void enter(void) {
  if (__builtin_expect(!self.wipes, 0)) comparePid();
  if (__builtin_expect(__atomic_load_n(self.phase, __ATOMIC_ACQUIRE) != kAttached, 0)) attach();
}

void usageOpen(void) {
  static int withoutPage;
  self.phase = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (self.phase == MAP_FAILED)
    self.phase = &withoutPage;
  else
    self.wipes = madvise(self.phase, 4096, MADV_WIPEONFORK) == 0;
  self.limits = mapFile("limits", sizeof *self.limits, 0);
  self.usage = mapFile("usage", sizeof *self.usage, 1);
  struct egpu_limiter_bank bank;
  if (self.limits == NULL || self.limits->magic != EGPU_LIMITER_MAGIC || self.limits->size != sizeof *self.limits ||
      self.limits->checksum != egpu_limiter_paths_checksum(self.limits) || egpu_limiter_get(self.limits, &bank) != 0) {
    report("limits: the file is missing or not valid; CUDA is refused");
    return;
  }
  if (self.usage == NULL) {
    report("usage: the file is missing or too short; CUDA is refused");
    return;
  }
  self.valid = 1;
  usageFast.seen = __atomic_load_n(&self.limits->sequence, __ATOMIC_ACQUIRE) - 1;  // read again at the first use
  usageFast.sequence = &self.limits->sequence;
  if (self.wipes) usageFast.attached = self.phase;  // else each call compares the PID
  adoptBank(&bank);
}

int usageValid(void) { return self.valid; }
const struct egpu_limiter_limits* usageLimits(void) { return self.valid ? self.limits : NULL; }
struct egpu_limiter_usage* usagePage(void) {
  return self.valid ? self.usage : NULL;
}
void usageOnFork(void (*forget)(void)) { self.forget = forget; }

/// Takes the lock, with the limits and the slot up to date.
static void enterLocked(void) {
  enter();
  lockAcquire(&self.lock);
  readLimits();
  // A cleared slot, or a page that something else has overwritten: what this process holds must not be lost.
  if (self.slot == NULL || __atomic_load_n(&self.slot->owner, __ATOMIC_RELAXED) != self.owner) takeSlot();
}

int usageFindCard(const uint8_t uuid[16]) {
  enterLocked();
  int found = (self.bank.flags & EGPU_LIMITER_PASS_UNLISTED) != 0 ? kUnlistedPassed : kUnlistedRefused;
  if (!self.valid) found = kUnlistedRefused;
  for (uint32_t i = 0; self.valid && i < self.bank.cards; i++)
    if (memcmp(self.bank.card[i].uuid, uuid, 16) == 0) found = (int)i;
  lockRelease(&self.lock);
  return found;
}

uint32_t usageSequence(void) {
  enter();
  if (self.valid &&
      __atomic_load_n(&self.limits->sequence, __ATOMIC_ACQUIRE) != __atomic_load_n(&usageFast.seen, __ATOMIC_ACQUIRE)) {
    lockAcquire(&self.lock);
    readLimits();
    lockRelease(&self.lock);
  }
  return __atomic_load_n(&usageFast.generation, __ATOMIC_ACQUIRE);
}

static void store(uint64_t* field, uint64_t value, int order) {
  if (order == __ATOMIC_SEQ_CST)
    __atomic_store_n(field, value, __ATOMIC_SEQ_CST);
  else
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

static void publish(int card) { store(&self.usage->used[card][self.place], self.used[card], __ATOMIC_SEQ_CST); }

/// Amounts of a card that the other processes use and want.
struct OtherProcesses {
  uint64_t used, want;
  int precedence;  ///< one with a lower slot wants, too
};

static uint64_t added(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

/// Reads all `want` before all `used`: a grant raises `used` first, so that it is counted at least once.
static void readOthers(int card, struct OtherProcesses* out) {
  const struct egpu_limiter_want* wants = self.usage->want;
  const uint64_t* amounts = self.usage->used[card];
  const uint32_t mine = self.place;
  uint64_t want = 0, used = 0;
  int overflow = 0;
  uint32_t high = __atomic_load_n(&self.usage->high, __ATOMIC_SEQ_CST);
  if (high > EGPU_LIMITER_SLOTS) high = EGPU_LIMITER_SLOTS;
  out->precedence = 0;
  for (uint32_t i = 0; i < high; i++) {
    const uint64_t bytes = __atomic_load_n(&wants[i].bytes, __ATOMIC_SEQ_CST);
    if (__builtin_expect(bytes == 0, 1) || i == mine ||
        __atomic_load_n(&wants[i].card, __ATOMIC_RELAXED) != (uint64_t)card)
      continue;
    want = added(want, bytes);
    if (i < mine) out->precedence = 1;
  }
  for (uint32_t i = 0; i < high; i++) {
    const uint64_t more = __atomic_load_n(&amounts[i], __ATOMIC_SEQ_CST);
    overflow |= __builtin_add_overflow(used, i == mine ? 0 : more, &used);
  }
  out->want = want;
  out->used = overflow ? UINT64_MAX : used;
}

uint64_t usageNow(void) {
  struct {
    int64_t seconds, nanoseconds;
  } now = {0, 0};
  syscall(SYS_clock_gettime, 1, &now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

/// Before a refusal: amounts of processes that have ended may be in the way. At most every 10 ms, as it reads /proc.
static int clearedEnded(void) {
  static uint64_t last;
  const uint64_t now = usageNow();
  if (last != 0 && now - last < 10000000u) return 0;
  last = now;
  clearEnded();
  return 1;
}

/// The lock is held; `limit` is finite.
static int reserveWithin(int card, uint64_t bytes, uint64_t limit) {
  const uint64_t mine = self.used[card];
  if (mine > limit || bytes > limit - mine) return 0;
  struct egpu_limiter_want* wanted = &self.usage->want[self.place];
  store(&wanted->card, (uint64_t)card, __ATOMIC_RELEASE);
  int granted = 0;
  for (int attempt = 0, cleared = 0; attempt < 20000; attempt++) {
    store(&wanted->bytes, bytes, __ATOMIC_SEQ_CST);
    struct OtherProcesses others;
    readOthers(card, &others);
    if (added(added(others.used, others.want), mine + bytes) <= limit) {
      granted = 1;
      break;
    }
    if (added(others.used, mine + bytes) > limit) {
      if (cleared++ || !clearedEnded()) break;
      continue;
    }
    if (others.precedence) store(&wanted->bytes, 0, __ATOMIC_SEQ_CST);
    if (attempt % 64 == 63) sched_yield();
    if (attempt == 10000) clearedEnded();
    for (int i = 0; i < 32; i++) __builtin_ia32_pause();
  }
  if (granted) {
    self.used[card] = mine + bytes;
    publish(card);
  }
  store(&wanted->bytes, 0, __ATOMIC_RELEASE);
  return granted;
}

int usageReserve(int card, uint64_t bytes) {
  if (card == kUnlistedPassed) return 1;
  if (card < 0) return 0;
  enterLocked();
  int granted = 0;
  if (self.slot != NULL && (uint32_t)card < self.bank.cards) {
    const uint64_t limit = self.bank.card[card].memory;
    if (limit != EGPU_LIMITER_NO_LIMIT) {
      granted = reserveWithin(card, bytes, limit);
    } else {
      self.used[card] = added(self.used[card], bytes);
      publish(card);
      granted = 1;
    }
  }
  lockRelease(&self.lock);
  return granted;
}

void usageForce(int card, uint64_t bytes) {
  if (card < 0 || bytes == 0) return;
  enterLocked();
  self.used[card] = added(self.used[card], bytes);
  if (self.slot != NULL) publish(card);
  lockRelease(&self.lock);
}

void usageReturn(int card, uint64_t bytes) {
  if (card < 0 || bytes == 0) return;
  enterLocked();
  self.used[card] -= bytes < self.used[card] ? bytes : self.used[card];
  if (self.slot != NULL) publish(card);
  lockRelease(&self.lock);
}

uint64_t usageLimit(int card) {
  if (card == kUnlistedPassed) return EGPU_LIMITER_NO_LIMIT;
  if (card < 0) return 0;
  enterLocked();
  const uint64_t limit = (uint32_t)card < self.bank.cards ? self.bank.card[card].memory : 0;
  lockRelease(&self.lock);
  return limit;
}

uint64_t usageShare(int card, uint64_t* used) {
  *used = 0;
  if (card < 0) return usageLimit(card);
  enterLocked();
  const uint64_t limit = (uint32_t)card < self.bank.cards ? self.bank.card[card].memory : 0;
  struct OtherProcesses others = {0, 0, 0};
  if (self.slot != NULL) readOthers(card, &others);
  *used = added(self.used[card], others.used);
  lockRelease(&self.lock);
  return limit;
}

uint32_t usageCores(int card, uint32_t* factor) {
  if (card < 0) return 0;
  *factor = __atomic_load_n(&self.factors[card], __ATOMIC_RELAXED);
  return __atomic_load_n(&self.cores[card], __ATOMIC_RELAXED);
}

int usageLimitsCompute(void) { return __atomic_load_n(&usageFast.computes, __ATOMIC_RELAXED); }
