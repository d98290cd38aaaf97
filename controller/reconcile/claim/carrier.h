// The carrier: the ResourceClaim that takes a bound claim to scheduler and kubelet. Made when a pod names the claim,
// with an allocation that we write; released before the device is.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/cache/stores.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/state_machine.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

/// Thread-safe.
class Carrier {
 public:
  Carrier(Writer& writer, cache::Stores& stores, base::Clock& clock)
      : writer_(writer), stores_(stores), clock_(clock) {}

  /// What a carrier says about its allocation.
  enum class State {
    unwanted,   ///< no live pod names the claim
    taken,      ///< a ResourceClaim of that name isn't ours, or its allocation is another's: see why
    leaving,    ///< being deleted: of an earlier claim, or by somebody's hand
    cleared,    ///< ours was taken away by the scheduler
    waiting,    ///< cleared; written again after `delay`
    allocated,  ///< W7 and W8 done
    reserved,   ///< and a pod has it
    failed,     ///< see error
  };
  struct Answer {
    State state = State::unwanted;
    std::chrono::milliseconds delay{0};
    base::Status error{};
    std::string why{};
  };
  /// W7 and W8 as far as they are missing. rewrite: a cleared allocation is written again (with back-off), else cleared
  /// is answered.
  Answer ensure(const cache::Claim& claim, const cache::Gpu& device, bool rewrite, std::stop_token stop);

  enum class Release { gone, inUse, failed };
  struct Released {
    Release state = Release::gone;
    base::Status error;
    /// inUse: uids of the pods that may still use it. They only become fewer: nobody reserves what is being deleted.
    std::vector<std::string> pods;
  };
  /// Deletes the carrier of that claim or of its device, and once nobody reserves it lets it go. Quorum reads. Gone
  /// says nothing about pods: they may run on without it.
  Released release(const core::ObjectKey& claim, const std::string& claimUid, std::string_view device,
                   std::stop_token stop);
  /// A carrier whose time is over, as just read: deleted if it isn't yet, which of a stock one (stock.h) is not ours to do,
  /// and its finalizer taken off once nobody reserves it.
  Released letGo(core::ResourceClaim carrier, std::stop_token stop);
  /// Takes an allocation back that nobody reserves, so that the claim can move. done() once there is none.
  base::Status withdraw(const core::ResourceClaim& carrier, std::stop_token stop);

  /// (S4) A carrier of ours whose claim is gone.
  Outcome step(const core::ObjectKey& key, std::stop_token stop);

  /// A node changed: cleared allocations may be written again at once (so they may when a claim's live pods change).
  /// Returns the claims whose allocation was written more than once.
  std::vector<core::ObjectKey> resetAllBackoff();

  /// Carriers of which something is remembered; for tests.
  std::size_t remembered() const;

  // Ownership of a ResourceClaim. A user who can edit ResourceClaims can remove its finalizer and owner reference. Its
  // device class stays, and its allocation, which only the controller writes.
  /// It is one of ours, for whichever claim.
  static bool ours(const core::ResourceClaim& carrier);
  /// For this claim, or for the device of that name: by allocation or owner, or, where neither says anything, by its
  /// name.
  static bool of(const core::ResourceClaim& carrier, std::string_view claimUid, std::string_view device);
  /// The same for whatever device the claim may have.
  static bool of(const core::ResourceClaim& carrier, const cache::Claim& claim);
  /// It has both marks.
  static bool ownedBy(const core::ResourceClaim& carrier, std::string_view claimUid);
  /// It is the claim's and has all marks that it needs: of a stock one (stock.h) the finalizer is enough.
  static bool marked(const core::ResourceClaim& carrier, const cache::Claim& claim);
  /// The same, or it can have none: Kubernetes refuses every change of the metadata of a ResourceClaim whose parameters were
  /// written with blanks between their tokens, as what it makes of them no longer equals what it has stored.
  bool markedAsCanBe(const core::ResourceClaim& carrier, const cache::Claim& claim) const;
  static std::string ownerUid(const core::ResourceClaim& carrier);
  /// Another driver's: it is nobody's of ours, and asks for none of our devices.
  static bool isOthers(const core::ResourceClaim& carrier);

 private:
  struct Memory {
    std::string uid;  ///< of the carrier
    core::ObjectKey claim;
    int writes = 0;  ///< of its allocation, since the last reset
    int atOnce = 0;  ///< of those, without a wait
    base::Clock::Steady last{};
    std::set<std::string> pods;  ///< live ones at the last write, with their nodes
  };
  base::Result<core::ResourceClaim> create(const cache::Claim& claim, std::stop_token stop);
  /// Puts the marks back that somebody took off.
  base::Result<core::ResourceClaim> mark(const core::ResourceClaim& carrier, const cache::Claim& claim,
                                         std::stop_token stop);
  /// Whether that answer to mark() is of a stock one that can't be changed; then it is remembered.
  bool unchangeable(const core::ResourceClaim& carrier, const base::Status& answer);
  /// What there is says of its allocation.
  Answer allocated(const core::ResourceClaim& carrier, const cache::Gpu& device) const;
  /// W8.
  Answer allocate(const core::ResourceClaim& carrier, const cache::Gpu& device, bool rewrite, std::stop_token stop);
  /// Why W8 is not to be written now; nothing = it is, and is remembered.
  std::optional<Answer> notNow(const core::ResourceClaim& carrier, const std::string& node, bool rewrite);
  /// Of a stock one whose claim goes: its allocation is taken back, and it stays.
  Released takeBack(const core::ResourceClaim& carrier, std::stop_token stop);
  void forget(const core::ObjectKey& claim);
  /// The same if there is no such carrier, whoever took it away.
  void forgetGone(const core::ObjectKey& claim);
  core::ResourceClaimAllocation allocationFor(const core::ResourceClaim& carrier, const cache::Gpu& device) const;

  Writer& writer_;
  cache::Stores& stores_;
  base::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Memory> written_;  ///< by "namespace/name"; guarded by mutex_
  /// When we took an allocation back that the scheduler had not cleared, by "namespace/name"; guarded by mutex_.
  std::map<std::string, base::Clock::Steady> withdrawn_;
  /// The uids of those that can't be changed, by "namespace/name"; guarded by mutex_.
  std::map<std::string, std::string> unchangeable_;
};

}  // namespace egpu::reconcile
