// Files of NVIDIA's driver that a container needs, as far as this host has them: libraries, programs, firmware.
#pragma once

#include <string>
#include <vector>

namespace egpu::nvidia {

/// A read-only bind mount.
struct DriverFile {
  std::string from;          ///< path on the host, without symlinks
  std::string to;            ///< path in the container
  std::string options = {};  ///< as in egpu_host.reply_mount
};

/// True if `text` consists of numbers and single dots, so that it is safe as a part of a path.
bool isVersion(const std::string& text);

/// Returns all files of the driver of this version ("535.104.05"), always in the same order; none if the host has no
/// library of it. Each library is mounted under each of its names in every folder that a container's loader may search,
/// see README.md.
std::vector<DriverFile> driverFiles(const std::string& version);

/// Returns the path of the host's library of this name, for processes whose loader does not find it: in a container
/// ($ELASTICGPU_HOST_ROOT), or with a driver root ($ELASTICGPU_DRIVER_ROOT). Empty if neither variable is set, or if
/// there is no such library.
std::string librarySeen(const std::string& name);

}  // namespace egpu::nvidia
