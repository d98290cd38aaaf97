// Single writes of the state machine: W1 to W5, which take a claim to its device, and R1 to R5, which resize a device.
// The claim's step decides what follows from their results.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "controller/allocator/allocator.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/writer.h"
#include "controller/scheduler/decide.h"

namespace egpu::reconcile {

/// Name of the device that is made for the claim.
std::string deviceNameFor(const cache::Claim& claim);
/// True if the device is Bound, Released or Available: W4 has happened to it, for some claim.
bool committed(const cache::Gpu& device);
/// True if the device belongs to exactly this claim.
bool belongsTo(const cache::Gpu& device, const cache::Claim& claim);

/// Thread-safe.
class Binder {
 public:
  Binder(Writer& writer, cache::Stores& stores, allocator::Allocator& cluster, Provisioning& provisioning)
      : writer_(writer), stores_(stores), cluster_(cluster), provisioning_(provisioning) {}

  /// W1. If a device of that name exists, returns that device, and forgets the decision. The caller must check its
  /// claimRef and its node.
  base::Result<cache::Gpu> writeIntent(const cache::Claim& claim, const cache::Class& cls,
                                       const scheduler::Decision& decision, std::stop_token stop) {
    return writeIntent(claim, intent(claim, cls, decision), std::move(stop));
  }
  /// W1 with this device, which is named after the claim.
  base::Result<cache::Gpu> writeIntent(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);
  /// W1 of a static claim: claimRef on an Available device, with its resourceVersion.
  base::Result<cache::Gpu> writeClaimRef(const cache::Gpu& device, const cache::Claim& claim, std::stop_token stop);

  /// W2 on every card that lacks the entry. For a device with a resize target: R2 or, once the target is in force, R5.
  /// invalid: a card has no capacity (it was read again), or is gone: roll back. conflict: the entries are ahead of
  /// this device (it was read again).
  base::Status writeEntries(const cache::Gpu& device, std::stop_token stop);
  /// W2 on at most kEntriesAtOnce cards that lack the entry. Returns true if all cards have it by then. Errors as for
  /// writeEntries().
  base::Result<bool> writeSomeEntries(const cache::Gpu& device, std::stop_token stop);
  /// A busy API server takes 0.25 s per write, and a step begins its last state after up to 0.5 s: more would occupy
  /// the worker for more than a second.
  static constexpr int kEntriesAtOnce = 2;
  /// Restores entries of a committed device. Leaves to its resize step what that must raise, and keeps entries that are
  /// larger than the device, which running containers may use. lower: no container runs, so these are lowered.
  base::Status restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop);
  /// R1, with the device's resourceVersion.
  base::Result<cache::Gpu> writeTarget(const cache::Gpu& device, const v1alpha::DeviceSize& target,
                                       std::stop_token stop);
  /// R4: the target is in force.
  base::Result<cache::Gpu> commitTarget(const cache::Gpu& device, const std::optional<v1alpha::Isolation>& isolation,
                                        std::stop_token stop);
  /// W3b: writes the provisioner's values into the device's source. No write if the source has them or is of another
  /// kind.
  base::Result<cache::Gpu> writeSource(const cache::Gpu& device, const plugin::SourceValues& values,
                                       std::stop_token stop);
  /// W4.
  base::Result<cache::Gpu> commitDevice(const cache::Gpu& device, const std::optional<v1alpha::Isolation>& isolation,
                                        std::stop_token stop);
  /// W5: adds the finalizer and the name, as far as they are missing.
  base::Result<cache::Claim> commitClaim(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);

  /// First half of a roll back: deletes the intent exactly as it was read. The device's own step undoes the rest.
  base::Status rollBack(const cache::Gpu& device, std::stop_token stop);
  /// Writes the device's status with its resourceVersion; no write if it does not change.
  base::Result<cache::Gpu> setPhase(const cache::Gpu& device, std::string_view phase, std::string_view reason,
                                    const std::string& message, std::stop_token stop);
  /// Reports that the device is kept for pods although its claim or ResourceClaim is gone (condition Held); its phase
  /// stays. setPhase() ends that.
  base::Result<cache::Gpu> setHeld(const cache::Gpu& device, std::string_view reason, const std::string& message,
                                   const std::string& now, std::stop_token stop);

 private:
  /// setPhase() with other changes of the status.
  base::Result<cache::Gpu> setPhase(const cache::Gpu& device, v1alpha::ElasticGPUStatus after, std::string_view phase,
                                    std::string_view reason, const std::string& message, std::stop_token stop);
  base::Result<cache::Gpu> setStatus(const cache::Gpu& device, const v1alpha::ElasticGPUStatus& after,
                                     std::stop_token stop);
  /// Permitted changes of an existing entry.
  enum class EntryChange {
    none,    ///< an existing entry is kept
    growth,  ///< amounts may only grow
    any      ///< amounts may also shrink
  };
  base::Status writeEntry(const cache::Gpu& device, std::size_t place, EntryChange there, std::stop_token stop);
  base::Result<cache::Store<cache::Gpu>::Ptr> cardFor(const cache::Gpu& device, const std::string& name,
                                                      std::stop_token stop);
  /// The cached device is older than the entry: reads it for the next attempt, and returns Code::conflict.
  base::Status refreshStale(const cache::Gpu& device, const v1alpha::LedgerEntry& entry, std::stop_token stop);
  cache::Gpu intent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision) const;

  Writer& writer_;
  cache::Stores& stores_;
  allocator::Allocator& cluster_;
  Provisioning& provisioning_;
};

}  // namespace egpu::reconcile
