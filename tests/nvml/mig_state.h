// MIG instances of the fake NVML's cards, in a file that all processes share. README.md names the file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/nvml/node_file.h"

namespace egpu::nvidia::testing {

inline constexpr std::size_t kFakeComputeProfiles = 8;

/// A GPU instance.
struct FakeInstance {
  uint32_t exists = 0;
  uint32_t device = 0;     ///< place of the card
  uint32_t id = 0;         ///< unique on the card; ids are used again
  uint32_t profileId = 0;  ///< FakeProfile::id
  uint32_t start = 0, size = 0;
  uint32_t slices = 0;  ///< compute slices
  /// Slices of its compute instances by their id; 0 = there is none.
  std::array<uint32_t, kFakeComputeProfiles> compute{};
};

/// The content of the file.
struct FakeInstances {
  std::array<FakeInstance, 64> all{};
  FakeInstance* find(uint32_t device, uint32_t id);
};

/// Returns the file's path: $ELASTICGPU_FAKE_MIG, or the node file's with ".mig" appended; empty = unknown.
std::string fakeInstancesPath();

/// Calls `change` with the instances while no other process uses the file, then writes them if it returns true. A
/// missing file has none. Returns false if the file can't be read or written.
bool withFakeInstances(const std::function<bool(FakeInstances&)>& change);

/// A MIG device: a compute instance.
struct FakeMigDevice {
  uint32_t gpuInstance = 0, computeInstance = 0;
  std::string uuid;
  uint64_t memory = 0;  ///< bytes
  uint64_t sms = 0;
  uint32_t slices = 0;  ///< compute slices of its GPU instance
};

/// Returns the MIG devices of a card that this process sees. With `deviceNodes`, these are the ones whose capabilities
/// (`capabilities` of the node file) have device nodes that it may open.
std::vector<FakeMigDevice> visibleMigDevices(const FakeNode& node, std::size_t place);

/// Returns the uuid of a MIG device of a card; empty for a card without a uuid of NVIDIA's form.
std::string uuidOfMigDevice(const std::string& card, uint32_t gpuInstance, uint32_t computeInstance);

}  // namespace egpu::nvidia::testing
