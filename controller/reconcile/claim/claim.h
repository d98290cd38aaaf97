// Dispatcher of the state machine of claims (state_machine.h): reads the claim's state and lets one class act on it.
//
//   no device    StaticBinding (C9), GangSync (C14), ClaimPlacement and RemotePlacement (C6), or the step of its pod
//                (C5)
//   intent       IntentSync (C7), which waits for the members of its gang with IncompleteGang (C14)
//   bound        this class (C8), (C10); ClaimResize (C15); VictimSync (C13); IncompleteGang (C14)
//   lost         ClaimRelease (C11)
//   deleted      ClaimRelease (C12)
//
// Each class uses the context and the shared parts only (claim/parts.h), and none calls the dispatcher.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/claim/release.h"
#include "controller/reconcile/gang/gang_sync.h"
#include "controller/reconcile/gang/incomplete_gang.h"
#include "controller/reconcile/intent/intent.h"
#include "controller/reconcile/placement/placement.h"
#include "controller/reconcile/placement/remote_placement.h"
#include "controller/reconcile/placement/static_binding.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/priority/victim.h"
#include "controller/reconcile/resize/resizing.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time, which the work queue guarantees. The references must outlive it.
class ClaimSync {
 public:
  ClaimSync(const ClaimContext& context, ClaimParts& parts)
      : context_(context),
        parts_(parts),
        staticBinding_(context, parts),
        placement_(context, parts),
        remotePlacement_(context, parts, staticBinding_),
        gang_(context, parts),
        incompleteGang_(context, parts),
        intent_(context, parts, incompleteGang_),
        resize_(context),
        victim_(context, parts),
        release_(context) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// (C14) One step of a gang. gang: a key as gangNamedBy() returns it.
  Outcome gangStep(const core::ObjectKey& gang, std::stop_token stop) { return gang_.reconcile(gang, std::move(stop)); }
  /// Reports on claims that a plugin's call for them takes long.
  Outcome reportSlowProvisioning(const std::string& plugin) { return intent_.reportSlowProvisioning(plugin); }
  /// True if a claim was bound or evicted within bindingBurstTimeout, so that the summary of cards can wait.
  bool changedRecently() const {
    return context_.clock.now() - changedAt_.load() < context_.timeouts.bindingBurstTimeout;
  }

 private:
  Outcome reconcile(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop);
  /// Also reports the health of the claim's cards after a step that leaves a bound claim as it is.
  Outcome reportHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop);
  Outcome reconcileUnbound(const ClaimPtr& claim, std::stop_token stop);  // (C1)…(C6)
  /// Handles a claim that reports a device which the cache lacks. Nullopt: the claim must be decided again.
  std::optional<Outcome> reconcileMissingDevice(const ClaimPtr& claim, std::stop_token stop);
  /// Reports the refusal of the claim's provisioner. A gang's decision is dropped.
  Outcome reportProvisionRefusal(const cache::Claim& claim, const std::string& refusal);
  /// Drops all decisions and reservations for the claim, and reports the obstacle.
  Outcome awaitPods(const cache::Claim& claim, const PodObstacle& obstacle);
  Outcome leaveToConsumer(const ClaimPtr& claim);                                                     // (C5)
  Outcome commit(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);                  // (C8)
  Outcome reconcileBound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);  // (C10)
  Outcome reconcileResourceClaim(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// The last event of the device requeues the claim. Until then the claim reports why the device remains.
  static Outcome awaitRollBack(const cache::Claim& claim, const cache::Gpu& device);

  const ClaimContext& context_;
  ClaimParts& parts_;
  StaticBinding staticBinding_;
  ClaimPlacement placement_;
  RemotePlacement remotePlacement_;
  GangSync gang_;
  IncompleteGang incompleteGang_;
  IntentSync intent_;
  ClaimResize resize_;
  VictimSync victim_;
  ClaimRelease release_;
  std::atomic<base::Clock::Steady> changedAt_{base::Clock::Steady{}};
};

}  // namespace egpu::reconcile
