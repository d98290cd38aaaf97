// The files in /dev by which a container reaches NVIDIA's cards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

/// Paths in a container for the cards with these minor numbers: those of the cards and nvidiactl, and what else of the
/// driver's is there.
std::vector<std::string> deviceNodes(const std::vector<int64_t>& minors);

/// Unavailable, with what to do, if CUDA could not start in a container for want of /dev/nvidia-uvm; else NO_CHANGE. A
/// plugin's process may make no nodes: the agent has, if it could.
sdk::Status checkNodes();

}  // namespace egpu::nvidia
