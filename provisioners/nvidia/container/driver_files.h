// What of NVIDIA's driver a container needs, as far as this host has it: libraries, programs, firmware.
#pragma once

#include <string>
#include <vector>

namespace egpu::nvidia {

/// A read-only bind mount.
struct DriverFile {
  std::string from;          ///< on the host, without links
  std::string to;            ///< in the container
  std::string options = {};  ///< as egpu_host.reply_mount has them
};

/// True for digits and dots: it becomes part of a path.
bool isVersion(const std::string& text);

/// All files of the driver of this version ("535.104.05"), in the same order every time; none if the host has no library
/// of it. Each library stands under each of its names in every folder where a container's loader may look, README.md.
std::vector<DriverFile> driverFiles(const std::string& version);

/// Where this process finds the host's library of this name, if its loader does not: in a container of its own
/// ($ELASTICGPU_HOST_ROOT), or with a driver root ($ELASTICGPU_DRIVER_ROOT). Empty without both, or if there is none.
std::string librarySeen(const std::string& name);

}  // namespace egpu::nvidia
