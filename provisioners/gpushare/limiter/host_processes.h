/* Processes of the node, by which the agent decides whether the owner of a slot (page.h) still runs. It must see all
 * processes: the host's PID namespace. Not part of the stand-ins. One thread per object. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_HOST_PROCESSES_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_HOST_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A process as a slot names it. */
struct egpu_limiter_process {
  uint64_t pidNamespace; /**< inode */
  uint64_t pid;          /**< in that namespace */
  uint64_t started;      /**< field 22 of /proc/PID/stat */
  uint64_t hostPid;      /**< PID in the namespace of the reader: the name of its folder */
};

struct egpu_limiter_processes {
  const char* proc; /**< folder such as "/proc"; borrowed */
  struct egpu_limiter_process* list;
  size_t count;
};

/** Reads all processes. Returns 0, or -1 if the folder cannot be read or memory is short; then the list is empty. */
int egpu_limiter_read_processes(struct egpu_limiter_processes* out, const char* proc);
/** Reads one process. Returns 1, or 0 if it has ended. */
int egpu_limiter_read_process(struct egpu_limiter_process* out, const char* proc, uint64_t hostPid);
void egpu_limiter_free_processes(struct egpu_limiter_processes* processes);

/** For egpu_limiter_clear; `context` is a struct egpu_limiter_processes. Reads all processes again before it answers
 *  that a process has ended, since one may have started after the last reading. If they cannot be read, it runs. */
int egpu_limiter_runs_on_host(void* context, uint64_t owner, uint64_t started, uint64_t pidNamespace);

#ifdef __cplusplus
}
#endif

#endif
