// Where a pod's bound volumes can be reached, as kube-scheduler's VolumeBinding plugin asks it. Pure; bound_volumes.h
// reads them.
#pragma once

#include <vector>

#include "api/core/objects.h"

namespace egpu::reconcile {

/// Each is the node affinity of one bound PersistentVolume; all must admit the node.
bool reachable(const std::vector<core::NodeSelector>& volumes, const core::Node& node);

}  // namespace egpu::reconcile
