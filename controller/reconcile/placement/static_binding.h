// (C9) Binds an existing device to a claim that names it, or for which an administrator reserved it.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The references must outlive it.
class StaticBinding {
 public:
  StaticBinding(const ClaimContext& context, ClaimParts& parts) : context_(context), parts_(parts) {}

  /// Nullopt: no existing device is for the claim, so a new one is to be made.
  std::optional<Outcome> reconcile(const ClaimPtr& claim, std::stop_token stop);
  /// Binds this device, or reports why that is not possible.
  Outcome bind(const ClaimPtr& claim, const GpuPtr& named, std::stop_token stop);
  /// Counts the device, which needs no decision, for the claim. Nullopt: the namespace's quotas permit it, and it
  /// counts from now on.
  std::optional<Outcome> reserveQuota(const cache::Claim& claim, const cache::Gpu& device);
  /// Rule of its class that the device violates for this request; empty if there is none.
  std::string againstClass(const cache::Gpu& device, const cache::Class& cls, const scheduler::Request& want) const;

 private:
  /// Why the device is not available to the claim now, whatever the access rules are; empty if it is.
  std::string notAvailable(const cache::Claim& claim, const cache::Gpu& device) const;
  /// True if the device has at least these MIG instances.
  bool hasInstances(const cache::Gpu& device, const scheduler::MigInstances& want) const;
  /// True if the device has at least the requested amounts.
  bool isLargeEnough(const cache::Gpu& device, const scheduler::Request& want) const;
  /// Nullopt: the device's class, or the claim's, permits the device for the claim.
  std::optional<Outcome> checkRules(const cache::Claim& claim, const cache::Gpu& named, std::stop_token stop);

  const ClaimContext& context_;
  ClaimParts& parts_;
};

}  // namespace egpu::reconcile
