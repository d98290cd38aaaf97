// Rolls back intents: devices that are written (W1) and not provisioned. The claim is then decided again.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

/// Thread-safe. The context must outlive it.
class IntentRollback {
 public:
  explicit IntentRollback(const ClaimContext& context) : context_(context) {}

  /// avoidNodeFor: why the intent's node is avoided for a while; empty: it is not. Does nothing if a pod has reserved
  /// the claim meanwhile.
  Outcome rollBack(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                   std::stop_token stop);
  /// Rolls back an intent that no pod has reserved, and the idle intents of the same pods, and avoids its node for a
  /// while. Their pod chooses again. Reports this on the claim.
  Outcome moveAway(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);
  /// Rolls back such an intent so that it is decided again with its pod's other claims. Does not avoid its node.
  Outcome regroup(const cache::Claim& claim, const cache::Gpu& device, const std::string& why, std::stop_token stop);

 private:
  /// rollBack() with a report on the claim. Also counts it, for the backoff before the next choice.
  Outcome rollBackAndReport(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                            const std::string& why, std::stop_token stop);

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
