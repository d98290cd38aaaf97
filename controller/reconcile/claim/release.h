// Release of a claim's device: (C11) the hardware is gone, (C12) the user deletes the claim.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The context must outlive it.
class ClaimRelease {
 public:
  explicit ClaimRelease(const ClaimContext& context) : context_(context) {}

  /// (C11) Reports the claim as Lost, and releases its device once no pod uses it. device: null if it is gone. message:
  /// why, for people.
  Outcome reconcileLost(const ClaimPtr& claim, const GpuPtr& device, const std::string& message, std::stop_token stop);
  /// (C12) Deletes the ResourceClaim of a claim that is being deleted, waits for its pods, and releases the device.
  Outcome reconcileDeleted(const ClaimPtr& claim, std::stop_token stop);

 private:
  /// Releases the device of a Lost claim that no pod uses, so that the claim can be bound on other hardware.
  Outcome recoverLost(const cache::Claim& claim, const cache::Gpu& device, const std::string& message,
                      std::stop_token stop);
  /// Nullopt: no pod may use the claim's device any more. Quorum reads.
  std::optional<Outcome> awaitUsers(const cache::Claim& claim, const GpuPtr& device, std::stop_token stop);
  /// Releases the device of a claim that is being deleted. Nullopt: it is gone, or retained by its reclaimPolicy.
  std::optional<Outcome> releaseDevice(const cache::Gpu& device, std::stop_token stop);

  const ClaimContext& context_;
};

/// V6: deletes the Failed device of a claim that had to release it, as a victim or as a member of an incomplete gang.
Outcome removeFailedDevice(const ClaimContext& context, const cache::Claim& claim, const cache::Gpu& device,
                           std::stop_token stop);

}  // namespace egpu::reconcile
