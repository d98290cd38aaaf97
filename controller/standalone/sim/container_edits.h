// Combines the edits of all CDI devices of one container, as container runtimes do.
#pragma once

#include <string>

#include "api/core/container_edits.h"

namespace egpu::sim {

/// Adds the edits of a further device. An edit replaces an earlier one for the same variable, container path or device
/// node path.
void apply(core::ContainerEdits& into, const core::ContainerEdits& more);

/// Returns one line per edit, each preceded by a line break: "env A=1", "device /dev/nvidia0", "mount /host →
/// /container (ro)", "cdi nvidia.com/gpu=GPU-…". Each edit has its own line because kubectl describe cuts annotations
/// at 140 characters per line.
std::string describeEdits(const core::ContainerEdits& edits);

}  // namespace egpu::sim
