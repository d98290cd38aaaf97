// Allocation state of the cluster, and the critical section that decides and assumes.
//
// The allocations of a card are the union of three sources, each under the device's uid or, before the device exists,
// under "claim/<claim uid>":
//   ledger entry of the card  ∪  device that names the card  ∪  assumed decision that is not written yet
// So a decision counts from the moment it is made until the last trace of its device is gone, whichever watch is late.
//
// A card is schedulable unless one of these holds:
//   - It is unhealthy, Failed or being deleted.
//   - A DeviceTaintRule keeps claims off it.
//   - A device that names it is on another node: the card's uuid moved, and the old entries must go first.
//   - A committed device that names it lacks its entry: the card reappeared, and its entries are restored first.
//   - A device takes the whole card but is charged less memory than the card has: the card gained memory.
//
// Quotas are checked in the same critical section and count the same allocations. An allocation counts for the claim
// that its device or its decision names, otherwise for the claim that the ledger entry names. The allocation of a
// device without a claimRef counts for no claim.
//
// Nominated capacity (status.nominated of a preemptor) is allocated temporarily while requests are decided that come
// later in queue order (scheduler::queueLess()): first the part that is free, and more as victims leave. Nodes that
// are reserved for claims pending for long (scheduler/queue_order.h) are filtered out for such requests. Nominated or
// reserved quota (quota/quota_reservations.h) counts as used for them. The owner, and requests that come before it,
// ignore all three. Nominations are stored in the claims' statuses; the next leader searches for reservations again.
//
// Two leaders that overlap may each decide up to a quota and together exceed it. They cannot over-commit a card: the
// API server guards its ledger.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/allocator/cluster_observer.h"
#include "controller/allocator/demand_statistics.h"
#include "controller/allocator/explanation_cache.h"
#include "controller/allocator/holder_ages.h"
#include "controller/allocator/quota_reservations.h"
#include "controller/allocator/reservation_budget.h"
#include "controller/allocator/snapshot_cache.h"
#include "controller/allocator/tracked_allocation.h"
#include "controller/allocator/unschedulable_cache.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/choice/nominated_rooms.h"
#include "controller/scheduler/choice/plan_reservations.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"
#include "controller/scheduler/quota/preempt_within.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/resize.h"
#include "controller/scheduler/score_nodes.h"

namespace egpu::cache {

/// Allocation of a card to one device, for the allocation map. Amounts are charged amounts.
struct MapAllocation {
  std::string device;     ///< object name; empty if the allocation is only assumed
  std::string deviceUid;  ///< or "claim/<claim uid>"
  std::string claim;      ///< "namespace/name"
  std::string phase;      ///< of the device; "Pending" if the allocation is only assumed
  int64_t core = 0;
  int64_t memory = 0;
  std::optional<v1alpha::DeviceUsage> usage{};  ///< by running processes, if the card's agent reports it
  bool adminAccess() const { return core == 0 && memory == 0; }
};
struct MapCard {
  std::string name, uuid, model;
  int64_t index = 0;
  int64_t core = 0, memory = 0;          ///< capacity
  int64_t usedCore = 0, usedMemory = 0;  ///< Σ allocations
  bool offered = true;
  std::string why;  ///< why the card is not schedulable; empty if it is
  std::vector<MapAllocation> allocations;
  core::HeapOptional<v1alpha::CardUsage> usage{};  ///< as the card's agent reports it
};
struct MapNode {
  std::string name;
  bool schedulable = true;
  std::vector<MapCard> cards;
  /// True if a claim holds an amount on the node. Claims with admin access hold none.
  bool isUsed() const;
};
struct AllocationMap {
  std::vector<MapNode> nodes;  ///< by name; the cards of a node by index
  std::string next{};          ///< last node of this page if another page follows; otherwise empty
};
/// Selects nodes of the map.
struct MapPage {
  std::string node{};     ///< only this node; empty = all
  std::string after{};    ///< only nodes with greater names; empty = from the first on
  std::size_t limit = 0;  ///< maximum number of nodes; 0 = no limit
  bool idle = false;      ///< only nodes on which no claim holds an amount
};

struct ClusterTotals {
  int64_t nodes = 0, cards = 0, offered = 0, quarantined = 0, allocations = 0;
  int64_t free = 0, partly = 0, full = 0;  ///< schedulable cards: no allocations; some; no core or no memory left
  int64_t core = 0, usedCore = 0, memory = 0, usedMemory = 0;
};

/// A decision that counts although its claim has no known device yet.
struct AssumedDecision {
  std::string claimUid;
  std::string claim;    ///< "namespace/name"
  uint64_t number = 0;  ///< unique per decision
  std::vector<std::string> cards;
};

/// Differences between a card's allocations and its ledger. The auditor finds the cause.
struct CardAudit {
  bool known = false;
  int64_t core = 0, memory = 0;                 ///< capacity
  int64_t ledgerCore = 0, ledgerMemory = 0;     ///< Σ entries
  int64_t usedCore = 0, usedMemory = 0;         ///< allocated according to the scheduler
  std::vector<std::string> entryWithoutDevice;  ///< uids in the ledger without a cached device that names the card
  std::vector<std::string> deviceWithoutEntry;  ///< names of committed devices without an entry in the ledger
};

/// Message: why no device on that node can grow.
std::string keptNodeText(const std::string& node);

/// Thread-safe. Reads the stores inside its own lock, so a late notification cannot bring back an old state. The stores
/// must outlive it.
class ClusterView {
 public:
  explicit ClusterView(Stores& stores);  ///< registers itself with the stores
  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;

