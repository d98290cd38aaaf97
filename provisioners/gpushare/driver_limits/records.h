// Records of the driver's memory limits, in a folder that only root can enter:
//
//   $ELASTICGPU_STATE_DIR/driver-limits/lock        held by each run of the program (main.cpp)
//   …/driver-limits/device-<uid>/amounts            amounts of a device, from the agent
//   …/driver-limits/device-<uid>/containers/<id>    a container's cgroup, and the largest limits that it may have
//
// Each file is replaced by a rename, so that a reader finds it complete. Errors are sentences; empty = success.
// Standard library only, because containers' runtimes execute the program that uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace egpu::driver_limits {

/// Limits of one card, bytes.
struct CardLimits {
  uint64_t hard = 0;
  uint64_t soft = 0;  ///< 0 = nothing is guaranteed
  bool operator==(const CardLimits&) const = default;
};
using Limits = std::map<std::string, CardLimits>;  ///< by uuid of the card

struct ContainerRecord {
  std::string cgroup;  ///< folder of its cgroup
  Limits parts;        ///< its parts of the device's amounts
  bool operator==(const ContainerRecord&) const = default;
};

/// The limits of a device for all its containers together.
struct DeviceAmounts {
  Limits cards;
  uint64_t containers = 1;  ///< number of containers that will share them, as far as it is known
  bool operator==(const DeviceAmounts&) const = default;
};

struct DeviceRecord {
  DeviceAmounts amounts;
  std::map<std::string, ContainerRecord> containers;  ///< by id
  bool operator==(const DeviceRecord&) const = default;
};
using Devices = std::map<std::string, DeviceRecord>;  ///< by uid

/// A limit that is not in force as it should be, as the program prints it for the agent. device: uid; empty = unknown.
struct Problem {
  std::string device, text;
};

/// Memory that one container uses through one device, as the driver counts it; bytes. The program prints it for the
/// agent.
struct ContainerUse {
  std::string device, card, cgroup;
  uint64_t used = 0;
};

/// True if the text can be the name of a file: 1 to 128 letters, digits, '-', '_' and '.', not beginning with '.'.
bool isRecordName(const std::string& text);

class Records {
 public:
  /// state: folder $ELASTICGPU_STATE_DIR.
  explicit Records(const std::string& state) : folder_(state + "/driver-limits") {}

  const std::string& folder() const { return folder_; }
  std::string lockFile() const { return folder_ + "/lock"; }

  /// Creates the folder, mode 0700. Fails if it belongs to another user than this process: a plugin could have made it.
  std::string open() const;
  /// Returns the records of all devices. Files that can't be read are left out, and named in `problems`.
  Devices read(std::vector<std::string>& problems) const;
  /// Returns the amounts of a device; nullopt if it has none.
  std::optional<DeviceAmounts> amounts(const std::string& device) const;
  std::string writeAmounts(const std::string& device, const DeviceAmounts& amounts) const;
  std::string writeContainer(const std::string& device, const std::string& id, const ContainerRecord& record) const;
  void removeContainer(const std::string& device, const std::string& id) const;
  void removeDevice(const std::string& device) const;

 private:
  std::string folderOf(const std::string& device) const { return folder_ + "/device-" + device; }

  const std::string folder_;
};

}  // namespace egpu::driver_limits
