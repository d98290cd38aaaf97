// Requests that free cards: evict a pod, ask a claim to move. The sender needs the rights: the controller for
// preemption, otherwise the caller that requests moves.
#pragma once

#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/kube/transport/transport.h"

namespace egpu::kube {

/// Evicts exactly this pod. dry: only checks that its disruption budgets allow it.
HttpRequest evictionOf(const core::Pod& pod, bool dry);
/// Asks this claim to leave the device, but not a later claim with the same name. dry: only checks that the sender may.
HttpRequest askToMove(const v1alpha::ElasticGPUClaim& claim, const std::string& deviceUid, bool dry);

}  // namespace egpu::kube
