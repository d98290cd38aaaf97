// Chooses a node for all of a pod's claims that have no device, or reports why no node suits.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/pod/colocation.h"
#include "controller/reconcile/pod/node_choice.h"
#include "controller/reconcile/pod/pod_events.h"
#include "controller/reconcile/pod/used_claims.h"

namespace egpu::reconcile {

/// Message for a claim that could be decided if it were not for `names`: other claims, or a template, of its pod.
std::string waitText(const core::Pod& pod, const std::string& names);

/// Thread-safe, but one thread per pod at a time. References must outlive it. placement.cpp decides; pod_reports.cpp
/// reports on claims that wait for other claims of their pod.
class PodPlacement {
 public:
  PodPlacement(const ClaimContext& context, ClaimParts& parts, PodEvents& events, PodColocation& colocation)
      : context_(context), parts_(parts), events_(events), colocation_(colocation) {}

  /// The pod's claims without a device, and their requests.
  struct Choice {
    std::vector<const UsedClaim*> open;
    std::vector<ResolvedClaim> asked;
    std::vector<allocator::Allocator::SchedulingRequest> asks;
    std::string node;  ///< if not empty, the only candidate: the pod or another of its claims is there
    std::string fixedBy;
    std::chrono::milliseconds wait{0};  ///< time until the next choice is allowed
  };
  /// Returns nullopt if there is nothing to choose now; `outcome` is then the result of the step.
  std::optional<Choice> choiceOf(const core::Pod& pod, const std::vector<UsedClaim>& used, Outcome* outcome);
  Outcome reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop);
  /// Returns reports for the pod's claims that could be decided if it were not for the pod's other claims.
  std::vector<ConditionUpdate> waitReports(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                           const std::string& why);

  /// Called when pods left the node or request less of it. Enqueues the pods, oldest first, that lacked CPU, memory or
  /// pod slots and now fit there.
  void freed(const std::string& node) EGPU_EXCLUDES(mutex_);
  void removeNodeResourceWait(const core::ObjectKey& pod) EGPU_EXCLUDES(mutex_);
  /// Number of pods that wait for CPU, memory or pod slots; for tests.
  std::size_t remembered() const EGPU_EXCLUDES(mutex_);

 private:
  using Requests = std::vector<allocator::Allocator::SchedulingRequest>;
  /// Result of decideFirst().
  struct Tried {
    scheduler::Together together;
    bool firstOverQuota = false;  ///< a quota excludes the first combination: no node would help it
  };
  /// Tries combinations of the claims' alternatives in the order of scheduler::Combinations and returns the first one
  /// that fits. If none fits, tries the first combination on nodes where the scheduler can evict pods for this pod. If
  /// that fails too, together.excess is set only if a quota excludes all combinations, and together.alone is true for a
  /// claim of which any alternative fits by itself.
  Tried decideFirst(const Choice& choice, NodeChoice& nodes);
  /// Places all requests on one node without evictions.
  scheduler::Together decide(Requests asks, NodeChoice& nodes);
  /// Returns the requests of one combination. which: the number of each claim's alternative.
  static Requests asksOf(const Choice& choice, const std::vector<std::size_t>& which);
  /// Requests a node reservation for claims that fit no node now: Allocator::reserveNodeFor().
  void reserveNode(const Choice& choice, NodeChoice& nodes);
  /// Registers the pod and its requests as pending, and admits the requests. Returns false if the pod yields to other
  /// keys (UnschedulableQueue::add).
  bool awaitCapacity(const core::Pod& pod, Choice& choice) EGPU_EXCLUDES(mutex_);
  /// Allows the nodes again on which the API server refused one of the claims. Returns whether there were any.
  bool forgetRefusedNodes(const Requests& asks);
  Outcome writeIntents(const core::Pod& pod, const Choice& choice, const std::vector<scheduler::Decision>& decisions,
                       std::stop_token stop);  // W1
  /// Forwards the failure of a choice to the pending binding of the pod, if there is one.
  Outcome notifyBinder(const core::Pod& pod, Outcome outcome);

  /// Called when no decision was made. Rolls back the pod's own intents if that helps, preempts, or reports NoFit or
  /// QuotaExceeded.
  Outcome noneFits(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                   const scheduler::Together& together, NodeChoice& nodes, std::stop_token stop);
  /// (C6) Searches for victims whose eviction frees capacity for all open claims of the pod on one node. nullopt if
  /// there are none, or if this pod may not preempt.
  std::optional<Outcome> nominateVictims(const core::Pod& pod, const Choice& choice, NodeChoice& nodes,
                                         std::stop_token stop);
  /// Reports that a quota excludes some of the claims. None of them is decided then.
  Outcome overQuota(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                    const scheduler::QuotaExcess& excess);
  Outcome noFit(const core::Pod& pod, const std::vector<UsedClaim>& used, const Choice& choice,
                const std::vector<bool>& alone, NodeChoice& nodes);  // (C6)
  /// Explains why the claims do not fit together. each: every claim fits by itself.
  static std::string whyNotTogether(const core::Pod& pod, const Choice& choice, bool each, NodeChoice& nodes);

  /// Returns the first of the pod's claims whose node other pods choose for now (ConsumerRounds); null: none.
  const cache::Claim* chosenByOthers(const core::Pod& pod, const std::vector<UsedClaim>& used);
  /// Defers the pod's choice: other pods choose for this claim first, or the pod is not of this round.
  Outcome awaitRound(const core::Pod& pod, const std::vector<UsedClaim>& used, const cache::Claim& claim);
  /// Adds a report for each of these claims that the pod reports on.
  void addWaitReports(const core::Pod& pod, const std::vector<const UsedClaim*>& open, const std::string& why,
                      std::vector<ConditionUpdate>& updates) const;
  /// True if this pod reports which of its other claims keeps the claim waiting. Of several pods the oldest one
  /// reports, unless another pod could choose and reports why it can't: two reports would overwrite each other.
  bool reportsOn(const core::Pod& pod, const cache::Claim& claim) const;
  /// True if an older pod that waits for the claim reports why it is pending: two reports would overwrite each other.
  bool olderPodReports(const core::Pod& pod, const cache::Claim& claim) const;
  /// True if another pod planned the claim's nominated capacity, and reports on it.
  bool plannedByAnother(const core::Pod& pod, const Choice& choice, const cache::Claim& claim) const;
  enum class Others { all, older };
  /// True if another gated pod waits for the claim, all its claims exist, and at most `maxOpen` of them have no
  /// device.
  bool anotherWaits(const core::Pod& pod, const cache::Claim& claim, Others which, std::size_t maxOpen) const;

  const ClaimContext& context_;
  ClaimParts& parts_;
  PodEvents& events_;
  PodColocation& colocation_;
  struct Short {
    Age age;
    cache::PodRequests requests;
  };
  mutable base::Mutex mutex_;
  /// Requests of pods that found nodes too short of CPU, memory or pod slots.
  std::map<core::ObjectKey, Short> podsWaitingForNodeResources_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
