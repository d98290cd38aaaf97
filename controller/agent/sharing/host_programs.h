// Programs and mounts of the host. The agent runs in a container, so a child process enters the host's namespaces
// first.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/sharing/child_process.h"
#include "controller/base/status.h"

namespace egpu::agent::sharing {

struct HostProgram {
  std::string path;                      ///< path on the host
  std::vector<std::string> arguments{};  ///< without the path
  std::vector<std::string> env{};        ///< the whole environment, "NAME=value"
  std::string input{};                   ///< text on standard input; at most 4 KiB
};

/// Folders and files of a daemon.
struct DaemonPaths {
  std::string sharedMemory;  ///< the daemon sees this folder as /dev/shm; empty = the host's
  std::string sockets;       ///< containers can write to this folder, so the daemon follows no symbolic links there
  std::string log;           ///< file to which the output is appended
};

/// Interface, so that tests need neither rights nor NVIDIA's programs. Implementations are thread-safe. Errors have
/// Code::unavailable.
class HostPrograms {
 public:
  virtual ~HostPrograms() = default;
  /// Runs the program until it ends, and returns its output. Fails if it ends with another status than 0. Kills it
  /// after `timeout`, and does not wait for a program that is blocked in a driver.
  virtual base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds timeout) = 0;
  /// Starts a program that continues after the agent has ended, outside of the agent's cgroup, and returns its PID.
  virtual base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) = 0;
  /// Returns true if a tmpfs is mounted at the folder.
  virtual base::Result<bool> hasTmpfs(const std::string& folder) = 0;
  /// Mounts a tmpfs at the folder, unless one is mounted there.
  virtual base::Status mountTmpfs(const std::string& folder, const std::string& options) = 0;
  /// Unmounts the tmpfs at the folder, if one is mounted there.
  virtual base::Status unmount(const std::string& folder) = 0;
  virtual void signal(int64_t pid, int number) = 0;
};

struct NodeProgramsOptions {
  bool entersHost = true;                  ///< false: programs run in the namespaces of this process, for tests
  std::string proc = "/proc";              ///< process 1 there has the host's namespaces
  std::string cgroups = "/sys/fs/cgroup";  ///< empty: daemons stay in the cgroup of this process
};

/// Implementation for a real node. Needs root, the host's PID namespace, and CAP_SYS_ADMIN.
class NodePrograms final : public HostPrograms {
 public:
  explicit NodePrograms(NodeProgramsOptions options = {}) : options_(std::move(options)) {}

  base::Result<std::string> run(const HostProgram& program, std::chrono::milliseconds timeout) override;
  base::Result<int64_t> startDaemon(const HostProgram& program, const DaemonPaths& paths) override;
  base::Result<bool> hasTmpfs(const std::string& folder) override;
  base::Status mountTmpfs(const std::string& folder, const std::string& options) override;
  base::Status unmount(const std::string& folder) override;
  void signal(int64_t pid, int number) override;

 private:
  /// Does one action with a mount. Returns the exit status of the child.
  base::Result<int> changeMount(ChildPlan::Action action, const std::string& folder, const std::string& options);

  const NodeProgramsOptions options_;
};

}  // namespace egpu::agent::sharing
