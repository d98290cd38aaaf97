// Files of the host that containers are given. This process may see them elsewhere: it may run in a container itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace egpu::nvidia {

/// Where this process sees a file of the host: $ELASTICGPU_HOST_ROOT is where it has the host's root folder, "" = it is
/// no container. The host itself has the file at rooted(path).
std::string seen(const std::string& path);

/// The path without links, each followed as the host would; empty if nothing is there. folder: itself without links, where
/// a relative path begins.
std::string resolved(const std::string& path, const std::string& folder = {});

/// A folder of the host that stands for a root folder, as that of a driver container does: links are followed within
/// it.
class RootFolder {
 public:
  /// onHost: the folder's path on the host, without links; "" = the host's own root folder.
  explicit RootFolder(std::string onHost = {}) : path_(std::move(onHost)) {}
  /// As the free functions, for a path below this root.
  std::string seen(const std::string& path) const { return nvidia::seen(path_ + path); }
  std::string resolved(const std::string& path, const std::string& folder = {}) const;
  std::optional<std::string> read(const std::string& path, std::size_t most) const;
  /// The path that the host has for a path below this root.
  std::string onHost(const std::string& path) const { return path_ + path; }
  bool isHosts() const { return path_.empty(); }

 private:
  std::string path_;
};

/// Where the host has the driver's libraries and programs: $ELASTICGPU_DRIVER_ROOT, links followed, or its root folder.
RootFolder driverRoot();

/// What is in a file of the host; nothing if it can't be read or has more than `most` bytes.
std::optional<std::string> readHostFile(const std::string& path, std::size_t most);

}  // namespace egpu::nvidia
