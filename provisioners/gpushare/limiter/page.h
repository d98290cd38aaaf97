/* Layout of the two files that the limiter's libraries and the node's agent share. Pure C11, also included by C++.
 *
 * Both files are in one folder per device, mounted at EGPU_LIMITER_FOLDER:
 *
 *   limits   struct egpu_limiter_limits. The agent writes it; the container has it read-only.
 *   usage    struct egpu_limiter_usage. The processes of the container write it, each its own slot.
 *
 * Limits. The agent writes a complete bank, then `sequence`. Bank `sequence & 1` is in force. A process accepts a bank
 * whose checksum is right, and otherwise keeps the last one that it accepted. An agent that ends at any instruction
 * therefore leaves limits that are valid, and they stay until it returns. A process that never found a valid bank gets
 * no memory at all. A card keeps its place in the bank for as long as the file exists.
 *
 * Usage. A process takes a free slot by a compare-and-swap of `owner`, and from then on is the only writer of the slot.
 * It trusts its private copy of its own amounts. Other slots may contain anything. `used` contains the amounts that it
 * holds, `want` the amount that it is about to reserve of `wantCard`. A reservation is granted if the sum of all `used`
 * and all `want` of the card is within the limit. If two processes want at once, the higher slot withdraws. A process
 * that is killed leaves its slot, with `owner` set.
 *
 * Clearing. Slots of processes that have ended are cleared by the agent, which sees all processes of the node, and by
 * processes in the same PID namespace, while they hold flock(LOCK_EX) on the usage file, which the kernel releases when
 * its holder ends. A slot belongs to an ended process if no process of its PID namespace has its PID and start
 * time.
 *
 * All numbers have the byte order of the machine. Fields that two processes use are accessed with __atomic operations.
 */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_PAGE_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_PAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EGPU_LIMITER_FOLDER "/run/elasticgpu/limiter"
#define EGPU_LIMITER_MAGIC 0x656772756c696d31u /* first eight bytes of both files */
#define EGPU_LIMITER_CARDS 16u
#define EGPU_LIMITER_SLOTS 128u
#define EGPU_LIMITER_NO_LIMIT UINT64_MAX
#define EGPU_LIMITER_WHOLE 1000u       /* milli-cards */
#define EGPU_LIMITER_FACTOR_ONE 65536u /* a factor of 1 */
/** Flag: cards that are not listed are not limited. Without it, no memory of them can be allocated. */
#define EGPU_LIMITER_PASS_UNLISTED 1u

/** Limits of one card. */
struct egpu_limiter_card {
  uint8_t uuid[16];
  uint64_t memory; /**< bytes; EGPU_LIMITER_NO_LIMIT */
  uint32_t cores;  /**< milli-cards of GPU time; 0 or at least EGPU_LIMITER_WHOLE: no limit */
  uint32_t factor; /**< GPU time per event time, in 1/EGPU_LIMITER_FACTOR_ONE; 0 means 1 */
};

struct egpu_limiter_bank {
  uint32_t cards; /**< number of entries in `card` */
  uint32_t flags;
  struct egpu_limiter_card card[EGPU_LIMITER_CARDS];
  uint64_t checksum; /**< egpu_limiter_checksum of all bytes before it */
};

struct egpu_limiter_limits {
  uint64_t magic;
  uint32_t size;     /**< of this struct; another size is another version */
  uint32_t sequence; /**< bank sequence & 1 is in force */
  char cuda[256];    /**< path of the real libcuda.so.1 in the container */
  char nvml[256];    /**< path of the real libnvidia-ml.so.1 in the container */
  uint64_t checksum; /**< of `size`, `cuda` and `nvml` */
  struct egpu_limiter_bank bank[2];
};

/** GPU time of a card for the processes of a container, nanoseconds. They may launch while granted - spent, as a signed
 *  number, is not negative. */
struct egpu_limiter_bucket {
  uint64_t spent;    /**< charged so far; the agent compares its growth with NVML's measurement */
  uint64_t granted;  /**< grows with the time, up to a burst above `spent` */
  uint64_t refilled; /**< CLOCK_MONOTONIC of the last growth */
  uint64_t spare[5];
};

/** Owner of a slot. */
struct egpu_limiter_slot {
  uint64_t owner;        /**< PID << 32 | a number that differs between owners; 0: free */
  uint64_t started;      /**< start time of the process, field 22 of /proc/PID/stat; 0: not known yet */
  uint64_t pidNamespace; /**< inode of its PID namespace */
  uint64_t spare;
};

/** Reservation that a slot is about to make. */
struct egpu_limiter_want {
  uint64_t bytes; /**< 0: none */
  uint64_t card;
};

struct egpu_limiter_usage {
  uint64_t magic;
  uint32_t size; /**< of this struct */
  uint32_t high; /**< slots at and after this one have never been used */
  uint64_t spare[6];
  struct egpu_limiter_bucket bucket[EGPU_LIMITER_CARDS];
  struct egpu_limiter_slot slot[EGPU_LIMITER_SLOTS];
  /* Dense, because a reservation reads these of all slots. */
  struct egpu_limiter_want want[EGPU_LIMITER_SLOTS];
  uint64_t used[EGPU_LIMITER_CARDS][EGPU_LIMITER_SLOTS]; /**< bytes */
};

/** FNV-1a of `size` bytes. */
uint64_t egpu_limiter_checksum(const void* bytes, size_t size);
uint64_t egpu_limiter_paths_checksum(const struct egpu_limiter_limits* limits);

/* Functions of both sides; make_limits, make_usage, set and next_factor are the agent's. None of them allocates, and
 * none keeps a pointer. */

/** Fills in a new limits file, before it gets its name. Returns 0, or -1 if a path is too long. */
int egpu_limiter_make_limits(struct egpu_limiter_limits* limits, const char* cuda, const char* nvml);
void egpu_limiter_make_usage(struct egpu_limiter_usage* usage);

/** Puts limits into force, for processes that run, too. One writer at a time. At most EGPU_LIMITER_CARDS are taken. */
void egpu_limiter_set(struct egpu_limiter_limits* limits, const struct egpu_limiter_card* cards, uint32_t count,
                      uint32_t flags);

/** Copies the bank in force. Returns 0, or -1 if the file is not valid. Any thread, any process. */
int egpu_limiter_get(const struct egpu_limiter_limits* limits, struct egpu_limiter_bank* out);

/** Returns the bytes that all slots use of a card. It saturates, whatever the page contains. */
uint64_t egpu_limiter_used(const struct egpu_limiter_usage* usage, uint32_t card);

/** True if the process of a slot runs. `owner` is not 0. */
typedef int (*egpu_limiter_runs)(void* context, uint64_t owner, uint64_t started, uint64_t pidNamespace);

/** Frees the slots of processes that have ended, while the caller holds flock on the file. Returns their number. */
uint32_t egpu_limiter_clear(struct egpu_limiter_usage* usage, egpu_limiter_runs runs, void* context);

/** Returns the factor for the next period, from the GPU time that NVML measured and the time that the processes
 *  charged in the last one, both in nanoseconds. Returns `factor` if either is 0. */
uint32_t egpu_limiter_next_factor(uint32_t factor, uint64_t measured, uint64_t charged);

#ifdef __cplusplus
}
#endif

#endif