  /// Position in queue order. Times are seconds of the wall clock.
  struct QueueOrder {
    int64_t priority = 0;
    int64_t since = 0;         ///< creation of the claim
    int64_t waitingSince = 0;  ///< pending since then, according to the claim's status
    int64_t now = 0;
  };
  struct SchedulingRequest {
    std::string claimUid;
    std::string claim;  ///< "namespace/name"
    scheduler::Request request;
    /// Key of the node predicate: equal texts mean equal sets of suitable nodes; empty = not cached. A request that
    /// fits no node of the set is cached as unschedulable until capacity is freed.
    std::string nodes;
    std::string className{};  ///< class of the claim, for quotas
    QueueOrder turn{};
    bool first = true;  ///< first alternative of the claim, evaluated on all nodes; otherwise nothing is reserved
  };
  /// Decides one request within the quotas of its namespace and, if it fits, assumes its allocations under
  /// "claim/<uid>". Drops an earlier assumption of the claim. `excess` is set if a quota is why it does not fit.
  scheduler::Decision decideAndAssume(const SchedulingRequest& ask, const scheduler::NodePredicate& suits = {});
  /// False if decideAndAssume() would find no capacity whatever nodes suit; true if it may. Caches requests that do not
  /// fit until capacity is freed, on a card or in the quotas of their namespace.
  bool mayFit(const SchedulingRequest& ask);
  /// Returns up to `most` decisions, each on a different node, in the order in which decideAndAssume() would choose
  /// them. Assumes nothing, but drops an earlier assumption of the claim.
  std::vector<scheduler::Decision> candidates(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                              std::size_t most);
  /// Decides all requests on one node within the namespace's quotas, all or none, and assumes the decisions. If the
  /// best node of the first request cannot hold them all, evaluates every node once and releases the lock in between.
  scheduler::Together decideTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits);
  /// Nodes for one member of a gang; see scheduler::GangMember.
  struct GangMemberConstraints {
    scheduler::NodePredicate suits{};
    decltype(scheduler::GangMember::hasRoom) hasRoom{};
    std::optional<std::size_t> with{};
    std::optional<std::size_t> kind{};
    /// The same conditions once all pods that use claims have left a node, for reservations; null = no difference.
    scheduler::NodePredicate suitsOnceFree{};
    decltype(scheduler::GangMember::hasRoom) hasRoomOnceFree{};
  };
  /// Decides all requests of a gang, each on its place (one per request), all or none, and assumes the decisions; see
  /// scheduler::decideGang(). Respects the namespace's quotas, and nominations and reservations that block all of the
  /// requests. Tries nominated nodes first if each member has one. `within`: groups of nodes, one of which must hold
  /// all members. Releases the lock between groups, and between members whose search takes long. May reserve nodes for
  /// a gang that does not fit (scheduler/choice/plan_reservations.h). Returns nullopt if a member is assumed or has a
  /// device already; the caller then evaluates the gang again. So of two concurrent callers for one gang, only one
  /// decides.
  std::optional<scheduler::GangDecision> decideGang(const std::vector<SchedulingRequest>& asks,
                                                    const std::vector<GangMemberConstraints>& places,
                                                    const std::vector<scheduler::TopologyGroup>* within = nullptr);
  /// Decision of decideGang() for the claim while it is assumed. The claim's own step writes it.
  std::optional<scheduler::Decision> decidedInGang(std::string_view claimUid) const;
  /// True if decideTogether() would find a node if these devices were gone. Assumes nothing.
  bool wouldFitTogether(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                        const std::vector<std::string>& withoutDevices);
  /// Returns scheduler::scoreNodes() of these nodes for all requests together, one verdict per node, as if these devices
  /// were gone and nominated and reserved capacity were taken. Assumes nothing. Releases the lock in between if it
  /// takes long.
  std::vector<scheduler::NodeVerdict> scoreNodes(const std::vector<SchedulingRequest>& asks,
                                                 std::span<const std::string_view> nodes,
                                                 const std::vector<std::string>& withoutDevices = {},
                                                 scheduler::Judge what = scheduler::Judge::fitAndScore);
  /// Explains why the request does not fit. Releases the lock in between, so a large cluster may change between the
  /// first node and the last. A slow explanation is cached for a while (explanations.h): without `suits` for all
  /// callers, with `suits` for callers with the same `nodes` (see SchedulingRequest::nodes).
  scheduler::Explanation explain(const scheduler::Request& request, const scheduler::NodePredicate& suits = {},
                                 std::string_view nodes = {}, const scheduler::WhyUnsuited& whyUnsuited = {}) const;
  /// Explains, on a snapshot like preempt(), why decideGang() finds no capacity for one of the requests.
  scheduler::Explanation explainGang(const std::vector<SchedulingRequest>& asks,
                                     const std::vector<GangMemberConstraints>& places,
                                     const std::vector<scheduler::TopologyGroup>* within,
                                     const scheduler::WhyUnsuitedForMember& whyUnsuited);
  /// Finds victims for the request: scheduler::preempt() on a snapshot after the nominations that come before the
  /// request. Holds the lock only to copy the cluster; callers share the copy until the cluster changes. Assumes
  /// nothing. enough: returns true to end the search with its result so far.
  scheduler::Preemption preempt(const SchedulingRequest& ask, const scheduler::NodePredicate& suits,
                                const scheduler::IsEvictable& isEvictable, const scheduler::EvictionRankOf& standing,
                                const scheduler::StopCondition& enough = {});
  /// Finds victims so that all requests fit, each on its place, all or none: scheduler::preemptTogether() on such a
  /// snapshot. Respects nominations and reservations as decideGang() does.
  scheduler::PreemptionTogether preemptTogether(const std::vector<SchedulingRequest>& asks,
                                                const std::vector<GangMemberConstraints>& places,
                                                const std::vector<scheduler::TopologyGroup>* within,
                                                const scheduler::IsEvictable& isEvictable,
                                                const scheduler::EvictionRankOf& standing,
                                                const scheduler::StopCondition& enough = {});
  /// Number of snapshots that were copied.
  uint64_t copies() const;
  /// True if `group` is needed: all requests fit, each on its nominated node (`rooms`, one per request) and within its
  /// quotas, once all victims of these nominations are gone, but not if `group` stays. `group` (names of devices) is
  /// one victim, or the victims of one gang, which leave together. False if the requests fit without evictions, or one
  /// needs no capacity.
  bool needs(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& rooms,
             const std::vector<std::string>& group);
  /// Names of the victims that leave together with one victim, including it.
  using VictimGroup = std::function<std::vector<std::string>(const std::string& victim)>;
  /// Names of the victims that are needed as in needs(), if each group that is not needed stays before the next one is
  /// tried. Empty: the requests fit without evictions. Nullopt: they need no capacity, or do not fit even without all
  /// victims. Costs about as much as needs() for one group. Calls groupOf without a lock.
  std::optional<std::set<std::string>> neededVictims(const std::vector<SchedulingRequest>& asks,
                                                     const std::vector<v1alpha::Nomination>& rooms,
                                                     const VictimGroup& groupOf);
  /// Message: nominations and reservations of other claims that withhold capacity from the request. Names a claim only
  /// if it is in the same namespace. Empty if there are none.
  std::string keptFrom(const SchedulingRequest& ask) const;
  /// Nodes with a nomination or reservation that withholds capacity from the requests, placed together on one node.
  std::set<std::string, std::less<>> nodesKeptFrom(const std::vector<SchedulingRequest>& asks) const;
  /// Nodes with a nomination or reservation for any claim other than this one ("namespace/name"; empty = for any
  /// claim).
  std::set<std::string, std::less<>> nodesKeptForOthers(std::string_view claim) const;
  /// Message: the node that is reserved for the claim, or why none is. Empty if the claim has not been pending for
  /// long, or no node can ever hold it.
  std::string reservationText(std::string_view claimUid) const;
  /// Node reservations, each with the name of its claim.
  std::vector<scheduler::Kept> keptNodes() const;
  /// Sets after which time nodes are reserved, and how many at most. Call before the first decision.
  void keeping(const scheduler::Keeping& keeping) { keeping_ = keeping; }
  /// Returns the request with the amounts that the quotas leave to the claim, for explain().
  scheduler::Request withinQuota(const SchedulingRequest& ask);
  /// Charges the quotas for an existing device that the claim is about to get, as a decision would, unless a quota is
  /// exceeded.
  std::optional<scheduler::QuotaExcess> reserve(const SchedulingRequest& ask, const Gpu& device);
  /// Returns the excess that reserve() would return. Assumes nothing.
  std::optional<scheduler::QuotaExcess> excessWith(const SchedulingRequest& ask, const Gpu& device);
  /// Decides a resize of the device on its own cards (scheduler::resizeInPlace()), within the quotas of its namespace
  /// and beside capacity that is nominated or reserved for other claims. In place, the additional amounts count from
  /// now on, until the device has another target or forgetResize() is called. Drops an earlier decision for the device.
  /// See resizes.cpp.
  scheduler::Resizing decideResize(const SchedulingRequest& ask, const Gpu& device);
  /// Capacity that decideResize() leaves to other claims: nominated amounts on the device's cards, and whether its node
  /// is reserved. Assumes nothing.
  struct KeptFromResize {
    std::vector<scheduler::Holding> cards;
    bool node = false;
    bool operator==(const KeptFromResize&) const = default;
  };
  KeptFromResize keptFromResize(const SchedulingRequest& ask, const Gpu& device) const;
  /// Drops the decision of decideResize() for the device. Takes no lock while no resize is decided.
  void forgetResize(const Gpu& device);
  /// Decides where the request would fit if the device were gone. Assumes nothing.
  scheduler::Decision decideWithout(const SchedulingRequest& ask, const Gpu& device,
                                    const scheduler::NodePredicate& suits);
  /// Amounts used of a quota, see QuotaBook::used(). Nullopt if there is no such quota.
  std::optional<scheduler::QuotaAmounts> quotaUsed(const core::ObjectKey& quota);
  /// Message: the claims that use most of the exceeded quota and, if `releases`, the claims whose release would
  /// suffice. May be empty.
  std::string quotaHolders(const scheduler::QuotaExcess& excess, bool releases);
  /// Releases the node reservations of requests that exceed a quota (of one claim, or of several that are decided
  /// together), and may reserve the quota for them. decideAndAssume() and decideGang() do this themselves.
  void waitForQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess);
  /// Version of the namespace's quotas if one of them refuses claims that exceed it, instead of letting them wait.
  std::optional<uint64_t> refusingQuotas(std::string_view namespace_) const;
  /// Drops the claim's assumption and reservations: the decision was not written, or nothing can be decided. Once the
  /// claim's device exists, the view does this itself.
  void forget(std::string_view claimUid);
  /// Releases the claim's reservations because it is not wanted at present. Its assumption stays.
  void releaseReservation(std::string_view claimUid);
  /// May reserve a node for requests (of one claim, or of several of one pod) that fit no node which `suits` accepts:
  /// such a node or otherwise one that `otherwise` accepts (null = none). decideAndAssume() and decideTogether() do
  /// this themselves, with `suits` only. Releases the lock during the search.
  void reserveNodeFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                      const scheduler::NodePredicate& otherwise);
  /// True if a node or quota is reserved, or was at the last call of expireReservations(). Takes no lock.
  bool keepsNodes() const { return keepsNodes_.load(std::memory_order_relaxed); }
  /// Ends reservations that were not renewed for minutes, for whatever reason. Returns the owners ("namespace/name")
  /// that should renew theirs if they still want it.
  std::vector<std::string> expireReservations(int64_t now);
  /// Counts the device instead of the claim's assumption, whichever process decided it.
  void adopted(std::string_view claimUid, const Gpu& device);
  /// Drops assumptions for claims of the name "namespace/name" with another uid (empty = with any uid): these claims
  /// are gone. If a device was written for one of them, the device counts by itself.
  void forgetEarlier(std::string_view claim, std::string_view uid);

  /// Sets the callback for freed capacity: an allocation was released, or a card or node became schedulable, so pending
  /// claims may fit. Called without the lock. Set before the stores fill.
  void onCapacity(std::function<void()> listener) { onCapacityFreed_ = std::move(listener); }
  /// Sets the callback for changes of the namespace's quotas, or of the usage that they count. freed: claims that
  /// exceeded a quota may be within it now. Called without the lock. Set before the stores fill.
  void onQuota(std::function<void(const std::string& namespace_, bool freed)> listener) {
    counted_ = std::move(listener);
  }
  /// Sets the callback after each decision: whether it fits, and how long it took. Called without the lock. Set before
  /// the first decision.
  void onDecision(std::function<void(bool fits, double seconds)> listener) { decided_ = std::move(listener); }

  /// Reports every change of the cluster state, and every decision, to `listener`. Set before the stores fill;
  /// `listener` must outlive the view.
  void listen(ClusterListener& listener) { cluster_.tell(&listener); }

  /// True if any decision is assumed. Takes no lock.
  bool assuming() const { return assuming_.load(std::memory_order_relaxed); }
  std::vector<AssumedDecision> assumed() const;
  /// Drops the claim's assumption if it still has this number. False if there is no such decision any more.
  bool forgetDecision(std::string_view claimUid, uint64_t number);

  /// Returns the allocation map, or a page of it. Releases the lock between nodes: each node's state is consistent, two
  /// nodes may be of different moments. Costs the nodes of the page and, with `idle`, the nodes between them.
  AllocationMap map(const MapPage& page = {}) const;
  /// Totals over all cards. Releases the lock in between.
  ClusterTotals totals() const;
  CardAudit audit(std::string_view card) const;
  /// Reason why the card is not schedulable, or "not known"; empty if it is schedulable.
  std::string quarantineReason(std::string_view card) const;
  /// Copies the cluster, for what-if questions.
  scheduler::Cluster copy() const;

 private:
  struct CardState;
  using Cards = std::map<std::string, CardState, std::less<>>;
  struct DeviceState {
    Store<Gpu>::Ptr object;                 ///< not null while the mutex is free
    std::vector<Cards::value_type*> cards;  ///< cards that it names, each once; valid as long as the device
  };
  using Devices = std::unordered_map<std::string, DeviceState>;
  struct Held {
    TrackedAllocation take;
    const Devices::value_type* device = nullptr;  ///< device that reports the allocation; null if none
  };
  /// State of a card that the scheduler's cluster lacks. The cluster has the object's spec, and the effective amount of
  /// each allocation.
  struct CardState {
    bool present = false;              ///< the card object exists
    std::string why;                   ///< reason in the card's object why it is not schedulable; empty if none
    std::vector<Held> held;            ///< unordered; a ledger has at most 128 entries
    Held* find(std::string_view uid);  ///< null if that uid has no allocation on the card
  };

  struct Assumed {
    std::string card;
    scheduler::Amount charged;
  };

  // The arguments of a store's listener may be outdated: these read the store again.
  void refreshClaim(const Claim* before, const Claim* after);
  void refreshNode(const core::Node* before, const core::Node* after);
  void refreshCard(const Gpu* before, const Gpu* after);
  void refreshDevice(const Gpu* before, const Gpu* after);
  void refreshTaint(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after);
  void refreshQuota(const Quota* before, const Quota* after);
  /// Prefix of the uid under which a claim's decision is assumed.
  static constexpr std::string_view kAssumed = "claim/";
  static std::string assumedKey(std::string_view claimUid);
  static constexpr std::size_t kCardsAtOnce = 256;  ///< visited per critical section
  /// Unlocks for a moment so that another thread can decide. A mutex that is locked again at once is never free for the
  /// threads that wait for it.
  static void yieldLock(std::unique_lock<std::mutex>& lock);
  /// True if the device should have its entries on its cards.
  static bool committed(const Gpu& device);
  // With mutex_ held.
  /// Updates one source of an allocation. `device`: the reporting device if the source is a device.
  void updateAllocation(Cards::value_type& card, const std::string& uid, AllocationSource source,
                        const std::optional<scheduler::Amount>& amount, const Devices::value_type* device = nullptr);
  /// Updates the quotas' usage by this allocation.
  void count(const Cards::value_type& card, const Held& held);
  std::optional<scheduler::QuotaClaim> ownerOf(const Cards::value_type& card, const Held& held) const;
  /// Counts all existing allocations after a namespace got its first quota. Visits all cards, once.
  void accountExistingHoldings();
  /// Quota identity of the claim; nullopt if its namespace has no quotas. Calls accountExistingHoldings() first.
  std::optional<scheduler::QuotaClaim> quotaClaimFor(const SchedulingRequest& ask);
  /// Amounts that quotas count if the claim takes this device; nullopt if no quota counts them.
  std::optional<scheduler::QuotaAsked> askedWith(const SchedulingRequest& ask, const Gpu& device);
  std::optional<scheduler::QuotaExcess> excessOf(const SchedulingRequest& ask, const scheduler::QuotaAsked& asked);
  scheduler::Together decideFor(const std::vector<SchedulingRequest>& asks,
                                const std::vector<scheduler::Request>& requests, const scheduler::NodePredicate& suits,
                                const scheduler::Pause& pause);
  /// Nomination of a claim; see kept_room.cpp.
  struct Nominated {
    scheduler::PendingRequest owner;
    v1alpha::Nomination room;
    std::string className{};  ///< class of the claim; empty if not known
  };
  struct NodeReservation {
    scheduler::PendingRequest owner;
    std::string node;
    int64_t lookedAt = 0;  ///< last search; as Turn::now
    int64_t askedAt = 0;   ///< last renewal: a decision for it was tried and did not fit
    int moves = 0;         ///< as scheduler::Kept
    bool ofGang = false;
    int64_t used = 0;  ///< seconds charged to the claim's namespace
  };
  /// Card and uid of each temporary allocation in the cluster.
  using NominatedCapacityHold = std::vector<std::pair<std::string, std::string>>;
  /// Prefix of the uid under which a claim's nominated capacity is allocated temporarily.
  static constexpr std::string_view kNominated = "nominated/";
  static std::string nominatedKey(std::string_view claimUid);
  void refreshNomination(const Claim& claim, bool gone);
  /// Creation time for queue order: that of the oldest claim of the same gang, PodGroup or pods.
  int64_t sinceOf(const Claim& claim) const;
  static scheduler::PendingRequest waiterOf(const SchedulingRequest& ask);
  bool isPlaced(const std::string& claimUid) const;
  bool anyIsPlaced(const std::vector<SchedulingRequest>& asks) const;
  /// True if the node has more free cards than a reservation may withhold (Keeping::freeCardPercent). The reservation
  /// then blocks no request.
  bool withholdsTooMuch(const NodeReservation& kept) const;
  bool reservationBlocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                         const NodeReservation& kept) const;
  bool roomIsKeptFrom(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                      const Nominated& nominated) const;
  /// Snapshot for searches without the lock.
  struct ProjectedSnapshot {
    std::shared_ptr<const scheduler::Cluster> cluster;
    std::vector<std::string> closed;  ///< nodes whose reservation blocks the requests
    scheduler::QuotaBook book{};      ///< quotas of the requests' namespace
    /// Returns `suits` without the closed nodes. Refers to this object.
    scheduler::NodePredicate open(const scheduler::NodePredicate& suits) const;
  };
  /// Snapshot after the nominations that come before the requests are carried out. Unlocks `lock`.
  ProjectedSnapshot projectedSnapshot(const std::vector<SchedulingRequest>& asks, std::unique_lock<std::mutex>& lock);
  /// Copies the nodes of these nominations to `tried` and releases their victims' allocations there. `victims`: the
  /// victims' uids by name. False if the requests need no capacity any more, or do not all fit even then.
  bool releaseAll(const std::vector<SchedulingRequest>& asks, const std::vector<v1alpha::Nomination>& rooms,
                  scheduler::NominatedRooms& tried, std::unordered_map<std::string, std::string>& victims);
  /// Uids of those devices that are known.
  std::vector<std::string> uidsOf(const std::vector<std::string>& devices) const;
  /// Gang members for the requests, each with its quota identity. Ignores nominations and reservations.
  std::vector<scheduler::GangMember> membersOf(const std::vector<SchedulingRequest>& asks,
                                               const std::vector<GangMemberConstraints>& places);
  /// Returns `members`, each pinned to its nominated node; empty if one has no nomination or is pinned elsewhere.
  std::vector<scheduler::GangMember> inTheirRoom(const std::vector<SchedulingRequest>& asks,
                                                 std::vector<scheduler::GangMember> members) const;
  /// Quota that is nominated to, or reserved for, claims that come before the requests, which are of one namespace.
  /// carriedOut: the victims are gone already.
  std::vector<scheduler::QuotaHold> quotaHolds(const std::vector<SchedulingRequest>& asks, bool carriedOut) const;
  /// Quotas of the requests' namespace after those nominations are carried out.
  scheduler::QuotaBook quotasThen(const std::vector<SchedulingRequest>& asks);
  /// Implements waitForQuota() with mutex_ held.
  void reserveQuota(const std::vector<SchedulingRequest>& asks, const scheduler::QuotaExcess& excess);
  /// Releases the claim's quota reservation: it does not wait for quota any more.
  void reserveNoQuota(std::string_view claimUid);
  /// Sorted names of nodes whose free capacity is nominated to other claims in full, so that none of the requests fits
  /// there.
  std::vector<std::string> filledNodes(const std::vector<SchedulingRequest>& asks) const;
  /// Allocates the nominated capacity and quota that the requests must leave free, until releaseNominatedCapacity(). Skips the nodes in
  /// `filled`, which are closed to the requests anyway.
  NominatedCapacityHold reserveNominatedCapacity(const std::vector<SchedulingRequest>& asks,
                                                 const std::vector<std::string>& filled = {});
  void releaseNominatedCapacity(const NominatedCapacityHold& taken);
  /// Returns `suits` without nodes whose reservation blocks the requests. `asks`, `suits` and `open` must outlive the
  /// result.
  const scheduler::NodePredicate& openNodes(const std::vector<SchedulingRequest>& asks,
                                            const scheduler::NodePredicate& suits,
                                            scheduler::NodePredicate& open) const;
  const scheduler::NodePredicate& openNodes(const std::vector<SchedulingRequest>& asks,
                                            scheduler::NodePredicate&& suits,
                                            scheduler::NodePredicate& open) const = delete;
  /// Clears the verdicts of nodes whose reservation blocks the requests.
  void filterReservedNodes(const std::vector<SchedulingRequest>& asks, std::span<const std::string_view> nodes,
                           std::vector<scheduler::NodeVerdict>& verdicts) const;
  /// shared: a request that fits no node is cached as unschedulable for all equal requests.
  scheduler::Decision decideOne(const SchedulingRequest& ask, RecordingPredicate& nodes, bool shared,
                                PredicateTrace& told);
  /// Tries the claim's own nominated node first.
  scheduler::Decision decideHere(const SchedulingRequest& ask, const scheduler::NodePredicate& suits);
  /// Applies the result of reserveNodeFor()'s search, which ran without the lock: reserves `node`, or releases the
  /// reservation if `node` is empty.
  void keepOne(const SchedulingRequest& ask, const std::vector<SchedulingRequest>& asks, std::string node);
  /// Implements reserveNodeFor() for a gang and its nodes. Call without mutex_ held; the search runs without it.
  void keepForGang(const std::vector<SchedulingRequest>& asks, const std::vector<GangMemberConstraints>& places,
                   const std::vector<scheduler::TopologyGroup>* within);
  bool waitsForLong(const std::vector<SchedulingRequest>& asks) const;
  /// True if all claims still exist. A reservation for a deleted claim would never be released.
  bool allStand(const std::vector<SchedulingRequest>& asks) const;
  /// True if a search for nodes to reserve may start now.
  bool shouldSearchForNode(const std::vector<SchedulingRequest>& asks);
  void recordSearch(const SchedulingRequest& ask, bool found);
  /// One node per `share` nodes that have cards; at least one, at most `atMost`.
  std::size_t mostNodes(std::size_t atMost, std::size_t share) const;
  /// True if one more node may be reserved. At the limit, `insteadOf` becomes the claim (uid) that is last in queue
  /// order; true if `waiter` comes before it.
  bool isUnderReservationLimit(const scheduler::PendingRequest& waiter, std::string& insteadOf) const;
  /// Renews the claims' reservations, and charges the time since the last renewal.
  void renewReservations(const std::vector<SchedulingRequest>& asks);
  /// True if nodes were reserved for gangs of the namespace for too long.
  bool gangBudgetExhausted(const std::string& namespace_, int64_t now);
  /// Ends the claims' reservations if they, or their namespace, had reservations for too long. Returns true if so: none
  /// may begin.
  bool endInTime(const std::vector<SchedulingRequest>& asks);
  /// Releases the claims' reservations and records why no node is reserved for them.
  void noteUnreserved(const std::vector<SchedulingRequest>& asks, const std::string& why);
  struct NodeSearch {
    const scheduler::Cluster& cluster;
    const std::vector<SchedulingRequest>& asks;
    scheduler::NodePredicate suits;      ///< null = any node
    scheduler::NodePredicate otherwise;  ///< tried if no node suits; null = none
    scheduler::KeptBefore before;
  };
  /// Call without mutex_ held. Returns the node to reserve; empty if there is none. why: set to a message if a limit
  /// excludes all nodes.
  std::string nodeToKeep(const NodeSearch& search, std::string* why) const;
  std::string nodeToKeep(const NodeSearch& search, bool isLimited, const scheduler::HolderLasts& lasts) const;
  /// Time since which the device exists; `now` if it is not known. Call without mutex_ held.
  int64_t heldSince(std::string_view device, int64_t now) const;
  /// True if the holder of the device shows no sign of ending (holder_signs.h). atMost: age in seconds after which a
  /// holder without any sign is taken to stay. Call without mutex_ held.
  bool holderLasts(std::string_view device, int64_t now, int64_t atMost) const;
  scheduler::KeptBefore keptFor(const std::vector<SchedulingRequest>& asks) const;
  /// True if nodes are reserved for a gang that comes before these requests.
  bool anotherGangKeeps(const std::vector<SchedulingRequest>& asks) const;
  void replaceReservations(const std::vector<SchedulingRequest>& asks,
                           const std::vector<scheduler::KeptForMember>& kept);
  /// Releases the claim's node reservation: it does not wait for capacity any more. isServed: it has capacity.
  void dropReservation(std::string_view claimUid, bool isServed = false);
  using KeptNodes = std::map<std::string, NodeReservation, std::less<>>;
  /// Removes the reservation. If it was served, its time is not charged to the other claims of the namespace.
  KeptNodes::iterator endReservation(KeptNodes::iterator kept, bool isServed);
  void addDevice(Devices::value_type& entry);
  /// Charges the device on each of its cards: the larger of the amounts that it has and is to have.
  void chargeDevice(Devices::value_type& entry);
  void dropResize(std::string_view deviceUid);
  void removeDevice(Devices::iterator known);
  void updateSchedulability(const Cards::value_type& card);
  std::string unschedulableReason(const Cards::value_type& card) const;
  /// Map entry of the card, without the fields that come from device objects.
  MapCard mapCard(const Cards::value_type& card) const;
  /// Sorted names of the nodes from the start of the page on; the empty name stands for cards without a node.
  std::vector<std::string> nodesOf(const MapPage& page) const;
  /// Call with mutex_ held. Nullopt if the node is gone.
  std::optional<MapNode> mapNode(const std::string& name) const;
  /// Adds the fields that come from the objects of cards and devices. Call without the lock.
  void describe(MapCard& card) const;
  void describe(MapAllocation& take) const;
  /// Replaces the claim's assumption by the device. Capacity that only the assumption held becomes free.
  void confirmAssumed(const Gpu& device);
  void assume(const SchedulingRequest& ask, const scheduler::Decision& decision);
  /// Reports decisions to the listener. Call before they are assumed.
  void tell(std::span<const SchedulingRequest> asks, const std::vector<scheduler::Decision>& decisions,
            PredicateTrace nodes, bool meanwhile);
  /// Drops the claim's assumption and returns its allocations. May set capacityFreed_.
  std::vector<Assumed> drop(std::string_view claimUid);
  /// drop() before the claim is decided again: leaves capacityFreed_ as it is, because a retry frees nothing (freedBy()).
  std::vector<Assumed> forgetForRetry(std::string_view claimUid);
  /// True if a retracted allocation is not assumed again, so that pending claims must be requeued.
  bool freedBy(std::string_view claimUid, const std::vector<Assumed>& retracted) const;
  /// Removes the devices' allocations from the scheduler's cluster, or restores them.
  void excludeDevices(const std::vector<std::string>& devices, bool excluded);
  /// Visits each card whose object exists. Holds the lock during a visit, and releases it between some of them.
  void eachCard(const std::function<void(const Cards::value_type&)>& visit) const;
  void forgetIfEmpty(Cards::value_type& card);
  /// Takes and clears capacityFreed_ and the quotas' changes, and calls the listeners without the lock.
  void announce();

  Stores& stores_;
  mutable std::mutex explaining_;          ///< locked before mutex_
  mutable ExplanationCache explanations_;  ///< protected by explaining_
  std::function<void()> onCapacityFreed_;
  std::function<void(const std::string&, bool)> counted_;
  std::function<void(bool, double)> decided_;

  HolderAges ages_;

  // Protected by mutex_.
  mutable std::mutex mutex_;
  ObservedCluster cluster_;
  scheduler::QuotaBook book_;
  Cards cards_;
  Devices devices_;  ///< by name
  struct Assumption {
    std::string claim, className;
    uint64_t number = 0;
    std::vector<Assumed> cards;
    std::optional<scheduler::Decision> inGang{};  ///< decision of a gang that the claim's own step has yet to write
  };
  /// By claim uid; few, since each ends when its device appears.
  std::unordered_map<std::string, Assumption> assumptions_;
  /// By device uid: its cards with assumed resizes.
  std::unordered_map<std::string, std::vector<std::string>> resizes_;
  std::atomic<std::size_t> resizesDecided_{0};  ///< written with mutex_ held
  DemandStatistics demand_;
  std::map<std::string, Nominated, std::less<>> nominated_;  ///< by claim uid
  KeptNodes reservations_;                                   ///< by claim uid
  ReservationBudget gangTurns_;                              ///< by namespace
  ReservationBudget claimTurns_;                             ///< by claim uid
  ReservationBudget namespaceTurns_;                         ///< for reservations of claims, by namespace
  /// Why no node is reserved, by claim uid. Pending claims only.
  std::map<std::string, std::string, std::less<>> unreserved_;
  QuotaReservations quotaReservations_;
  std::atomic<bool> keepsNodes_{false};  ///< written with mutex_ held
  std::atomic<bool> looking_{false};     ///< a search for a node runs without mutex_
  scheduler::Keeping keeping_;
  SnapshotCache snapshots_;
  int64_t lastSearch_ = 0;  ///< last search for a node to reserve; as Turn::now
  std::map<std::string, int64_t, std::less<>>
      failedSearches_;  ///< time of recent searches that found none, by claim uid
  uint64_t lastNumber_ = 0;
  bool capacityFreed_ = false;  ///< since the listener of onCapacity() was called: freed, or a card became schedulable
  UnschedulableCache unschedulable_;
  std::atomic<bool> assuming_{false};  ///< written with mutex_ held
};

}  // namespace egpu::cache
