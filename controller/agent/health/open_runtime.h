// Whether this node's container runtime gives cards to containers that have no claim.
#pragma once

#include <string>

namespace egpu::agent::health {

/// Where NVIDIA's container runtime is the node's default and obeys the variable NVIDIA_VISIBLE_DEVICES of any
/// container, an image with the value "all" gets every card. A sentence that names both settings and the remedy; empty
/// if the host's files show no such pair. root: where the host's root folder is seen.
std::string openToAll(const std::string& root);

}  // namespace egpu::agent::health
