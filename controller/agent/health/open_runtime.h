// Detects a container runtime that gives cards to containers without a claim.
#pragma once

#include <string>

namespace egpu::agent::health {

/// If NVIDIA's container runtime is the node's default and honours the variable NVIDIA_VISIBLE_DEVICES of any
/// container, an image with the value "all" gets every card. Returns a sentence that names both settings and the
/// remedy, or an empty string if the host's files do not contain both. `root`: path of the host's root folder.
std::string openToAll(const std::string& root);

}  // namespace egpu::agent::health
