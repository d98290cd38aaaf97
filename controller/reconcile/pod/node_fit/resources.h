// CPU, memory, ephemeral storage and the number of pods, as kube-scheduler's NodeResourcesFit plugin counts them. Pure.
#pragma once

#include <string>

#include "api/core/objects.h"
#include "controller/cache/node_usage.h"

namespace egpu::reconcile {

/// Returns the resource that the node lacks for the pod beside `taken`; empty if the pod fits. A resource that the pod
/// does not request is never lacking, even on an overcommitted node.
std::string shortOf(const cache::PodRequests& wanted, const cache::NodeUsage::Sum& taken, const core::Node& node);

}  // namespace egpu::reconcile
