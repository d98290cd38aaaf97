// Whether a pod's bound volumes can be reached from a node, as in kube-scheduler's VolumeBinding plugin. Pure;
// bound_volumes.h reads the volumes.
#pragma once

#include <vector>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// True if all volumes admit the node. Each is the node affinity of one bound PersistentVolume.
bool reachable(const std::vector<core::NodeSelector>& volumes, const core::Node& node);

}  // namespace egpu::reconcile
