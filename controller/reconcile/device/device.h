// The device's half of the state machine (state_machine.h): all transitions that lead away from Bound.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe; at most one thread per device at a time.
class DeviceSync {
 public:
  DeviceSync(Writer& writer, cache::Stores& stores, Binder& binder, Provisioning& provisioning,
             ResourceClaimBridge& resourceClaim, Users& users, kube::EventSink& events, const Timeouts& timeouts)
      : writer_(writer),
        stores_(stores),
        binder_(binder),
        provisioning_(provisioning),
        resourceClaim_(resourceClaim),
        users_(users),
        events_(events),
        timeouts_(timeouts) {}

  Outcome step(const std::string& name, std::stop_token stop);

 private:
  Outcome claimed(const cache::Gpu& device, std::stop_token stop);   // (D1), (D2) with a live claim
  Outcome orphaned(const cache::Gpu& device, std::stop_token stop);  // its claim is gone: roll back or release
  /// nullopt: no pod may use the device any more. Otherwise the result of reporting for which pods it is held.
  std::optional<Outcome> heldForPods(const cache::Gpu& device, std::stop_token stop);
  /// Returns the names of the running pods for which a device without claim is held: pods that ran, or had its
  /// ResourceClaim reserved, when its claim was first found to be gone. Later pods that name this claim use another
  /// device.
  base::Result<std::vector<std::string>> holders(const cache::Gpu& device,
                                                 const ResourceClaimBridge::Released& resourceClaim,
                                                 std::stop_token stop);
  Outcome unclaimed(const cache::Gpu& device, std::stop_token stop);  // (D3), (D4), (D6)
  /// Restores the claimRef of a Bound device from the ledger if it was removed, because the device's pods still run.
  /// nullopt: the ledger names no claim.
  std::optional<Outcome> putClaimRefBack(const cache::Gpu& device, std::stop_token stop);
  Outcome deleting(const cache::Gpu& device, std::stop_token stop);  // (D5)
  Outcome undo(const cache::Gpu& device, std::stop_token stop);
  /// Restores entries of a committed device that a card lost (the card reappeared, or drift). lower: as in Binder.
  Outcome restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop);
  Outcome noteLostCards(const cache::Gpu& device, std::stop_token stop);

  enum class ClaimState { live, leaving, gone, unknown };
  /// Looks the claim up in the cache and, if it is not there as the device names it, by quorum read.
  ClaimState claimOf(const cache::Gpu& device, std::stop_token stop, base::Status* error);

  Writer& writer_;
  cache::Stores& stores_;
  Binder& binder_;
  Provisioning& provisioning_;
  ResourceClaimBridge& resourceClaim_;
  Users& users_;
  kube::EventSink& events_;
  const Timeouts& timeouts_;
};

}  // namespace egpu::reconcile
