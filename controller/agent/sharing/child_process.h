// Child process that changes its namespaces and cgroup, and then executes a program or changes one mount.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/base/subprocess.h"

namespace egpu::agent::sharing {

/// Work of the child, prepared before the fork, because only async-signal-safe calls are allowed after it.
struct ChildPlan {
  enum class Action { execute, findTmpfs, mountTmpfs, unmount };
  Action action = Action::execute;
  std::vector<base::UniqueFd> namespaces{};  ///< entered in this order; the mount namespace is last
  std::string cgroupFolder{};                ///< created if it is missing; empty = none
  std::vector<std::string> cgroupFiles{};    ///< cgroup.procs files of the child's new cgroups
  bool isDaemon = false;                     ///< the child ends at once, and the worker continues
  std::string sharedMemory{};       ///< folder that becomes /dev/shm in a mount namespace of its own; empty = none
  std::string withoutLinks{};       ///< folder in which symbolic links are not followed there; empty = none
  std::string folder{}, options{};  ///< mount point of the other actions; mount options
  std::vector<std::string> argv{}, env{};  ///< program to execute; argv[0] is the path
  int input = -1, output = -1;             ///< borrowed; standard input, and standard output and error
};

/// Exit status of findTmpfs if a tmpfs is mounted at the folder; otherwise 0.
inline constexpr int kIsMounted = 10;

struct StartedChild {
  pid_t child = -1;   ///< must be reaped. It waits for the worker, and ends as the worker does
  pid_t worker = -1;  ///< child of `child` that does the work
};

/// Forks, and returns once the program is executed or the mount is done. Code::unavailable with the failed step; the
/// child is reaped then.
base::Result<StartedChild> startChild(const ChildPlan& plan);

/// Opens the namespaces of process 1 below `proc` that differ from those of this process.
base::Result<std::vector<base::UniqueFd>> hostNamespaces(const std::string& proc);

/// Kills the child and its worker. The child ends at once, even if the worker is blocked in a driver.
void killChild(pid_t child);

/// Waits for the child. Returns its exit status; -1 = the child or its worker was killed by a signal.
int reap(pid_t child);

}  // namespace egpu::agent::sharing
