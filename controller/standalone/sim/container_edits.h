// What the CDI devices of one container come to, as runtimes have it.
#pragma once

#include <string>

#include "api/core/container_edits.h"

namespace egpu::sim {

/// Adds one more device's edits: of two that set one variable, mount on one path or give a node one path, the later one
/// stands.
void apply(core::ContainerEdits& into, const core::ContainerEdits& more);

/// One line per edit, each preceded by a line break: "env A=1", "device /dev/nvidia0", "mount /host → /container (ro)",
/// "cdi nvidia.com/gpu=GPU-…". Lines, because kubectl describe cuts annotations at 140 characters a line.
std::string describeEdits(const core::ContainerEdits& edits);

}  // namespace egpu::sim
