// Reconciles pods that use claims. A pod chooses one node for all of its claims that have no device, and loses its
// scheduling gate once the ResourceClaims of all its claims are allocated.
//
// What keeps the gate, in the order of a step. tell() and tellConditions() report it on the pod:
//   awaitEnd          the pod may not be scheduled (schedulability.h): another controller's gate, a scheduler that is
//                     not served
//   claimsOf          a claim is not stamped from its template yet, does not exist, or is being deleted
//   leaveToScheduler  only with a scheduler that uses our extender: a claim's class or plugin refuses (choiceOf)
//   gather            claims are on several nodes, and some can move
//   awaitTurn         a claim has no device, and other pods of the claim choose its node (consumer_turns.h)
//   choose            a claim has no device: its class or plugin refuses (choiceOf); several choices failed and the
//                     next one is in backoff; a quota is exceeded (overQuota); a preemption is under way (noRoom); no
//                     node has capacity and suits (noFit); the API server refused the device (writeIntents). For an
//                     Immediate class, the claim's own step reports the reason
//   letGo             a claim is Lost, its device is Failed or being deleted; claimsOnDifferentNodes; allCarried: no allocation yet,
//                     or an Immediate claim is not Bound; the node does not suit the pod (unsuited)
//   removeGate        the API server refuses the patch: ApiRejections reports it
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/allocator/allocator.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/pod/node_choice.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/reconcile/retry/waiting.h"

namespace egpu::reconcile {

/// Message for a claim that could be decided if it were not for `names`: other claims, or a template, of its pod.
std::string waitText(const core::Pod& pod, const std::string& names);

/// Thread-safe; at most one thread per pod at a time. pod.cpp reads the claims and emits events, place.cpp chooses a
/// node, colocate.cpp brings claims to one node, and ungate.cpp removes the gate.
class PodSync {
 public:
  PodSync(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Binder& binder, ClaimSync& claims,
          Waiting& waiting, BoundVolumes& volumes, kube::EventSink& events,
          std::function<void(const std::string& queueKey)> enqueue)
      : writer_(writer),
        stores_(stores),
        cluster_(cluster),
        binder_(binder),
        claims_(claims),
        waiting_(waiting),
        volumes_(volumes),
        events_(events),
        enqueue_(std::move(enqueue)) {}

  Outcome step(const core::ObjectKey& key, std::stop_token stop);
  /// Number of remembered entries, at most two per pod; for tests.
  std::size_t remembered() const;
  /// Returns the claim's device by claimRef, or null.
  cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Claim& claim) const { return claims_.deviceOf(claim); }
  /// Returns the requirements of the pod's claims for a node that another scheduler chooses. pod: as that scheduler
  /// knows it.
  PodDemand demandOf(const core::Pod& pod);
  /// Returns a message if a template of the pod has no ResourceClaim yet and is not known to be another driver's; else
  /// empty.
  std::string unstamped(const core::Pod& pod) const;
  /// Called when pods left the node or request less of it. Enqueues the pods, oldest first, that lacked CPU, memory or
  /// pod slots and now fit there.
  void freed(const std::string& node);

