// MIG instances of the devices on this node, according to the MIG plugin's records (provisioners/nvidia/mig/records.h).
// The driver and dcgm-exporter report ids of instances, but not their claims.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace egpu::agent::usage {

/// Maximum number of instances that are returned. Suffices for sixteen cards with seven instances each.
inline constexpr std::size_t kMaxMigInstances = 112;

struct MigInstance {
  std::string card;         ///< uuid
  std::string gpuInstance;  ///< id of the GPU instance
  std::string uuid;         ///< uuid of the MIG device, as in nvidia-smi -L
  std::string profile;
  std::string namespace_, claim;
  bool operator==(const MigInstance&) const = default;
};

/// Returns the complete instances of this boot in the order of their records. A file that is not a record has none.
/// state: the plugins' state folder, which plugins can write.
std::vector<MigInstance> migInstances(const std::string& state, const std::string& boot);

}  // namespace egpu::agent::usage
