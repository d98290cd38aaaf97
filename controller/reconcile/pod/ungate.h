// (W9) Removes the gate of a pod whose ResourceClaims are all allocated, if their node suits the pod.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/pod/pod_events.h"
#include "controller/reconcile/pod/used_claims.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per pod at a time. The references must outlive it.
class PodUngate {
 public:
  PodUngate(const ClaimContext& context, ClaimParts& parts, PodEvents& events)
      : context_(context), parts_(parts), events_(events) {}

  /// For a pod whose claims all have devices.
  Outcome reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop);
  /// Applies the patch that removes the gate. nullopt: it is removed.
  std::optional<Outcome> removeGate(const core::Pod& pod, const std::string& body, std::stop_token stop);

 private:
  /// True if every claim's ResourceClaim is allocated on its device, and all gangs and Immediate claims are Bound.
  bool areAllAllocated(const core::Pod& pod, const std::vector<UsedClaim>& used);
  /// W9. pinTo: node to which the pod is pinned; empty = the scheduler chooses.
  Outcome liftGate(const core::Pod& pod, const std::vector<UsedClaim>& used, const std::string& pinTo,
                   std::stop_token stop);
  bool suitsAnotherPod(const core::Pod& pod, const std::vector<UsedClaim>& used, const core::Node& node) const;

  const ClaimContext& context_;
  ClaimParts& parts_;
  PodEvents& events_;
};

}  // namespace egpu::reconcile
