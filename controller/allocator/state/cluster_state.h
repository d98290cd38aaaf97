// Allocation state of the cluster: cards, devices, and assumed decisions.
//
// The allocations of a card are the union of three sources, each under the device's uid or, before the device exists,
// under "claim/<claim uid>":
//   ledger entry of the card  ∪  device that names the card  ∪  assumed decision that is not written yet
// So a decision counts from the moment it is made until the last trace of its device is gone, whichever watch is late.
//
// Life of an assumption:
//   assume()    A decision was made. Its amounts are allocated.
//   confirm()   The claim's device is known, as refreshDevice() finds. The device counts, and the assumption ends.
//   forget()    The decision was not written, or the claim is gone. Its amounts are free again.
//
// A card is schedulable unless one of these holds:
//   - It is unhealthy, Failed or being deleted.
//   - A DeviceTaintRule keeps claims off it.
//   - A device that names it is on another node: the card's uuid moved, and the old entries must go first.
//   - A committed device that names it lacks its entry: the card reappeared, and its entries are restored first.
//   - A device takes the whole card but is charged less memory than the card has: the card gained memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/allocator/cluster_observer.h"
#include "controller/allocator/quota/quota_accounting.h"
#include "controller/allocator/scheduling_request.h"
#include "controller/allocator/state/holder_ages.h"
#include "controller/allocator/state/snapshot_cache.h"
#include "controller/allocator/state/tracked_allocation.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {

struct CardState;
using CardEntry = std::pair<const std::string, CardState>;

struct DeviceState {
  cache::Store<cache::Gpu>::Ptr object;  ///< not null between two calls of ClusterState
  std::vector<CardEntry*> cards;         ///< cards that it names, each once; valid as long as the device
};
using DeviceEntry = std::pair<const std::string, DeviceState>;
using DeviceStates = std::unordered_map<std::string, DeviceState>;

/// Allocation of a card, with the device that reports it.
struct HeldAllocation {
  TrackedAllocation amounts;
  const DeviceEntry* device = nullptr;  ///< null if no device reports it
};

/// State of a card in addition to that in the scheduler's cluster, which has the object's spec and the effective amount
/// of each allocation.
struct CardState {
  bool present = false;                        ///< the card object exists
  std::string unschedulableReason;             ///< reason in the card's object; empty if there is none
  std::vector<HeldAllocation> held;            ///< unordered; a ledger has at most 128 entries
  HeldAllocation* find(std::string_view uid);  ///< null if that uid has no allocation on the card
  const HeldAllocation* find(std::string_view uid) const;
};
using CardStates = std::map<std::string, CardState, std::less<>>;

struct AssumedAmount {
  std::string card;
  scheduler::Amount charged;
  std::string isolation{};  ///< mode of the share; empty = none
};

/// A decision that counts although its claim has no known device yet.
struct Assumption {
  std::string claim, className;
  uint64_t number = 0;  ///< unique per decision
  std::vector<AssumedAmount> cards;
  std::optional<scheduler::Decision> inGang{};  ///< decision of a gang that the claim's own step has yet to write
};

/// Whether claims' decisions, and how many resizes, are assumed and not written yet. Written under the allocator's
/// lock, read without it.
struct PendingWrites {
  std::atomic<bool> hasAssumptions{false};
  std::atomic<std::size_t> resizes{0};
};

/// True if the device should have its entries on its cards.
bool isCommitted(const cache::Gpu& device);

/// True if all claims still exist. A reservation for a deleted claim would never be released.
bool allExist(const cache::Stores& stores, const std::vector<SchedulingRequest>& asks);

/// Not thread-safe. Reads the stores itself, so a late notification cannot bring back an old state. All references must
/// outlive it.
class ClusterState {
 public:
  /// Prefix of the uid under which a claim's decision is assumed.
  static constexpr std::string_view kAssumed = "claim/";
  static std::string assumedKey(std::string_view claimUid) { return std::string(kAssumed).append(claimUid); }

  ClusterState(const cache::Stores& stores, QuotaAccounting& quotas, HolderAges& ages, PendingWrites& writes)
      : stores_(stores), quotas_(quotas), ages_(ages), writes_(writes) {}

  /// Each reads the object from the stores and updates the scheduler's cluster. Call after each of its events, also if
  /// it is gone. before: the object of the previous notification; null if there was none.
  void refreshNode(const std::string& name);
  void refreshCard(const std::string& name, const cache::Gpu* before);
  void refreshDevice(const std::string& name);
  /// Reports the claim's usage to the listener.
  void reportUsage(std::string_view claimUid);
  /// Evaluates again whether the card is schedulable.
  void refreshSchedulability(const std::string& card);
  /// Reports all allocations to the quotas if a namespace got its first quota. Visits all cards then.
  void countForQuotas();

