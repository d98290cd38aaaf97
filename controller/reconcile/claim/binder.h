// Intent, ledger, effect, commit: the writes W1 to W5 of a claim's way to its device, and R1 to R5 of a device's to another size, each on
// its own. What they come to is decided by the claim's step.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "controller/cache/cluster_view.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/writer.h"
#include "controller/scheduler/decide.h"

namespace egpu::reconcile {

/// The device's name for a claim.
std::string deviceNameFor(const cache::Claim& claim);
/// Bound, Released or Available: W4 has happened to it (for somebody).
bool committed(const cache::Gpu& device);
/// The device belongs to exactly this claim.
bool belongsTo(const cache::Gpu& device, const cache::Claim& claim);

/// Thread-safe.
class Binder {
 public:
  Binder(Writer& writer, cache::Stores& stores, cache::ClusterView& cluster, Provisioning& provisioning)
      : writer_(writer), stores_(stores), cluster_(cluster), provisioning_(provisioning) {}

  /// W1. A device of that name already there is what the answer is about, whoever wrote it, and what was decided is
  /// forgotten; the caller looks at its claimRef and its node.
  base::Result<cache::Gpu> writeIntent(const cache::Claim& claim, const cache::Class& cls,
                                       const scheduler::Decision& decision, std::stop_token stop);
  /// W1 of a static claim: claimRef on an Available device, with its resourceVersion.
  base::Result<cache::Gpu> writeClaimRef(const cache::Gpu& device, const cache::Claim& claim, std::stop_token stop);

  /// W2 on every card that lacks the entry; of a device that is resized R2, and once that is in force R5. invalid: a card has no room
  /// (read anew by then), or is gone: roll back. conflict: the entries are ahead of this device (read anew by then).
  base::Status writeEntries(const cache::Gpu& device, std::stop_token stop);
  /// The same of a committed device, but for what the step that resizes it has to raise, and for what is more than it has: containers
  /// that run may have that. lower: nobody does.
  base::Status restoreEntries(const cache::Gpu& device, bool lower, std::stop_token stop);
  /// R1, with its resourceVersion.
  base::Result<cache::Gpu> writeTarget(const cache::Gpu& device, const v1alpha::DeviceSize& target,
                                       std::stop_token stop);
  /// R4: what it is to have is in force.
  base::Result<cache::Gpu> commitTarget(const cache::Gpu& device, std::stop_token stop);
  /// W4.
  base::Result<cache::Gpu> commitDevice(const cache::Gpu& device, std::stop_token stop);
  /// W5, only what is missing of finalizer and name.
  base::Result<cache::Claim> commitClaim(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop);

  /// First half of rolling back: deletes the intent exactly as it was read. The device's own step undoes the rest.
  base::Status rollBack(const cache::Gpu& device, std::stop_token stop);
  /// Device status with resourceVersion; no write if it is so already.
  base::Result<cache::Gpu> setPhase(const cache::Gpu& device, std::string_view phase, std::string_view reason,
                                    const std::string& message, std::stop_token stop);
  /// Says that the device is kept for pods although what led to it is gone (condition Held); its phase stays. setPhase
  /// ends that.
  base::Result<cache::Gpu> setHeld(const cache::Gpu& device, std::string_view reason, const std::string& message,
                                   const std::string& now, std::stop_token stop);

 private:
  base::Result<cache::Gpu> setStatus(const cache::Gpu& device, const v1alpha::ElasticGPUStatus& after,
                                     std::stop_token stop);
  /// What may become of an entry that is there.
  enum class Entry { stays, raised, changed };
  base::Status writeEntry(const cache::Gpu& device, std::size_t place, Entry there, std::stop_token stop);
  base::Result<cache::Store<cache::Gpu>::Ptr> cardFor(const cache::Gpu& device, const std::string& name,
                                                      std::stop_token stop);
  base::Status olderThan(const cache::Gpu& device, const v1alpha::LedgerEntry& entry, std::stop_token stop);
  cache::Gpu intent(const cache::Claim& claim, const cache::Class& cls, const scheduler::Decision& decision) const;

  Writer& writer_;
  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  Provisioning& provisioning_;
};

}  // namespace egpu::reconcile
