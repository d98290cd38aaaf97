// (C6) Decides the first alternative of a claim that fits (spec.firstAvailable; most claims have one). The device (W1)
// names it, so that no later step chooses again. If none fits, preempts, or reports why, and remedies.
#pragma once

#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"

namespace egpu::reconcile {

/// For claims that are decided alone, by their own step: not with a pod (PodSync) or a gang (GangSync). Thread-safe,
/// but one thread per claim at a time. The references must outlive it.
class ClaimPlacement {
 public:
  ClaimPlacement(const ClaimContext& context, ClaimParts& parts) : context_(context), parts_(parts) {}

  Outcome reconcile(const cache::Claim& claim, ResolvedClaim asked, std::stop_token stop);

 private:
  /// Decisions for the alternatives that were tried, see scheduler::decideFirst(). An outcome: nothing could be decided
  /// now.
  std::variant<std::vector<scheduler::Decision>, Outcome> decideFirst(const cache::Claim& claim,
                                                                      const ResolvedClaim& asked,
                                                                      const scheduler::NodePredicate& suits,
                                                                      const std::string& nodes);
  /// decide() on the best candidates, in the order that the class's plugin prefers; it may veto nodes. An outcome:
  /// nothing could be decided now.
  std::variant<scheduler::Decision, Outcome> decideAsPreferred(const cache::Claim& claim, const ResolvedClaim& asked,
                                                               const scheduler::NodePredicate& suits,
                                                               const std::string& nodes);
  /// Nodes of the candidates in the plugin's order. Vetoed nodes are left out and backed off.
  std::vector<std::string> preferredNodes(const cache::Claim& claim, const ResolvedClaim& asked,
                                          const std::vector<scheduler::Decision>& candidates,
                                          const plugin::PreferReply& answer);
  /// Decides; uses a node that refused the device before only if the claim fits nowhere else.
  scheduler::Decision decide(const cache::Claim& claim, const ResolvedClaim& asked,
                             const scheduler::NodePredicate& suits, const std::string& nodes);
  /// Handles alternatives none of which fits.
  Outcome noneFits(const cache::Claim& claim, const ResolvedClaim& asked, const std::vector<scheduler::Decision>& tried,
                   const scheduler::NodePredicate& suits, const std::string& nodes, std::stop_token stop);

  const ClaimContext& context_;
  ClaimParts& parts_;
};

}  // namespace egpu::reconcile
