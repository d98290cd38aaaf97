// CPU, memory, ephemeral storage and the number of pods, as kube-scheduler's NodeResourcesFit plugin counts them. Pure.
#pragma once

#include <string>

#include "api/core/objects.h"
#include "controller/cache/node_usage.h"

namespace egpu::reconcile {

/// Empty: what the node can give holds what runs there and this besides; else what it is short of. What isn't asked
/// for at all is not missed, however overdrawn the node is.
std::string shortOf(const cache::PodRequests& wanted, const cache::NodeUsage::Sum& taken, const core::Node& node);

}  // namespace egpu::reconcile
