// A node with NVIDIA's cards for a test: the fake NVML, its file, and what the kernel would tell of the cards.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace egpu::nvidia::testing {

/// While it lives, plugins in this process find the fake library. One at a time; made before threads are.
class FakeNvml {
 public:
  /// A file of tests/nvml/nodes, without its ending.
  explicit FakeNvml(const std::string& node);
  ~FakeNvml();
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  YAML::Node file;  ///< what the hardware does from the next write() on; README.md has its form
  void write();
  /// The card at this place is gone from the kernel's lists, too.
  void unplug(std::size_t place);
  /// The library is gone, as while the driver's package is exchanged; for plugins that do not hold it open.
  void uninstall();
  /// "NAME=value" for processes that are to see the same.
  std::vector<std::string> environment() const;

 private:
  void writeKernelFiles() const;

  const support::ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
  void* library_ = nullptr;
};

}  // namespace egpu::nvidia::testing
