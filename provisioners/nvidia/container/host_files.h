// Access to host files that containers get. This process may see them under other paths, because it may run in a
// container itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace egpu::nvidia {

/// Returns the path of a host file in this process. $ELASTICGPU_HOST_ROOT: path of the host's root folder, "" = this
/// process is not in a container. On the host itself the path is rooted(path).
std::string seen(const std::string& path);

/// Resolves all symlinks as on the host; returns an empty string if nothing exists there. `folder`: start of a relative
/// path, without symlinks.
std::string resolved(const std::string& path, const std::string& folder = {});

/// A host folder that serves as a root folder, such as that of a driver container: symlinks are resolved within it.
class RootFolder {
 public:
  /// `onHost`: path of the folder on the host, without symlinks; "" = the host's root folder.
  explicit RootFolder(std::string onHost = {}) : path_(std::move(onHost)) {}
  /// Same as the free functions, for a path below this root.
  std::string seen(const std::string& path) const { return nvidia::seen(path_ + path); }
  std::string resolved(const std::string& path, const std::string& folder = {}) const;
  std::optional<std::string> read(const std::string& path, std::size_t max) const;
  /// Returns the path on the host of a path below this root.
  std::string onHost(const std::string& path) const { return path_ + path; }
  bool isHosts() const { return path_.empty(); }

 private:
  std::string path_;
};

/// Returns the folder with the driver's libraries and programs: $ELASTICGPU_DRIVER_ROOT with symlinks resolved, or the
/// host's root folder.
RootFolder driverRoot();

/// Returns the contents of a host file; nullopt if it can't be read or has more than `max` bytes.
std::optional<std::string> readHostFile(const std::string& path, std::size_t max);

}  // namespace egpu::nvidia
