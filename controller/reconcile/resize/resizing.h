// (C15) A bound claim requests other amounts: R1 to R6 of state_machine.h, and the reasons why a resize is refused.
#pragma once

#include <optional>
#include <stop_token>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The context must outlive it.
class ClaimResize {
 public:
  explicit ClaimResize(const ClaimContext& context) : context_(context) {}

  /// For a claim whose device is Bound. Nullopt: the requests in the spec are in force.
  std::optional<Outcome> reconcile(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);

 private:
  /// Handles requests that the device neither has nor is on its way to: writes R1, or reports why not.
  Outcome retarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R1 of a claim of whole cards whose memory changed.
  std::optional<Outcome> followCards(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// R5, except amounts that running pods started with.
  base::Status shrinkLedgerEntries(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  Outcome writeTarget(const cache::Claim& claim, const cache::Gpu& device, const scheduler::Resizing& resizing,
                      std::stop_token stop);
  /// Reports a resize that its cards or its quotas have no capacity for.
  Outcome noResize(const cache::Claim& claim, const cache::Gpu& device,
                   const allocator::Allocator::SchedulingRequest& ask, const scheduler::Resizing& resizing);
  /// R2 to R4 for the current target.
  Outcome applyTarget(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Rolls the target back to the amounts in force because it cannot be reached.
  Outcome rollBackTarget(const cache::Claim& claim, const cache::Gpu& device, const base::Status& why,
                         std::stop_token stop);

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
