// What several claims give one container, as one: CDI edits are made claim by claim, but a container has one
// environment.
#pragma once

#include <string>
#include <vector>

#include "controller/plugin/provisioner.h"

namespace egpu::sim {

/// What a container is given, over all of its claims.
struct ContainerDevices {
  std::vector<plugin::CardShare> cards;  ///< each card once, in the order of the variables' numbers; shares added up
  plugin::ContainerEdits edits;
};

/// Adds one more claim's edits; `cards` are the claim's, in its plugin's order.
/// - Variables that list devices, cards or claims (NVIDIA_VISIBLE_DEVICES and the like) name all of them, each once.
/// - Those numbered by card (ELASTICGPU_CORE_0) are numbered by card of the container instead of the claim: that number
///   is the card's place in the list. Two shares of one card add up: 4096m and 2048m make 6144m.
/// - A limit that holds on every card (CUDA_DEVICE_SM_LIMIT) is the smallest of the cards' sums, in percent.
/// - Of other variables, and of mounts on one path, the later ones win, as a runtime has it.
void merge(ContainerDevices& into, const plugin::ContainerEdits& more, const std::vector<plugin::CardShare>& cards);

/// One line per edit, each preceded by a line break: "env A=1", "device /dev/nvidia0", "mount /host → /container (ro)",
/// "cdi nvidia.com/gpu=GPU-…". Lines, because kubectl describe cuts annotations at 140 characters a line.
std::string describeEdits(const plugin::ContainerEdits& edits);

}  // namespace egpu::sim
