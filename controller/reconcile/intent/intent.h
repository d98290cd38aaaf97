// (C7) A claim with an intent: writes the ledger (W2), waits for the scheduler if its class has WaitForFirstConsumer,
// calls the plugin (W3) and commits the device (W4), or rolls the intent back.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/gang/incomplete_gang.h"

namespace egpu::reconcile {

/// intent.cpp provisions; first_consumer.cpp waits for the scheduler. Thread-safe, but one thread per claim at a time.
/// The references must outlive it.
class IntentSync {
 public:
  IntentSync(const ClaimContext& context, ClaimParts& parts, IncompleteGang& incompleteGang)
      : context_(context), rollback_(parts.rollback), intents_(parts.intents), incompleteGang_(incompleteGang) {}

  Outcome reconcile(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Reports on claims that a plugin's call for them takes long.
  Outcome reportSlowProvisioning(const std::string& plugin);

 private:
  Outcome provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Handles an answer of the plugin other than OK.
  Outcome notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                         std::stop_token stop);
  /// Reports that the pool has no free GPU, and retries.
  static Outcome reportNoRemoteGpu(const cache::Claim& claim, const cache::Gpu& device, const std::string& why);
  /// Reports an intent that can neither go on nor move (a pod has reserved it, or its user named it), and retries.
  static Outcome reportStuck(const cache::Claim& claim, const std::string& why);

  Outcome waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop);
  /// Time until the claim reports that its pod is not placed yet; zero if it reports now, because it reports another
  /// obstacle that is over.
  std::chrono::milliseconds untilPlacementReport(const cache::Claim& claim, const cache::Gpu& device) const;
  /// Moves the intent away if the scheduler knows its pod but does not place it in time. Nullopt: it may still do so.
  std::optional<Outcome> unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device, const core::Pod& pod,
                                         std::chrono::milliseconds* again, std::stop_token stop);
  /// Reports the obstacle to the ResourceClaim also as the reason why the claim is not bound.
  static Outcome resourceClaimNotReady(const cache::Claim& claim, const ResourceClaimBridge::EnsureResult& answer);

  const ClaimContext& context_;
  IntentRollback& rollback_;
  IntentWriter& intents_;
  IncompleteGang& incompleteGang_;
};

}  // namespace egpu::reconcile
