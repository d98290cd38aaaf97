// Brings the claims of one pod to one node: rolls back intents that are on other nodes, or beside which the rest does
// not fit.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/pod/used_claims.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per pod at a time. The references must outlive it.
class PodColocation {
 public:
  PodColocation(const ClaimContext& context, ClaimParts& parts) : context_(context), parts_(parts) {}

  /// Rolls back intents of claims that are on another node than the pod's other claims. nullopt if none can or need be
  /// moved.
  std::optional<Outcome> reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop);
  /// Rolls back the pod's intents if there is no capacity beside them, but all of its claims would fit on another node.
  /// nullopt if that would not help; sets `anyShort` if it might help once other pods release something.
  std::optional<Outcome> rescheduleTogether(const core::Pod& pod, const std::vector<UsedClaim>& used, bool* anyShort,
                                            std::stop_token stop);
  /// True if the claim's intent may be rolled back and no other pod needs it on its node.
  bool canRollBackIntent(const core::Pod& pod, const UsedClaim& one) const;
  Outcome regroup(const std::vector<const UsedClaim*>& moving, const std::string& why, std::stop_token stop);

 private:
  const ClaimContext& context_;
  ClaimParts& parts_;
};

}  // namespace egpu::reconcile
