// Device nodes in /dev of NVIDIA's cards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// Returns the paths in a container for the cards with these minor numbers: the cards' nodes, nvidiactl, and the
/// driver's other nodes that exist.
std::vector<std::string> deviceNodes(const std::vector<int64_t>& minors);

/// Returns unavailable, with the remedy, if CUDA could not start in a container because /dev/nvidia-uvm is missing;
/// otherwise NO_CHANGE. Plugins may not create nodes; the agent has created them if it could.
sdk::Status checkNodes();

}  // namespace egpu::nvidia
