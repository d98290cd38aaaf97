// (C13) Victim side of preemptions and moves: a bound claim must leave its device for a preemptor, or because its
// annotation asks for a move. The victims are selected in priority/preemptor.h.
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
