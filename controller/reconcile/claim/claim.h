// State machine of claims (state_machine.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/claim/release.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/claim/static_binding.h"
#include "controller/reconcile/claim/victim.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/gang/gang_sync.h"
#include "controller/reconcile/gang/incomplete_gang.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/preemption.h"
#include "controller/reconcile/resize/resizing.h"

namespace egpu::reconcile {

class GangPods;

/// Thread-safe, but one thread per claim at a time, which the work queue guarantees.
class ClaimSync {
 public:
  ClaimSync(const ClaimContext& context, ClaimParts& parts)
      : context_(context),
        resolver_(parts.resolver),
        gangs_(parts.gangs),
        preemptor_(parts.preemptor),
        report_(parts.report),
        rollback_(parts.rollback),
        intents_(parts.intents),
        staticBinding_(context, parts),
        release_(context),
        resize_(context),
        victim_(context, parts),
        gang_(context, parts),
        incompleteGang_(context, parts) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);

  /// (C14) One step of a gang, by gangNamedBy().
  Outcome gangStep(const core::ObjectKey& gang, std::stop_token stop) { return gang_.reconcile(gang, std::move(stop)); }
  /// Reports on claims that a plugin's call for them takes long.
  Outcome reportSlowProvisioning(const std::string& plugin);

  /// True if a claim was bound within kRush: many claims are being bound.
  bool boundLately() const { return context_.clock.now() - boundAt_.load() < kRush; }

 private:
  using milliseconds = std::chrono::milliseconds;

  Outcome look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop);
  /// Also reports the health of its cards after a step that leaves a bound claim as it is.
  Outcome reportHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop);
  Outcome unbound(const ClaimPtr& claim, std::stop_token stop);  // (C1)…(C6)
  /// Handles a claim that reports a device which the cache lacks. Nullopt: the claim is to be decided.
  std::optional<Outcome> withoutItsDevice(const ClaimPtr& claim, std::stop_token stop);
  /// Drops all decisions and reservations for the claim, and reports the obstacle.
  Outcome awaitPods(const cache::Claim& claim, const PodObstacle& obstacle);
  Outcome leaveToConsumer(const ClaimPtr& claim);  // (C5)
  Outcome choose(const cache::Claim& claim, const ResolvedClaim& asked,
                 std::stop_token stop);  // (C6)
  /// Decides; uses a node that refused the device before only if the claim fits nowhere else.
  scheduler::Decision decide(const cache::Claim& claim, const ResolvedClaim& asked,
                             const scheduler::NodePredicate& suits, const std::string& nodes);
  /// Decisions for the alternatives that were tried, see scheduler::decideFirst(). An outcome: nothing could be decided
  /// now.
  std::variant<std::vector<scheduler::Decision>, Outcome> decideFirst(const cache::Claim& claim,
                                                                      const ResolvedClaim& asked,
                                                                      const scheduler::NodePredicate& suits,
                                                                      const std::string& nodes);
  /// (C6) Handles alternatives none of which fits.
  Outcome noneFits(const cache::Claim& claim, const ResolvedClaim& asked, const std::vector<scheduler::Decision>& tried,
                   const scheduler::NodePredicate& suits, const std::string& nodes, std::stop_token stop);
  /// decide() on the best candidates, in the order that the class's plugin prefers; it may veto nodes. An outcome:
  /// nothing could be decided now.
  std::variant<scheduler::Decision, Outcome> decideAsPreferred(const cache::Claim& claim, const ResolvedClaim& asked,
                                                               const scheduler::NodePredicate& suits,
                                                               const std::string& nodes);
  /// Nodes of the candidates in the plugin's order. Vetoed nodes are left out and backed off.
  std::vector<std::string> preferredNodes(const cache::Claim& claim, const ResolvedClaim& asked,
                                          const std::vector<scheduler::Decision>& candidates,
                                          const plugin::PreferReply& answer);
  Outcome syncIntent(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);  // (C7)
  Outcome provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Handles an answer of the plugin other than OK.
  Outcome notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                         std::stop_token stop);
  Outcome waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Time until the claim reports that its pod is not placed yet; zero if it reports now, because it reports another
  /// obstacle that is over.
  std::chrono::milliseconds untilPlacementReport(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Moves the intent away if the scheduler knows its pod but does not place it in time. Nullopt: it may still do so.
  std::optional<Outcome> unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device, const core::Pod& pod,
                                         milliseconds* again, std::stop_token stop);
  /// Reports the obstacle to the ResourceClaim also as the reason why the claim is not bound.
  static Outcome resourceClaimNotReady(const cache::Claim& claim, const ResourceClaimBridge::Answer& answer);
  Outcome committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);     // (C8)
  Outcome bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);  // (C10)
  Outcome carried(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Reports an intent that can neither go on nor move (a pod has reserved it, or its user named it), and retries.
  static Outcome stuck(const cache::Claim& claim, const std::string& why);
  /// Live pod of the claim that waits for the scheduler, or null.
  cache::Store<core::Pod>::Ptr podToPlace(const cache::Claim& claim) const;
  static Outcome rolledBack(const cache::Claim& claim, const cache::Gpu& device);

  const ClaimContext& context_;
  ClaimResolver& resolver_;
  GangMembership& gangs_;
  Preemptor& preemptor_;
  UnschedulableReport& report_;
  IntentRollback& rollback_;
  IntentWriter& intents_;
  StaticBinding staticBinding_;
  ClaimRelease release_;
  ClaimResize resize_;
  VictimSync victim_;
  GangSync gang_;
  IncompleteGang incompleteGang_;
  static constexpr std::chrono::milliseconds kRush{200};
  std::atomic<base::Clock::Steady> boundAt_{base::Clock::Steady{}};
};

}  // namespace egpu::reconcile
