// (C6) for classes of remote GPUs: binds a device that an administrator made for the class or, if none is Available,
// writes an intent without cards and node (W1). Whether the pool has a free GPU is known only when the provisioner asks
// it (W3).
#pragma once

#include <stop_token>

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/parts.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/placement/static_binding.h"

namespace egpu::reconcile {

/// Thread-safe, but one thread per claim at a time. The references must outlive it.
class RemotePlacement {
 public:
  RemotePlacement(const ClaimContext& context, ClaimParts& parts, StaticBinding& staticBinding)
      : context_(context), parts_(parts), staticBinding_(staticBinding) {}

  /// A claim of a class with WaitForFirstConsumer waits for a pod that may be scheduled, whatever its node is.
  Outcome reconcile(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop);

 private:
  /// True if pods of the claim can use the device where it is: the node to which an administrator limited it may be
  /// cordoned or have taints.
  bool isUsable(const cache::Claim& claim, const ResolvedClaim& asked, const cache::Gpu& device) const;
  /// Returns the first Available remote device of the class, by name, with the requested amounts, that pods of the
  /// claim can use; null: none.
  GpuPtr availableDevice(const cache::Claim& claim, const ResolvedClaim& asked) const;

  const ClaimContext& context_;
  ClaimParts& parts_;
  StaticBinding& staticBinding_;
};

}  // namespace egpu::reconcile
