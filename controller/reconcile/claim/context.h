// Dependencies of the classes that reconcile claims.
#pragma once

#include <functional>
#include <string>

#include "controller/allocator/allocator.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/pod/bound_volumes.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/reconcile/retry/waiting.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

using ClaimPtr = cache::Store<cache::Claim>::Ptr;
using GpuPtr = cache::Store<cache::Gpu>::Ptr;

/// Owns none of the objects, which must outlive it. All of them are thread-safe.
struct ClaimContext {
  Writer& writer;
  cache::Stores& stores;
  allocator::Allocator& cluster;
  Binder& binder;
  Provisioning& provisioning;
  ClassSync& classes;
  ResourceClaimBridge& bridge;
  Users& users;
  ClaimStatus& status;
  Waiting& waiting;
  BoundVolumes& volumes;
  base::Clock& clock;
  const Timeouts& timeouts;
  std::function<void(const std::string& queueKey)> enqueue;  ///< may be called on any thread

  /// Drops the waiting state of a claim that was deleted during a step. Call after a step that may have recorded some.
  void forgetIfGone(const core::ObjectKey& claim, const std::string& uid) const {
    const auto now = stores.claims.get(claim);
    if (!now || now->metadata.uid != uid) waiting.forgetClaim(uid);
  }
};

}  // namespace egpu::reconcile
