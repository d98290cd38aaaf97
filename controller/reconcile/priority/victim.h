// (C13) Victim side of preemptions and moves: a bound claim must leave its device for a preemptor, or because its
// annotation asks for a move. The victims are selected in priority/preemptor.h. This is a part of
// state_machine.h.
// clang-format off
//
// PREEMPTION. (C6) The claim fits nowhere, or its quotas are used up, and the release of
// preemptible claims of lower priority would help.
//   V1   Claim status.nominated: the preemptor's intent. It names the capacity that the preemptor
//        is to get, and the devices that must be released. It is valid while condition Bound
//        reports Preempting, and withholds the capacity and its quota from others: Allocator
//        reads it, the next leader's, too. Victims that release quota may be on other nodes. Crash
//        after it: the step of each named device's claim evaluates it. If the preemptor is bound,
//        deleted, or fits otherwise, the next status drops the nomination, and no claim is evicted.
//   V2   Device marked, by its own claim's step (C13): status.reason Preempted, with
//        resourceVersion; phase Bound stays. Required by quorum read: the preemptor still names the
//        device, does not fit as things are, and would not fit without this victim. First the
//        disruption budgets of its pods are checked (evictions as a dry run) and, while no victim
//        is marked, those of all victims: if one may not be evicted, none is. The mark of a move
//        does not count: it becomes such a mark in the same way. No longer named or needed: the
//        mark is removed, and the claim keeps everything.
//   V3   Eviction of its pods: pods/eviction with the pod's uid, one at a time, with the conditions
//        of V2 checked before each. Before that the ResourceClaim is deleted, so that no pod
//        reserves it again. Crash: the pods that are being deleted show how far it got. 429: a
//        disruption budget blocks it; this is reported on the preemptor and retried after a while.
//        Until V2, other victims are named instead if they suffice.
//   V4   Claim status: no pod runs and no pod has it reserved, as far as the cache knows: Pending,
//        and condition Preempted names the preemptor and the time of the mark. Each mark is reported
//        again, so that an older write of Bound has an old resourceVersion. If the need ends now,
//        the mark is removed and the claim is Bound again, with the amounts in force:
//        status.requests stays until V5. It is cleared before V6, because the next device is made
//        for the requests of the spec.
//   V5   Device Failed, reason Preempted, with the marked resourceVersion, so that a stale
//        controller cannot fail a device that its claim keeps (model: mark=skipped). Before it, the
//        pods and the ResourceClaim are read by quorum: a pod that V4 did not know is evicted first,
//        or runs until it ends. The point of no return.
//   V6   The device is deleted. Again = no-op; undo; then (C1).
//
//   bypass: (B1), while Bound (claim/bypass.h): eviction of a pod that evades the limiter. Crash, or 429: repeated.
//   move: A claim that moves, as annotation elasticgpu.io/move asks. V1 is the annotation: the uid
//        of the device that the claim is to leave. V2 to V6 require it by quorum read, and that the
//        claim's class is movable. V3 does not happen here: the claim keeps its device until its
//        last pods are being deleted. No pod is ungated for it while it is marked. Its
//        ResourceClaim is deleted at that point: pods without a gate that replace the old ones wait
//        for the next one. A device of another uid is not meant, so the claim moves once. Crash: as above.
//   late gate: A gate is removed (W9) by a step that saw the device before its mark: before V5 the
//        claim's pods are read by quorum. For a preemptor, such a pod is evicted. A claim
//        that moves keeps its device, with the mark removed, until its ResourceClaim is allocated
//        for the pod. A pod that is ungated after V5 must be deleted by hand.
//   gang as preemptor: A gang (C14) that does not fit: one plan for all of its open members, or
//        none, against claims of lower priority than any of theirs
//        (scheduler/choice/preempt_together.h). V1 is a nomination for each member, first for the
//        one that reports. Victims are named by the first member on their node. V2, and each V3 to
//        V5, checks for all members, by quorum read, what it checks for a single claim: they exist,
//        are open and nominated, and fit on their nominated nodes without all victims, but not with
//        this one (for more than four members once a second for all victims, and in between by a
//        read of the member that names the device: priority/shared_plans.h). Crash after a part of
//        V1: no claim is evicted (model: preemption.py nomination=partial, =bare), and the next step of
//        the reporting member writes all of it. A member keeps its nomination while the reporting
//        member has one (nomination=left): a nomination that is added or dropped requeues all members.
//   gang as victim: A victim that is in a gang (VictimGang): all evictable members are victims,
//        with the lowest priority of any, and after claims that are in no gang. V2, and each V3 to
//        V5, checks whether the preemptor needs all of these together. No member continues with V4
//        before the pods of all have ended. Once one has gone (V5), the others follow, needed or
//        not. Crash: found by the marks, and by condition Preempted of the claim that has gone.
//   pod as preemptor: A pod's claims (C5) that do not fit on one node are planned like a gang's,
//        for all claims that the pod chooses for, if it is the only pod of each. The pod's step
//        writes V1, and drops it. If a claim has several pods, the oldest pod that has all of its
//        claims plans, and chooses for that claim alone; the other pods do not change the
//        nomination. If one of the claims is deleted, the step of each other one drops its own
//        nomination.
// clang-format on
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The references must outlive it.
class VictimSync {
 public:
  VictimSync(const ClaimContext& context, ClaimParts& parts)
      : context_(context), resolver_(parts.resolver), preemptor_(parts.preemptor) {}

