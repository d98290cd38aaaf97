// Device nodes with which a container reaches MIG instances.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace egpu::nvidia {

/// Returns the nodes of a GPU instance and its compute instance on the card with this minor number, as
/// /proc/driver/nvidia-caps/mig-minors numbers them; nullopt if it does not list them.
std::optional<std::vector<std::string>> migNodes(int64_t cardMinor, int gpuInstance, int computeInstance);

}  // namespace egpu::nvidia
