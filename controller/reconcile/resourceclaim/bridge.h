// The ResourceClaim through which scheduler and kubelet learn of a bound claim. It is created when a pod names the
// claim, gets an allocation that the controller writes, and is released before the device.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/mutex.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe.
class ResourceClaimBridge {
 public:
  ResourceClaimBridge(Writer& writer, cache::Stores& stores, base::Clock& clock, const Timeouts& timeouts)
      : writer_(writer), stores_(stores), clock_(clock), timeouts_(timeouts) {}

  /// State of the ResourceClaim and its allocation.
  enum class State {
    unwanted,   ///< no live pod names the claim
    taken,      ///< a ResourceClaim of that name is not ours, or its allocation is for another device: see why
    leaving,    ///< being deleted: it belongs to an earlier claim, or was deleted by hand
    cleared,    ///< the scheduler removed our allocation
    waiting,    ///< cleared; written again after `delay`
    allocated,  ///< W7 and W8 are done
    reserved,   ///< W7 and W8 are done, and a pod has reserved it
    failed,     ///< see error
  };
  struct EnsureResult {
    State state = State::unwanted;
    std::chrono::milliseconds delay{0};
    base::Status error{};
    std::string why{};
  };
  /// Executes W7 and W8 as far as they are missing. rewrite: writes a cleared allocation again, with backoff; otherwise
  /// returns `cleared`.
  EnsureResult ensure(const cache::Claim& claim, const cache::Gpu& device, bool rewrite, std::stop_token stop);

  enum class Release { gone, inUse, failed };
  struct Released {
    Release state = Release::gone;
    base::Status error;
    /// inUse: uids of the pods that may still use it. Pods are only removed: none can reserve a ResourceClaim being
    /// deleted.
    std::vector<std::string> pods;
  };
  /// Deletes the ResourceClaim of that claim or of its device, and removes its finalizer once no pod reserves it.
  /// Quorum reads. `gone` does not mean that no pod runs: pods may run on without it.
  Released release(const core::ObjectKey& claim, const std::string& claimUid, std::string_view device,
                   std::stop_token stop);
  /// Deletes a ResourceClaim that was just read and is no longer needed, unless it is external (adopter.h) and not ours
  /// to delete. Removes its finalizer once no pod reserves it.
  Released releaseConsumers(core::ResourceClaim resourceClaim, std::stop_token stop);
  /// Removes an allocation that no pod reserves, so that the claim can move.
  base::Status withdraw(const core::ResourceClaim& resourceClaim, std::stop_token stop);

  /// (S4) Removes a ResourceClaim of ours whose claim is gone.
  Outcome step(const core::ObjectKey& key, std::stop_token stop);

  /// Resets all backoffs after a node changed, so that cleared allocations are written again at once. (A change of a
  /// claim's live pods resets the backoff of that claim.) Returns the claims whose allocation was written more than
  /// once.
  std::vector<core::ObjectKey> resetAllBackoff();

  /// Number of ResourceClaims with state here; for tests.
  std::size_t remembered() const;

  // Ownership of a ResourceClaim. A user who can edit ResourceClaims can remove its finalizer and owner reference. Its
  // device class stays, and its allocation, which only the controller writes.
  /// True if it is ours, for any claim.
  static bool ours(const core::ResourceClaim& resourceClaim);
  /// True if it is for this claim, or for the device of that name: by allocation or owner or, without either, by its
  /// name.
  static bool of(const core::ResourceClaim& resourceClaim, std::string_view claimUid, std::string_view device);
  /// of() for any device that the claim may have.
  static bool of(const core::ResourceClaim& resourceClaim, const cache::Claim& claim);
  /// True if it has both marks.
  static bool ownedBy(const core::ResourceClaim& resourceClaim, std::string_view claimUid);
  /// True if it is the claim's and has all marks that it needs; an external one (adopter.h) needs the finalizer only.
  static bool marked(const core::ResourceClaim& resourceClaim, const cache::Claim& claim);
  /// True if marked(), or if it cannot be marked: Kubernetes rejects every metadata change of a ResourceClaim whose
  /// parameters were written with blanks between tokens, because the API server's re-encoded parameters differ from the
  /// stored ones.
  bool markedAsCanBe(const core::ResourceClaim& resourceClaim, const cache::Claim& claim) const;
  static std::string ownerUid(const core::ResourceClaim& resourceClaim);
  /// True if it is another driver's: it belongs to no claim of ours, and requests none of our devices.
  static bool isOthers(const core::ResourceClaim& resourceClaim);

 private:
  struct WriteRecord {
    std::string uid;  ///< uid of the ResourceClaim
    core::ObjectKey claim;
    int writes = 0;             ///< writes of its allocation since the last reset
    int writesWithoutWait = 0;  ///< number of these without a wait
    base::Clock::Steady last{};
    std::set<std::string> pods;  ///< live pods at the last write, with their nodes
  };
  base::Result<core::ResourceClaim> create(const cache::Claim& claim, std::stop_token stop);
  /// Restores marks that were removed.
  base::Result<core::ResourceClaim> mark(const core::ResourceClaim& resourceClaim, const cache::Claim& claim,
                                         std::stop_token stop);
  /// True if that answer to mark() is of an external one that cannot be changed. Records it.
  bool unchangeable(const core::ResourceClaim& resourceClaim, const base::Status& answer);
  /// Compares the existing allocation with the one for the device.
  EnsureResult allocated(const core::ResourceClaim& resourceClaim, const cache::Gpu& device) const;
  /// W8.
  EnsureResult allocate(const core::ResourceClaim& resourceClaim, const cache::Gpu& device, bool rewrite,
                        std::stop_token stop);
  /// Reason not to write W8 now; nullopt if it may be written, which is recorded.
  std::optional<EnsureResult> notNow(const core::ResourceClaim& resourceClaim, const std::string& node, bool rewrite);
  /// Removes the allocation of an external ResourceClaim whose claim is deleted. The ResourceClaim stays.
  Released takeBack(const core::ResourceClaim& resourceClaim, std::stop_token stop);
  void forget(const core::ObjectKey& claim);
  /// forget() unless the ResourceClaim exists again.
  void forgetGone(const core::ObjectKey& claim);
  core::ResourceClaimAllocation allocationFor(const core::ResourceClaim& resourceClaim, const cache::Gpu& device) const;

  Writer& writer_;
  cache::Stores& stores_;
  base::Clock& clock_;
  const Timeouts& timeouts_;
  mutable base::Mutex mutex_;
  std::map<std::string, WriteRecord> written_ EGPU_GUARDED_BY(mutex_);  ///< by "namespace/name"
  /// Times at which we removed an allocation that the scheduler had not cleared, by "namespace/name".
  std::map<std::string, base::Clock::Steady> withdrawn_ EGPU_GUARDED_BY(mutex_);
  /// Uids of the ResourceClaims that cannot be changed, by "namespace/name".
  std::map<std::string, std::string> unchangeable_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
