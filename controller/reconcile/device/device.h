// The device's half of the state machine (state_machine.h): everything that leads away from being bound.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe, one thread per device at a time.
class DeviceSync {
 public:
  DeviceSync(Writer& writer, cache::Stores& stores, Binder& binder, Provisioning& provisioning, Carrier& carrier,
             Users& users, kube::EventSink& events)
      : writer_(writer),
        stores_(stores),
        binder_(binder),
        provisioning_(provisioning),
        carrier_(carrier),
        users_(users),
        events_(events) {}

  Outcome step(const std::string& name, std::stop_token stop);

 private:
  Outcome claimed(const cache::Gpu& device, std::stop_token stop);   // (D1), (D2) with a live claim
  Outcome orphaned(const cache::Gpu& device, std::stop_token stop);  // its claim is gone: roll back or release
  /// Nothing: nobody may use what it gives any more. Else what became of saying for whom it is held.
  std::optional<Outcome> heldForPods(const cache::Gpu& device, std::stop_token stop);
  /// The pods that run and for which a device without claim is held: those that ran, or had its ResourceClaim reserved,
  /// when its claim was first found to be gone. Later ones of the same claim's name use another device.
  base::Result<std::vector<std::string>> holders(const cache::Gpu& device, const Carrier::Released& carrier,
                                                 std::stop_token stop);
  Outcome unclaimed(const cache::Gpu& device, std::stop_token stop);  // (D3), (D4), (D6)
  /// A Bound device whose claimRef was taken off gets it back, as the ledger says it: its pods run on. Nothing: the
  /// ledger doesn't say.
  std::optional<Outcome> putClaimRefBack(const cache::Gpu& device, std::stop_token stop);
  Outcome deleting(const cache::Gpu& device, std::stop_token stop);  // (D5)
  Outcome undo(const cache::Gpu& device, std::stop_token stop);
  /// Entries of a committed device that a card lost are put back (the card reappeared, or drift). lower: as Binder's.
  Outcome restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop);
  Outcome noteLostCards(const cache::Gpu& device, std::stop_token stop);

  enum class ClaimState { live, leaving, gone, unknown };
  /// In the cache, and if it isn't there as the device says, by quorum read.
  ClaimState claimOf(const cache::Gpu& device, std::stop_token stop, base::Status* error);

  Writer& writer_;
  cache::Stores& stores_;
  Binder& binder_;
  Provisioning& provisioning_;
  Carrier& carrier_;
  Users& users_;
  kube::EventSink& events_;
};

}  // namespace egpu::reconcile
