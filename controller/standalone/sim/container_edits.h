// What several claims give one container, as one: CDI edits are made claim by claim, but a container has one
// environment.
#pragma once

#include <cstddef>
#include <string>

#include "controller/plugin/provisioner.h"

namespace egpu::sim {

/// Adds one more claim's edits. Variables that list devices, cards or claims (NVIDIA_VISIBLE_DEVICES and the like) name
/// all of them, each once; those numbered by card (ELASTICGPU_CORE_0) go on counting after the `cardsBefore` cards of
/// the claims before. Of other variables and of mounts on one path the later ones win, as a runtime has it.
void merge(plugin::ContainerEdits& into, const plugin::ContainerEdits& more, std::size_t cardsBefore);

/// One line per edit, each preceded by a line break: "env A=1", "device /dev/nvidia0", "mount /host → /container (ro)",
/// "cdi nvidia.com/gpu=GPU-…". Lines, because kubectl describe cuts annotations at 140 characters a line.
std::string describeEdits(const plugin::ContainerEdits& edits);

}  // namespace egpu::sim
