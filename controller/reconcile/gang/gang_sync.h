// (C14) Steps of gangs and of their undecided members. No member gets cards while one is missing. Then the gang's step
// decides for all members, and each member's step writes its own intent.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/gang/gang_pods.h"
#include "controller/scheduler/gang.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim and per gang at a time. The references must outlive it.
class GangSync {
 public:
  GangSync(const ClaimContext& context, ClaimParts& parts) : context_(context), parts_(parts), gangs_(parts.gangs) {}

  /// One step of a gang, by gangNamedBy(): chooses its members, and decides all that are undecided, or reports on the
  /// oldest of them why that fails. The gang has a key of its own in the work queue, so that claims, pods and devices
  /// that change mark it once, and one step reads all members. All other reports of a member come from its own step.
  Outcome reconcile(const core::ObjectKey& gang, std::stop_token stop);
  /// Step of a member without a device, which is never decided alone.
  Outcome reconcileMember(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop);

 private:
  /// Requests of the open members.
  struct GangAsks {
    std::vector<allocator::Allocator::SchedulingRequest> asks;
    bool preempt = true;  ///< all of them may preempt
  };
  /// Makes the requests of the open members. Returns an outcome if nothing can be decided now.
  std::optional<Outcome> resolveMembers(const cache::Claim& claim, const GangMembers& members, GangPods& pods,
                                        GangAsks& asks, std::stop_token stop);
  /// queueKey: key of the deciding step, requeued by freed capacity and quota. claim: the member that reports.
  Outcome decide(const cache::Claim& claim, const GangMembers& members, const std::string& queueKey,
                 std::stop_token stop);
  /// Attempt to decide a gang that did not fit.
  struct GangTry {
    const GangMembers& members;
    const std::vector<allocator::Allocator::SchedulingRequest>& asks;
    std::shared_ptr<GangPods> pods;
    std::shared_ptr<const std::vector<scheduler::TopologyGroup>> within;  ///< null = any nodes
    bool preempts = false;
  };
  Outcome reportUnschedulable(const cache::Claim& claim, const std::string& queueKey, const GangTry& tried,
                              const scheduler::GangShort& lacking);
  /// Returns a function that explains per stage why the lacking member fits nowhere beside the others, with remedies.
  /// It returns an empty text if the search finds another reason. It uses the pods of the attempt.
  Explainer::Explain explanationOf(const GangTry& tried) const;
  /// Requeues members, and claims that are no members, if the gang's last step changed something for their steps.
  void requeueMembers(const core::ObjectKey& gang, const GangRoster* before, const GangRoster& now,
                      const GangMembers& members);
  /// Requeues the pods of the members, and all of a PodGroup's further pods: the first members are Bound.
  void requeuePods(const GangMembers& members);
  /// Reports the state of a claim on which the gang's step does not report.
  Outcome reportMember(const cache::Claim& claim, const v1alpha::Gang& gang, const GangRoster& roster);
  /// Step of a claim whose pod is beyond the size of its PodGroup.
  Outcome reconcileFurtherPod(const ClaimPtr& claim, const v1alpha::Gang& gang, const GangRoster& roster,
                              std::stop_token stop);
  /// True if the claim's own step reports why nothing can be decided for it.
  bool isRefusedItself(const cache::Claim& claim);
  static Outcome waitsForGang(const cache::Claim& claim, std::string why);

  const ClaimContext& context_;
  ClaimParts& parts_;
  const GangMembership& gangs_;
};

}  // namespace egpu::reconcile
