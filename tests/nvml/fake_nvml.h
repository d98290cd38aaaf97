// A node with NVIDIA's cards for a test: the fake NVML, its node file, and the kernel's files about the cards.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace egpu::nvidia::testing {

/// While it exists, plugins in this process find the fake library. At most one exists at a time; create it before any
/// thread starts.
class FakeNvml {
 public:
  /// Loads a file of tests/nvml/nodes, named without its extension.
  explicit FakeNvml(const std::string& node);
  ~FakeNvml();
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  YAML::Node file;  ///< hardware behaviour from the next write() on; README.md describes its format
  void write();
  /// Also removes the card at this place from the kernel's files.
  void unplug(std::size_t place);
  /// Destroys all MIG instances, as a reboot does, and changes the boot id.
  void reboot();
  /// Removes the library, as during an upgrade of the driver's package; for plugins that do not hold it open.
  void uninstall();
  /// Returns "NAME=value" of the variables with which another process sees the same node.
  std::vector<std::string> environment() const;

 private:
  void writeKernelFiles() const;
  void writeMigMinors() const;

  const support::ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
  void* library_ = nullptr;
  int boots_ = 0;
};

}  // namespace egpu::nvidia::testing
