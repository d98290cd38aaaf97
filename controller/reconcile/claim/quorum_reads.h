// Quorum reads before a decision or a write that can't be undone. The stores get the objects that are read.
#pragma once

#include <stop_token>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

/// Returns the obstacle to deciding the claim: its pods may not be scheduled. Reads the pod that the claim was created
/// for if the cache lacks it.
base::Result<PodObstacle> obstacleNow(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop);
/// Returns whether a class of the claim exists although the cache lacks it.
base::Result<bool> classExistsNow(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop);
/// Reads the claim's known pods, gated or not.
base::Status readPodsOf(const ClaimContext& context, const cache::Claim& claim, std::stop_token stop);

}  // namespace egpu::reconcile
