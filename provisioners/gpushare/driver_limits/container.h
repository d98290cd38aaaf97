// The container that a runtime reports to its hooks, and cgroups of version 2.
#pragma once

#include <string>
#include <string_view>

namespace egpu::driver_limits {

/// State of a container, as the OCI runtime specification defines it. Only the used members.
struct ContainerState {
  std::string id;
  long pid = 0;  ///< 0 = the container has no process
};

/// Reads the state's JSON. Returns why it can't be used; empty = success.
std::string readState(std::string_view json, ContainerState& out);

/// The host's cgroups.
class Cgroups {
 public:
  /// root: mount point of the hierarchy; proc: the host's /proc.
  Cgroups(std::string root, std::string proc) : root_(std::move(root)), proc_(std::move(proc)) {}

  const std::string& root() const { return root_; }
  /// Returns why memory limits can't be used with these cgroups; empty if they can.
  std::string whyUnsuitable() const;
  /// Sets `out` to the folder of the process's cgroup. Returns why it is unknown; empty = success.
  std::string folderOf(long pid, std::string& out) const;
  /// True if the cgroup exists.
  static bool exists(const std::string& folder);
  /// True if the cgroup exists and has processes.
  static bool isInUse(const std::string& folder);
  /// True if the cgroup has limits in the hierarchy of the kernel's dmem controller.
  static bool isInHierarchy(const std::string& folder);

 private:
  const std::string root_, proc_;
};

}  // namespace egpu::driver_limits