  /// Assumes the decision for the claim. ofGang: it is kept until the claim's own step writes it.
  void assume(const SchedulingRequest& ask, const scheduler::Decision& decision, bool ofGang);
  /// Drops the claim's assumption and returns its amounts.
  std::vector<AssumedAmount> forget(std::string_view claimUid);
  /// Like forget(), for a claim that is decided again now: its amounts do not count as freed until noteRetried().
  std::vector<AssumedAmount> forgetForRetry(std::string_view claimUid);
  /// The claim was decided again: dropped amounts that are not assumed again are free now.
  void noteRetried(std::string_view claimUid, const std::vector<AssumedAmount>& dropped);
  /// Null if no decision for the claim is assumed.
  const Assumption* findAssumption(std::string_view claimUid) const;
  const std::unordered_map<std::string, Assumption>& assumptions() const { return assumptions_; }

  /// Assumes the new amounts of a device that is to be resized, until forgetResize(), or until the device has a target.
  void assumeResize(const std::string& deviceUid, const std::vector<scheduler::Placement>& placements);
  void forgetResize(std::string_view deviceUid);
  /// Allocations of the device on its cards; empty if one of them is not known.
  std::vector<scheduler::Holding> holdingsOf(const cache::Gpu& device) const;

  /// True if the claim has its capacity, or is about to have it: it needs no reservation or nomination.
  bool isPlaced(const std::string& claimUid) const;
  bool isAnyPlaced(const std::vector<SchedulingRequest>& asks) const;
  /// Uid of the device; null if it is not known.
  const std::string* uidOf(const std::string& device) const;
  /// Uids of those devices that are known.
  std::vector<std::string> uidsOf(const std::vector<std::string>& devices) const;
  /// Reason why the card is not schedulable; empty if it is.
  std::string unschedulableReason(const CardEntry& card) const;
  /// Removes the devices' allocations from the scheduler's cluster, or restores them. Restore them before the next
  /// decision: the listener is not notified.
  void excludeDevices(const std::vector<std::string>& devices, bool excluded);

  ObservedCluster& cluster() { return cluster_; }
  const ObservedCluster& cluster() const { return cluster_; }
  SnapshotCache& snapshots() { return snapshots_; }
  const SnapshotCache& snapshots() const { return snapshots_; }
  const CardStates& cards() const { return cards_; }

  /// True if capacity was freed since takeFreed(): an allocation was released, or a card or node became schedulable.
  bool hasFreed() const { return hasFreed_; }
  bool takeFreed() { return std::exchange(hasFreed_, false); }

 private:
  /// Updates one source of an allocation. device: the reporting device if the source is a device.
  void updateAllocation(CardEntry& card, const std::string& uid, AllocationSource source,
                        const std::optional<scheduler::Amount>& amount, const DeviceEntry* device = nullptr);
  /// Allocates the effective amount in the scheduler's cluster.
  void take(const CardEntry& card, const HeldAllocation& held);
  /// Updates the quotas' usage by this allocation.
  void count(const CardEntry& card, const HeldAllocation& held);
  std::optional<scheduler::QuotaClaim> ownerOf(const CardEntry& card, const HeldAllocation& held) const;
  void addDevice(DeviceEntry& entry);
  /// Charges the device on each of its cards: the larger of the amounts that it has and is to have.
  void chargeDevice(DeviceEntry& entry);
  void removeDevice(DeviceStates::iterator known);
  /// Replaces the claim's assumption by the device. Capacity that only the assumption held becomes free.
  void confirm(const cache::Gpu& device);
  void updateSchedulability(const CardEntry& card);
  void forgetIfEmpty(const CardEntry& card);

  const cache::Stores& stores_;
  QuotaAccounting& quotas_;
  HolderAges& ages_;
  PendingWrites& writes_;
  ObservedCluster cluster_;
  SnapshotCache snapshots_;
  CardStates cards_;
  DeviceStates devices_;  ///< by name
  /// By claim uid; few, since each ends when its device appears.
  std::unordered_map<std::string, Assumption> assumptions_;
  /// By device uid: its cards with assumed resizes.
  std::unordered_map<std::string, std::vector<std::string>> resizes_;
  uint64_t lastNumber_ = 0;
  bool hasFreed_ = false;
};

}  // namespace egpu::allocator