  /// Marks the device (V2), evicts the pods (V3), reports (V4) and releases the device (V5, V6); or removes the mark if
  /// the need is over. Nullopt: nothing asks the claim to leave its device.
  std::optional<Outcome> reconcile(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);

 private:
  /// Why a device must be released, after quorum reads of its preemptor and the claims that preempt with it. For many
  /// claims, the result of the last check of their plan is used for a while instead (priority/shared_plans.h).
  struct Need {
    ClaimPtr preemptor{};                ///< null if no claim names the device
    bool isNeeded = false;               ///< all preemptors fit by their plan, but not without this device's release
    std::chrono::milliseconds later{0};  ///< if not 0, neither is known yet; time until the next attempt
  };
  base::Result<Need> needFor(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  base::Result<Need> checkNeed(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& named,
                               std::stop_token stop);
  /// checkNeed() for a gang of more than Writer::kFewReads members. The caller holds SharedPlans::checks().
  base::Result<Need> checkSharedPlan(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& named,
                                     const std::vector<ClaimPtr>& all, std::stop_token stop);
  /// Updates the cache so that it is at least as current as a quorum read of these claims at the first call. Returns
  /// false while the watch has not delivered that state yet.
  base::Result<bool> updateMembers(const std::string& key, const std::vector<ClaimPtr>& all, std::stop_token stop);
  /// Requests of claims that preempt together, all with one place in queue order, and the nomination of each. Empty if
  /// their plan is no longer valid.
  struct Planned {
    std::vector<allocator::Allocator::SchedulingRequest> asks{};
    std::vector<v1alpha::Nomination> nominations{};
    bool later = false;  ///< not known yet, as the plugin of a class is busy
  };
  Planned plannedFor(const ClaimPtr& preemptor);
  /// Names of the devices that must be released by the preemptor's plan.
  std::vector<std::string> victimsFor(const ClaimPtr& preemptor) const;

  Outcome markForPreemption(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                            std::stop_token stop);
  /// True if the claim asks to move and may. Quorum read.
  base::Result<bool> movesNow(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome markForMove(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);

  /// preemptor: null if the claim moves or follows its gang; its pods are then not evicted here.
  Outcome evictPods(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor,
                    std::stop_token stop);
  /// Dry-runs the evictions of a batch of the plan's victims. Nullopt: all batches were tried, and all are permitted.
  std::optional<Outcome> dryRunBatch(const SharedPlan& plan, const cache::Claim& preemptor, std::stop_token stop);
  /// Dry-runs the eviction of all pods of the claim. Nullopt: all of them may be evicted now.
  std::optional<Outcome> dryRunEvictions(const cache::Claim& claim, const cache::Gpu& device,
                                         const cache::Claim& preemptor, std::stop_token stop);
  /// Nullopt: the pod is gone or going; with `dry`: it could be evicted.
  std::optional<Outcome> evict(const core::Pod& pod, bool dry, const cache::Gpu& device, const cache::Claim& preemptor,
                               std::stop_token stop);

  std::vector<cache::Store<core::Pod>::Ptr> podsToEvict(const cache::Claim& claim) const;
  /// True if one of these pods has no node yet and the claim's ResourceClaim is not allocated.
  bool awaitsAllocation(const cache::Claim& claim) const;
  /// True if another member of the claim's gang has released its device already.
  bool hasMemberReleased(const cache::Claim& claim) const;
  /// True if pods of another member of the claim's gang, which is a victim with it, have not ended.
  bool awaitsMembers(const cache::Claim& claim, const cache::Gpu& device, const ClaimPtr& preemptor) const;

  const ClaimContext& context_;
  ClaimResolver& resolver_;
  Preemptor& preemptor_;
};

}  // namespace egpu::reconcile
