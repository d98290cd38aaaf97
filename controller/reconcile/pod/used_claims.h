// Claims that a pod uses, with their devices, as one step reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

struct UsedClaim {
  ClaimPtr claim;
  GpuPtr device;  ///< null: none yet
};

/// Returns the claims without those whose device pods on any node can use.
std::vector<UsedClaim> claimsWithNode(const std::vector<UsedClaim>& used);
/// Returns a report if the claims are on several nodes; otherwise nullopt.
std::optional<Outcome> claimsOnDifferentNodes(const core::Pod& pod, const std::vector<UsedClaim>& used);
/// Reports on each claim with a device that its node does not suit the pod.
std::vector<ConditionUpdate> nodeUnsuitableReports(const std::vector<UsedClaim>& used, const std::string& message);

}  // namespace egpu::reconcile
