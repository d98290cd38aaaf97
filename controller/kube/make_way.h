// Requests by which cards come free: a pod goes, a claim moves. Whoever sends them needs the right to: the controller for those who come
// first, or who asks it to move claims.
#pragma once

#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

/// Eviction of exactly this pod. dry: only whether its budgets would let it go.
HttpRequest evictionOf(const core::Pod& pod, bool dry);
/// Asks this claim, and none that was made anew under its name, to leave the device. dry: only whether the sender may.
HttpRequest askToMove(const v1alpha::ElasticGPUClaim& claim, const std::string& deviceUid, bool dry);

}  // namespace egpu::kube
