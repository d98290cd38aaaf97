// Writes the intent of a decision (W1), and handles refusals of it.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "controller/reconcile/claim/context.h"

namespace egpu::reconcile {

/// Thread-safe. The context must outlive it.
class IntentWriter {
 public:
  explicit IntentWriter(const ClaimContext& context) : context_(context) {}

  /// W1. Continues with (C7), or with the state of an existing device of that name. A refused decision is not repeated
  /// before a backoff.
  Outcome write(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision,
                std::stop_token stop);
  /// W1 with this device of a remote GPU, which needs no decision. Otherwise as above.
  Outcome writeRemote(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// Reports ProvisionFailed until the backoff of the claim's refusal ends, and releases its reservation.
  Outcome reportRefusal(const cache::Claim& claim, const std::string& message);

  /// Returns the backoff of a claim after the API server has answered 422 to its decision for the `times`-th time.
  std::chrono::milliseconds backoffAfterRefusals(int times) const;

 private:
  /// node: node of the decision; empty without one.
  Outcome afterWrite(const cache::Claim& claim, const std::string& provisioner, const std::string& node,
                     const base::Result<cache::Gpu>& device);

  const ClaimContext& context_;
};

}  // namespace egpu::reconcile
