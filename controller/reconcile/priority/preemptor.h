// (C6), (C14) Preemptor side: selects victims for claims that fit nowhere, and writes the nomination (V1). The step of
// each victim does the rest (priority/victim.h). Claims that are of use only together, a gang's open members or the
// open claims of a pod, get a nomination each, all or none.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/gang/gang_members.h"
#include "controller/reconcile/priority/preemption.h"

namespace egpu::reconcile {

/// Gives all requests the oldest age and the lowest priority among them.
void useGroupOrder(std::vector<allocator::Allocator::SchedulingRequest>& asks);

/// Thread-safe. Context and gangs must outlive it.
class Preemptor {
 public:
  Preemptor(const ClaimContext& context, const GangMembership& gangs)
      : context_(context),
        gangs_(gangs),
        preemption_(context.stores, context.cluster, context.clock, context.timeouts) {}

  /// Called before UnschedulableReport::noFit(), for a claim or for the pod that chooses for it. Nullopt if there are
  /// no victims, or the claim may not preempt. Add the claim to Waiting before deciding.
  std::optional<Outcome> nominateVictims(const cache::Claim& claim, const ResolvedClaim& asked,
                                         const scheduler::NodePredicate& suits, std::stop_token stop);
  /// nominateVictims() for claims that are useful together only. The first claim reports for all. what: the gang or
  /// pod, for people.
  std::optional<Outcome> nominateVictimsForGroup(const std::string& what, const std::string& queueKey,
                                                 AskedTogether asked, std::stop_token stop);
  /// Returns the claims that share the preemptor's plan, all or none: the open members of its gang; for a claim with
  /// one pod that decides for it, the open claims of that pod; otherwise the claim alone. Empty if not all exist.
  std::vector<ClaimPtr> preemptionGroup(const ClaimPtr& preemptor) const;

  /// Returns more than 0 if the claim was preempted recently and a nomination still comes before it: the time for which
  /// condition Bound may continue to report the preemptor. The end of the nomination requeues the first pending claims.
  std::chrono::milliseconds waitForPreemptor(const cache::Claim& claim,
                                             const allocator::Allocator::SchedulingRequest& ask) const;
  /// Queues the claim for its search for victims: Preemption::delayForRateLimit().
  std::chrono::milliseconds awaitSearch(const cache::Claim& claim, const std::string& queueKey);
  /// Lets the next claim search for victims.
  Outcome startNextSearch();

  Preemption& preemption() { return preemption_; }
  const Preemption& preemption() const { return preemption_; }

 private:
  /// True if the nominations of a gang of many members need no write now: the plan is kept, and its remaining victims
  /// were reported within explainInterval. Each released victim would otherwise cost a write.
  bool isReportedRecently(const std::vector<ClaimPtr>& claims, const std::vector<v1alpha::Nomination>& nominations);
  /// Requeues the victims' claims: steps before the last write of the plan found no need.
  void requeueVictims(const v1alpha::Nomination& nomination);
  /// openClaimsOf() the claim's only pod, including the claim; none for nullopt. If it has several pods: the claim
  /// alone.
  std::vector<ClaimPtr> claimsOfOnlyPod(const ClaimPtr& claim) const;
  /// Backoff before the next search for victims; 0 if the claim's status must first report why it is pending; nullopt
  /// if a search may run now.
  std::optional<std::chrono::milliseconds> searchDelay(const cache::Claim& claim,
                                                       const allocator::Allocator::SchedulingRequest& ask,
                                                       const std::string& queueKey);

  const ClaimContext& context_;
  const GangMembership& gangs_;
  Preemption preemption_;
};

}  // namespace egpu::reconcile