 private:
  using ClaimPtr = cache::Store<cache::Claim>::Ptr;
  using GpuPtr = cache::Store<cache::Gpu>::Ptr;
  using milliseconds = std::chrono::milliseconds;
  struct Used {
    ClaimPtr claim;
    GpuPtr device;  ///< null: none yet
  };
  struct Short {
    Age age;
    cache::PodRequests requests;
  };
  /// Returns the claims that the pod names. nullopt if a claim does not exist, is being deleted or belongs to another
  /// ResourceClaim; an event on the pod reports that. lacks: set to that claim or template, unless it is about to be
  /// created.
  std::optional<std::vector<Used>> claimsOf(const core::Pod& pod, std::string* lacks, std::stop_token stop);
  /// Returns the pod's claims that exist and are not being deleted.
  std::vector<Used> presentClaims(const core::Pod& pod) const;
  /// Reports the obstacle. Nothing is decided for the pod before the obstacle ends.
  Outcome awaitEnd(const core::Pod& pod, const PodObstacle& obstacle);
  Outcome decideFor(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  void removeNodeResourceWait(const core::ObjectKey& pod);
  Outcome choose(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// Leaves the choice of a node to another scheduler: chooses none and rolls back intents that no binding needs.
  Outcome leaveToScheduler(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// True if all consumers of the claim are left to another scheduler. Otherwise the step of another pod reports on the
  /// claim, and the two reports would overwrite each other.
  bool allPodsForeignScheduled(const cache::Claim& claim) const;
  /// Adds the part of one claim to demandOf().
  void addDemand(const core::Pod& pod, const core::ObjectKey& claim, PodDemand& demand);
  void addOpen(const cache::Claim& claim, const GpuPtr& device, PodDemand& demand);
  /// The pod's claims without a device, and their requests.
  struct Choice {
    std::vector<const Used*> open;
    std::vector<ResolvedClaim> asked;
    std::vector<cache::ClusterView::SchedulingRequest> asks;
    std::string node;  ///< if not empty, the only candidate: the pod or another of its claims is there
    std::string fixedBy;
    milliseconds wait{0};  ///< time until the next choice is allowed
  };
  /// Returns nullopt if there is nothing to choose now; `outcome` is then the result of the step.
  std::optional<Choice> choiceOf(const core::Pod& pod, const std::vector<Used>& used, Outcome* outcome);
  /// Tries combinations of the claims' alternatives in the order of scheduler::Combinations and returns the first one
  /// that fits. If none fits, tries the first combination on nodes where the scheduler can evict pods for this pod. If
  /// that fails too, `excess` is set only if a quota excludes all combinations, and `alone` is true for a claim of
  /// which any alternative fits by itself.
  struct Tried {
    scheduler::Together together;
    bool firstOverQuota = false;  ///< a quota excludes the first combination: no node would help it
  };
  Tried decideFirst(const Choice& choice, NodeChoice& nodes);
  /// Requests a node reservation for claims that fit no node now: ClusterView::reserveNodeFor().
  void keepNode(const Choice& choice, NodeChoice& nodes);
  /// Returns the requests of one combination. which: the number of each claim's alternative.
  static std::vector<cache::ClusterView::SchedulingRequest> asksOf(const Choice& choice,
                                                                   const std::vector<std::size_t>& which);
  /// Places all requests on one node without evictions.
  scheduler::Together decide(std::vector<cache::ClusterView::SchedulingRequest> asks, NodeChoice& nodes);
  /// Registers the pod and its requests as pending. Returns false if the pod yields to other keys
  /// (UnschedulableQueue::add).
  bool waitForRoom(const core::Pod& pod, const Choice& choice);
  /// (C6) Searches for victims whose eviction frees capacity for all open claims of the pod on one node. nullopt if
  /// there are none, or if this pod may not preempt.
  std::optional<Outcome> nominateVictims(const core::Pod& pod, const Choice& choice, NodeChoice& nodes,
                                         std::stop_token stop);
  /// Called when no decision was made. Rolls back the pod's own intents if that helps, preempts, or reports NoFit or
  /// QuotaExceeded.
  Outcome noRoom(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                 const scheduler::Together& together, NodeChoice& nodes, std::stop_token stop);
  /// Reports that a quota excludes some of the claims. None of them is decided then.
  Outcome overQuota(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                    const scheduler::QuotaExcess& excess);
  /// Allows the nodes again on which the API server refused one of the claims. Returns whether there were any.
  bool forgetRefusedNodes(const std::vector<cache::ClusterView::SchedulingRequest>& asks);
  Outcome noFit(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                const std::vector<bool>& alone, NodeChoice& nodes);  // (C6)
  /// Explains why the claims do not fit together. each: every claim fits by itself.
  static std::string whyNotTogether(const core::Pod& pod, const Choice& choice, bool each, NodeChoice& nodes);
  Outcome writeIntents(const core::Pod& pod, const Choice& choice, const std::vector<scheduler::Decision>& decisions,
                       std::stop_token stop);  // W1
  /// True if the claim's intent may be rolled back and no other pod needs it on its node.
  bool canRollBackIntent(const core::Pod& pod, const Used& one) const;
  /// Returns the first of the pod's claims whose node other pods choose for now (ConsumerTurns); null if there is none.
  const cache::Claim* chosenByOthers(const core::Pod& pod, const std::vector<Used>& used);
  /// Defers the pod's choice: other pods choose for this claim first, or it is not this pod's turn.
  Outcome awaitTurn(const core::Pod& pod, const std::vector<Used>& used, const cache::Claim& claim);
  /// Returns reports for the pod's claims that could be decided if it were not for the pod's other claims.
  std::vector<ConditionUpdate> waitReports(const core::Pod& pod, const std::vector<Used>& used, const std::string& why);
  /// Adds a report for each of these claims that the pod reports on.
  void addWaitReports(const core::Pod& pod, const std::vector<const Used*>& open, const std::string& why,
                      std::vector<ConditionUpdate>& updates) const;
  /// True if this pod reports which of its other claims keeps the claim waiting. Of several pods the oldest one
  /// reports, unless another pod could choose and reports why it can't: two reports would overwrite each other.
  bool reportsOn(const core::Pod& pod, const cache::Claim& claim) const;
  /// True if an older pod that waits for the claim reports why it is pending: two reports would overwrite each other.
  bool olderPodReports(const core::Pod& pod, const cache::Claim& claim) const;
  /// True if another pod planned the claim's nominated capacity, and reports on it.
  bool plannedByAnother(const core::Pod& pod, const Choice& choice, const cache::Claim& claim) const;
  enum class Others { all, older };
  /// True if another gated pod waits for the claim, all its claims exist, and at most `mostOpen` of them have no
  /// device.
  bool anotherWaits(const core::Pod& pod, const cache::Claim& claim, Others which, std::size_t mostOpen) const;
  /// Rolls back intents of claims that are on another node than the pod's other claims. nullopt if none can or need be
  /// moved.
  std::optional<Outcome> colocateClaims(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);
  /// Rolls back the pod's intents if there is no capacity beside them, but all of its claims would fit on another node.
  /// nullopt if that would not help; sets `anyShort` if it might help once other pods release something.
  std::optional<Outcome> rescheduleTogether(const core::Pod& pod, const std::vector<Used>& used, const Choice& choice,
                                            bool* anyShort, std::stop_token stop);
  Outcome regroup(const std::vector<const Used*>& moving, const std::string& why, std::stop_token stop);
  /// Returns a report if the pod's claims are on several nodes; otherwise nullopt.
  static std::optional<Outcome> claimsOnDifferentNodes(const core::Pod& pod, const std::vector<Used>& used);
  static std::vector<ConditionUpdate> resourceClaimNotReady(const std::vector<Used>& used, const std::string& message);
  /// True if every claim's ResourceClaim is allocated on its device, and all gangs and Immediate claims are Bound.
  bool allCarried(const core::Pod& pod, const std::vector<Used>& used);
  /// Applies the patch that removes the gate. nullopt: it is removed.
  std::optional<Outcome> removeGate(const core::Pod& pod, const std::string& body, std::stop_token stop);
  /// Forwards the failure of a choice to the pending binding of the pod, if there is one.
  Outcome notifyBinder(const core::Pod& pod, Outcome outcome);
  Outcome liftGate(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, std::stop_token stop);
  Outcome ungate(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop);  // W9
  /// Reports that the claims' node does not suit the pod; its gate stays.
  static Outcome unsuited(const core::Pod& pod, const std::vector<Used>& used, bool anyBound, const std::string& why);
  bool suitsAnotherPod(const core::Pod& pod, const std::vector<Used>& used, const core::Node& node) const;
  /// Counts the pod on the node of its claims' devices, or nowhere if the devices are apart or the pod can't be placed
  /// there.
  void plan(const core::Pod& pod, const std::vector<Used>& used);
  /// Emits an event on a pod without a node, so that its user sees why it waits. Not repeated for the same claim and
  /// reason.
  void tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message);
  /// Like tell(), for an object other than a claim.
  void tellOf(const core::Pod& pod, const std::string& of, std::string_view why, const std::string& message);
  /// Emits an event with its own reason, unless the pod's last event had the same `of` and `why`.
  void tellOnce(const core::Pod& pod, const std::string& of, std::string_view why, std::string_view event,
                const std::string& message);
  /// Reports why Kubernetes has not stamped a ResourceClaim from that template. Returns false if no reason is known.
  bool tellUnstamped(const core::Pod& pod, const std::string& name, std::stop_token stop);
  /// Reports why there is no ElasticGPUClaim. carrier: the ResourceClaim of that name, or null. Returns false if no
  /// reason is known.
  bool tellMissing(const core::Pod& pod, const v1alpha::PodClaim& entry, const core::ResourceClaim* carrier);
  /// Emits an event for the first condition that keeps a claim waiting. news: reports of this step on its claims.
  void tellConditions(const core::Pod& pod, const std::vector<Used>& used, const std::vector<ConditionUpdate>& news);

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Binder& binder_;
  ClaimSync& claims_;
  Waiting& waiting_;
  BoundVolumes& volumes_;
  kube::EventSink& events_;
  const std::function<void(const std::string& queueKey)> enqueue_;
  mutable std::mutex mutex_;
  std::map<core::ObjectKey, std::string> told_;  ///< object and reason of each pod's last event; guarded by mutex_
  /// Requests of pods that found nodes too short of CPU, memory or pod slots; guarded by mutex_.
  std::map<core::ObjectKey, Short> podsWaitingForNodeResources_;
};

}  // namespace egpu::reconcile
