// Reconciles pods that use claims. A pod chooses one node for all of its claims that have no device, and loses its
// scheduling gate once the ResourceClaims of all its claims are allocated.
//
// What keeps the gate, in the order of a step. PodEvents reports it on the pod:
//   awaitEnd          the pod may not be scheduled (schedulability.h): another controller's gate, a scheduler that is
//                     not served
//   claimsOf          a claim is not stamped from its template yet, does not exist, or is being deleted
//   leaveToScheduler  only with a scheduler that uses our extender: a claim's class or plugin refuses (choiceOf)
//   PodColocation     claims are on several nodes, and some can move
//   awaitRound        a claim has no device, and other pods of the claim choose its node (consumer_rounds.h)
//   PodPlacement      a claim has no device: its class or plugin refuses (choiceOf); several choices failed and the
//                     next one is in backoff; a quota is exceeded (overQuota); a preemption is under way (noneFits); no
//                     node has capacity and suits (noFit); the API server refused the device (writeIntents). For an
//                     Immediate class, the claim's own step reports the reason
//   PodUngate         a claim is Lost, its device is Failed or being deleted; claimsOnDifferentNodes; areAllAllocated:
//                     no allocation yet, or an Immediate claim is not Bound; the node does not suit the pod (unsuited)
//   removeGate        the API server refuses the patch: ApiRejections reports it
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/pod/colocation.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/pod/placement.h"
#include "controller/reconcile/pod/pod_events.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/pod/ungate.h"
#include "controller/reconcile/pod/used_claims.h"

namespace egpu::reconcile {

/// Reads the pod's claims and lets one class act. Thread-safe; at most one thread per pod at a time. The references
/// must outlive it.
class PodSync {
 public:
  PodSync(const ClaimContext& context, ClaimParts& parts, kube::EventSink& events)
      : context_(context),
        demand_(context, parts),
        events_(context, events),
        colocation_(context, parts),
        placement_(context, parts, events_, colocation_),
        ungate_(context, parts, events_) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  DemandReader& demand() { return demand_; }
  /// See PodPlacement::freed().
  void freed(const std::string& node) { placement_.freed(node); }
  /// Number of remembered entries, at most two per pod; for tests.
  std::size_t remembered() const { return events_.size() + placement_.remembered(); }

 private:
  /// Returns the claims that the pod names. nullopt if a claim does not exist, is being deleted or belongs to another
  /// ResourceClaim; an event on the pod reports that. lacks: set to that claim or template, unless it is about to be
  /// created.
  std::optional<std::vector<UsedClaim>> claimsOf(const core::Pod& pod, std::string* lacks, std::stop_token stop);
  /// Returns the pod's claims that exist and are not being deleted.
  std::vector<UsedClaim> presentClaims(const core::Pod& pod) const;
  /// Reports the obstacle. Nothing is decided for the pod before the obstacle ends.
  Outcome awaitEnd(const core::Pod& pod, const PodObstacle& obstacle);
  Outcome decideFor(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop);
  /// Leaves the choice of a node to another scheduler: chooses none and rolls back intents that no binding needs.
  Outcome leaveToScheduler(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop);
  /// True if all consumers of the claim are left to another scheduler. Otherwise the step of another pod reports on the
  /// claim, and the two reports would overwrite each other.
  bool allPodsForeignScheduled(const cache::Claim& claim) const;
  /// Counts the pod on the node of its claims' devices, or nowhere if the devices are apart or the pod can't be placed
  /// there.
  void plan(const core::Pod& pod, const std::vector<UsedClaim>& used);

  const ClaimContext& context_;
  DemandReader demand_;
  PodEvents events_;
  PodColocation colocation_;
  PodPlacement placement_;
  PodUngate ungate_;
};

}  // namespace egpu::reconcile
