// Decide and assume: the one serialised section around the scheduler's picture of the cluster.
//
// a card's allocations are the union of three sources, each under the device's uid (or, before the device exists,
// "claim/<claim uid>"):
//   ledger entry seen on the card  ∪  device that names the card  ∪  decision made but not yet written
// so that a decision counts from the moment it is made until the last trace of its device is gone, whichever watch is
// late.
//
// A card is offered unless: it is unhealthy, Failed or being deleted; a DeviceTaintRule keeps claims off it; a device that names it is on another node (its
// uuid turned up elsewhere: wait until the entries are gone); or a committed device that names it lacks its entry (it
// reappeared: first the entries).
//
// Quotas are judged in the same section and count the same allocations, each for the claim that a device names, a
// decision was made for, or, where neither is known, the ledger's entry names. A device that names no claim is nobody's.
// Room that is kept (status.nominated of a claim that preempts; a node for one that has waited for long, scheduler/waiting.h) is
// taken in the picture while others decide who come later in the order of scheduler::comesBefore(): as much of it as is free,
// and more as its holders go. Quota that is nominated to a claim, or reserved for it (quota/quota_reservations.h), is counted
// likewise. The owner, and claims that come before it, decide as if it were not there. What is nominated stands in
// the claims' statuses; the nodes are found anew by the next leader.
//
// Two leaders that overlap may each decide up to a quota until the lease is settled, and so exceed it together; never a
// card's ledger, which the API server guards.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "controller/cache/cluster_listener.h"
#include "controller/cache/explanations.h"
#include "controller/cache/quota/quota_reservations.h"
#include "controller/cache/reservations/reservation_turns.h"
#include "controller/cache/stores.h"
#include "controller/cache/told_allocation.h"
#include "controller/scheduler/choice/keep_together.h"
#include "controller/scheduler/choice/nominated_rooms.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/choice/together.h"
#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/judge.h"
#include "controller/scheduler/quota/preempt_within.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/resize.h"
#include "controller/scheduler/waiting.h"

namespace egpu::cache {

/// One device's part of a card, for the allocation map. Amounts are charged ones.
struct MapAllocation {
  std::string device;     ///< object name; empty while only decided
  std::string deviceUid;  ///< or "claim/<uid>"
  std::string claim;      ///< "namespace/name"
  std::string phase;      ///< of the device; "Pending" while only decided
  int64_t core = 0;
  int64_t memory = 0;
  std::optional<v1alpha::DeviceUsage> usage{};  ///< what runs has of it, if the card's agent says
  bool observes() const { return core == 0 && memory == 0; }
};
struct MapCard {
  std::string name, uuid, model;
  int64_t index = 0;
  int64_t core = 0, memory = 0;          ///< capacity
  int64_t usedCore = 0, usedMemory = 0;  ///< Σ allocations
  bool offered = true;
  std::string why;  ///< why it isn't offered
  std::vector<MapAllocation> allocations;
  core::Rare<v1alpha::CardUsage> usage{};  ///< as its agent says
};
struct MapNode {
  std::string name;
  bool schedulable = true;
  std::vector<MapCard> cards;
  /// A claim holds something on it. One that only observes does not.
  bool isUsed() const;
};
struct AllocationMap {
  std::vector<MapNode> nodes;  ///< by name; cards by index
  std::string next{};          ///< last node of this page if there is another page; else empty
};
/// Which nodes of the map are wanted.
struct MapPage {
  std::string node{};     ///< this one alone; empty = any
  std::string after{};    ///< those whose names are greater; empty = from the first on
  std::size_t limit = 0;  ///< so many at most; 0 = all
  bool idle = false;      ///< only those on which no claim holds anything
};

struct ClusterTotals {
  int64_t nodes = 0, cards = 0, offered = 0, quarantined = 0, allocations = 0;
  int64_t free = 0, partly = 0, full = 0;  ///< of the offered cards: no allocations; some; no core or no memory is left
  int64_t core = 0, usedCore = 0, memory = 0, usedMemory = 0;
};

/// A decision that counts although no device of its claim is known.
struct AssumedDecision {
  std::string claimUid;
  std::string claim;    ///< "namespace/name"
  uint64_t number = 0;  ///< each decision has its own
  std::vector<std::string> cards;
};

/// How a card's allocations and its ledger disagree; the auditor names the cause.
struct CardAudit {
  bool known = false;
  int64_t core = 0, memory = 0;                 ///< capacity
  int64_t ledgerCore = 0, ledgerMemory = 0;     ///< Σ entries
  int64_t usedCore = 0, usedMemory = 0;         ///< as the scheduler believes
  std::vector<std::string> entryWithoutDevice;  ///< uids in the ledger that no cached device naming the card has
  std::vector<std::string> deviceWithoutEntry;  ///< names of committed devices that the ledger lacks
};

/// Why nothing grows on that node, for people.
std::string keptNodeText(const std::string& node);

/// Thread-safe. Reads the stores (which must outlive it) inside its own lock, so late notifications can't turn it back.
class ClusterView {
 public:
  explicit ClusterView(Stores& stores);  ///< listens to the stores
  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;

  /// Whose turn it is. Times are seconds of the wall clock.
  struct Turn {
    int64_t priority = 0;
    int64_t since = 0;         ///< the claim's creation
    int64_t waitingSince = 0;  ///< since when it has been waiting, as far as it says
    int64_t now = 0;
  };
  struct Ask {
    std::string claimUid;
    std::string claim;  ///< "namespace/name"
    scheduler::Request request;
    /// Of the nodes that suit, if others are asked for the same ones: the same text for the same nodes. What fits none
    /// of them is then looked for once, until something becomes free.
    std::string nodes;
    std::string className{};  ///< of the claim, for quotas
    Turn turn{};
    bool first = true;  ///< of a claim's alternatives the first, and asked for all nodes at once: else no node is kept
  };
  /// decide() and, if it fits, the assumption of its allocations under "claim/<uid>" (an earlier one of that claim is dropped
  /// before). Within the quotas of the claim's namespace: `excess` says if they are why it doesn't fit.
  scheduler::Decision decideAndAssume(const Ask& ask, const scheduler::NodePredicate& suits = {});
  /// False: decideAndAssume() would not find room for the claim, whatever nodes suit. True: it may. Remembers requests
  /// that do not fit until room becomes free, on a card or in the quotas of their namespace.
  bool mayFit(const Ask& ask);
  /// What decideAndAssume() would decide, then without that node, and so on: at most so many decisions, each on a node of its own.
  /// Assumes nothing; an earlier assumption of that claim is dropped.
  std::vector<scheduler::Decision> candidates(const Ask& ask, const scheduler::NodePredicate& suits, std::size_t most);
  /// All asks on one node, all or none, and the assumption of what was decided. If the node that the first ask likes
  /// best can't hold them all, every node is looked at once; others decide meanwhile. Within the namespace's quotas.
  scheduler::Together decideTogether(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits);
  /// Where one member of a gang can go; as in scheduler::GangMember.
  struct GangPlace {
    scheduler::NodePredicate suits{};
    decltype(scheduler::GangMember::hasRoom) hasRoom{};
    std::optional<std::size_t> with{};
    std::optional<std::size_t> kind{};
    /// The same once the pods that use claims have left a node, for nodes to keep; null = as it is.
    scheduler::NodePredicate suitsOnceFree{};
    decltype(scheduler::GangMember::hasRoom) hasRoomOnceFree{};
  };
  /// All asks, each at its place (one per ask), all or none, and the assumption of what was decided: scheduler::decideGang(),
  /// within the namespace's quotas. If each is nominated for a node, they have these nodes first. `within`: groups of which one holds them all. Others
  /// decide between two of them, and between two members where looking for their nodes takes long. Room that is kept from every one of the asks is left alone. If they don't
  /// fit, perhaps nodes are kept for them from now on (scheduler/choice/keep_together.h).
  /// Nothing: one of them is decided for already, or has a device. Who asks looks again then, and of two who ask at once
  /// for the same gang only one decides.
  std::optional<scheduler::GangDecision> decideGang(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                                                    const std::vector<scheduler::TopologyGroup>* within = nullptr);
  /// What decideGang() decided for the claim, as long as it is assumed: the claim's own step writes it.
  std::optional<scheduler::Decision> decidedInGang(std::string_view claimUid) const;
  /// Whether decideTogether() would find a node if these devices were gone. Assumes nothing.
  bool wouldFitTogether(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits,
                        const std::vector<std::string>& withoutDevices);
  /// What scheduler::judge() says of these nodes for all asks together, one verdict per node, were these devices gone and
  /// what is kept for others taken, as when it is decided. Assumes nothing. Others decide in between where it takes long.
  std::vector<scheduler::NodeVerdict> judge(const std::vector<Ask>& asks, std::span<const std::string_view> nodes,
                                            const std::vector<std::string>& withoutDevices = {},
                                            scheduler::Judge what = scheduler::Judge::fitAndLiking);
  /// Decisions are made meanwhile: in a large cluster, the picture may change between its first node and its last. What
  /// took long may be told again for a while (explanations.h), under `suits` to who asks for the same `nodes` (as in
  /// Ask).
  scheduler::Explanation explain(const scheduler::Request& request, const scheduler::NodePredicate& suits = {},
                                 std::string_view nodes = {}, const scheduler::WhyUnsuited& whyUnsuited = {}) const;
  /// scheduler::explainGang() on a copy, as of preempt(): why decideGang() finds no room for one of the asks.
  scheduler::Explanation explainGang(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                                     const std::vector<scheduler::TopologyGroup>* within,
                                     const scheduler::WhyUnsuitedForMember& whyUnsuited);
  /// Who would have to go so that it fits: preempt() on a copy, in which what is nominated to others who come before has
  /// happened already. Others decide meanwhile, but for the time that the copy takes: it is made once for all who ask while
  /// nothing changes. Assumes nothing. enough: of the search; true ends it with what was found.
  scheduler::Preemption preempt(const Ask& ask, const scheduler::NodePredicate& suits, const scheduler::MayGo& mayGo,
                                const scheduler::StandingOf& standing, const scheduler::Enough& enough = {});
  /// Likewise so that all asks fit, each at its place, all or none: preemptTogether() on such a copy. What holds others' rooms and
  /// nodes is as for decideGang().
  scheduler::PreemptionTogether preemptTogether(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                                                const std::vector<scheduler::TopologyGroup>* within,
                                                const scheduler::MayGo& mayGo, const scheduler::StandingOf& standing,
                                                const scheduler::Enough& enough = {});
  /// How often preempt() and preemptTogether() have copied the cluster.
  uint64_t copies() const;
  /// Whether all asks would fit, each on the node that it is nominated for (one per ask) and within its quotas, if all victims of
  /// these nominations were gone, and not all if these (names of devices) stayed: one victim, or those of one gang, which leave
  /// together. False too if they fit there as it is, or one needs no room any more.
  bool needs(const std::vector<Ask>& asks, const std::vector<v1alpha::Nomination>& rooms,
             const std::vector<std::string>& group);
  /// Names of the victims that leave together with one victim, it among them.
  using VictimGroup = std::function<std::vector<std::string>(const std::string& victim)>;
  /// Names of the victims that are needed, as needs() has it, where each group that is not needed stays before the next is
  /// tried. Empty: the asks fit as it is. Nothing: they need no room, or would not fit without all of them either. Costs
  /// about as much as needs() of one group. groupOf is called without a lock.
  std::optional<std::set<std::string>> neededVictims(const std::vector<Ask>& asks,
                                                     const std::vector<v1alpha::Nomination>& rooms,
                                                     const VictimGroup& groupOf);
  /// For whom room is kept that the ask could else have, for people: claims of its own namespace by name. Empty = for nobody.
  std::string keptFrom(const Ask& ask) const;
  /// The nodes on which anything is kept that the asks, on one node together, could else have.
  std::set<std::string, std::less<>> nodesKeptFrom(const std::vector<Ask>& asks) const;
  /// The nodes on which anything is kept for anybody but the claim of that name ("namespace/name"; empty: for anybody).
  std::set<std::string, std::less<>> nodesKeptForOthers(std::string_view claim) const;
  /// For people: which node is reserved for the claim, or why none is. Empty: it has not waited for long, or no node could
  /// ever hold it.
  std::string reservationText(std::string_view claimUid) const;
  /// What is kept of nodes for those who have waited for long: by name of the claim.
  std::vector<scheduler::Kept> keptNodes() const;
  /// How long a claim waits until a node is kept for it, and how many at most. Before the first decision.
  void keeping(const scheduler::Keeping& keeping) { keeping_ = keeping; }
  /// The same request, with what quotas leave to the claim: for explain().
  scheduler::Request withinQuota(const Ask& ask);
  /// The claim is about to get this device, which stands already: assumed as by a decision, unless a quota is exceeded.
  std::optional<scheduler::QuotaExcess> reserve(const Ask& ask, const Gpu& device);
  /// The excess that reserve() would return. Assumes nothing.
  std::optional<scheduler::QuotaExcess> excessWith(const Ask& ask, const Gpu& device);
  /// What the device has if its claim asks for this of the cards that it is on, within the quotas of its namespace and beside room that
  /// is kept from it: scheduler::resizeInPlace(). In place: what it takes more counts from now on, until the device is seen with another
  /// target, or forgetResize(). An earlier decision for the device is dropped. See resizes.cpp.
  scheduler::Resizing decideResize(const Ask& ask, const Gpu& device);
  /// What decideResize() leaves to others: of each of the device's cards, and whether its node is kept. Assumes nothing.
  struct KeptFromResize {
    std::vector<scheduler::Holding> cards;
    bool node = false;
    bool operator==(const KeptFromResize&) const = default;
  };
  KeptFromResize keptFromResize(const Ask& ask, const Gpu& device) const;
  /// What was decided for it came to nothing. Costs nothing if nothing was.
  void forgetResize(const Gpu& device);
  /// Where it would fit if the device were gone. Assumes nothing.
  scheduler::Decision decideWithout(const Ask& ask, const Gpu& device, const scheduler::NodePredicate& suits);
  /// What is used of a quota: see QuotaBook. Nothing: no such quota.
  std::optional<scheduler::QuotaAmounts> quotaUsed(const core::ObjectKey& quota);
  /// Names the claims that have most of the exceeded quota and, if releases are asked for, those that would have to go;
  /// may be empty.
  std::string quotaHolders(const scheduler::QuotaExcess& excess, bool releases);
  /// The asks, of one claim or of several that are decided together, are over a quota: no node is kept for them, and perhaps
  /// the quota is reserved for them from now on. decideAndAssume() and decideGang() need not be followed by it.
  void waitForQuota(const std::vector<Ask>& asks, const scheduler::QuotaExcess& excess);
  /// Version of the namespace's quotas, if one of them refuses.
  std::optional<uint64_t> refusingQuotas(std::string_view namespace_) const;
  /// The decision came to nothing, or nothing can be decided: nothing is kept for the claim. (That its device exists is noticed by itself.)
  void forget(std::string_view claimUid);
  /// Nobody wants it just now: no node is kept for it. What was decided for it stands.
  void keepNothing(std::string_view claimUid);
  /// They found no room on any of these nodes, one claim or several of one pod: perhaps a node is kept for them from now on;
  /// where none of these can be, one of the others, unless that is null. Who decides for all nodes at once (Ask::first) need not
  /// ask for it. Others decide meanwhile, as for preempt().
  void keepNodeFor(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits,
                   const scheduler::NodePredicate& otherwise);
  /// Whether any node is kept, or was when tendKept() was last called. Costs nothing.
  bool keepsNodes() const { return keepsNodes_.load(std::memory_order_relaxed); }
  /// Who has not asked for minutes has no node any longer, whatever became of it. Returns those ("namespace/name") that
  /// should ask again if they still want theirs.
  std::vector<std::string> tendKept(int64_t now);
  /// The claim has this device, whoever decided it: it counts instead of what was assumed for the claim.
  void adopted(std::string_view claimUid, const Gpu& device);
  /// What was decided for claims "namespace/name" of other uids than this one (empty: for all of that name) is
  /// forgotten: they are gone, and if a device was written for them after all, it counts by itself.
  void forgetEarlier(std::string_view claim, std::string_view uid);

  /// Called, without the lock, after something became free or offered: waiting claims may fit now. Set before the
  /// stores fill.
  void onCapacity(std::function<void()> listener) { grown_ = std::move(listener); }
  /// Number of times that capacity was freed, counted before the listener of onCapacity() is called.
  uint64_t timesFreed() const;
  /// Called, without the lock, after something was used or given back that a quota of the namespace counts, or its
  /// quotas changed. freed: who was told of an excess may be within them now. Set before the stores fill.
  void onQuota(std::function<void(const std::string& namespace_, bool freed)> listener) {
    counted_ = std::move(listener);
  }
  /// Called, without the lock, after each decision: whether it fits and how long it took. Set before the first
  /// decision.
  void onDecision(std::function<void(bool fits, double seconds)> listener) { decided_ = std::move(listener); }

  /// Is told of everything that decisions depend on, and of the decisions. Set before the stores fill; must outlive the
  /// view.
  void listen(ClusterListener& listener) { cluster_.tell(&listener); }

  /// Whether any decision is assumed. Costs nothing.
  bool assuming() const { return assuming_.load(std::memory_order_relaxed); }
  std::vector<AssumedDecision> assumed() const;
  /// forget(), unless the claim was decided anew since. False if there is no such decision any more.
  bool forgetDecision(std::string_view claimUid, uint64_t number);

  /// The map, or a page of it. Decisions go on meanwhile: the state of each node is of one moment, that of two nodes
  /// perhaps of two. The cost is that of the nodes on the page, and with `idle` of the nodes between them.
  AllocationMap map(const MapPage& page = {}) const;
  /// Likewise.
  ClusterTotals totals() const;
  CardAudit audit(std::string_view card) const;
  /// Empty if the card is offered, else why not ("not known" included).
  std::string quarantineReason(std::string_view card) const;
  /// A copy for what-if questions.
  scheduler::Cluster copy() const;

 private:
  struct CardState;
  using Cards = std::map<std::string, CardState, std::less<>>;
  struct DeviceState {
    Store<Gpu>::Ptr object;                 ///< set while the lock is free
    std::vector<Cards::value_type*> cards;  ///< those that it names, each once; they stay while it does
  };
  using Devices = std::unordered_map<std::string, DeviceState>;
  struct Held {
    ToldAllocation take;
    const Devices::value_type* device = nullptr;  ///< set while a device says so
  };
  /// What the scheduler's picture doesn't have of a card: that knows what the object says, and the sum of each take.
  struct CardState {
    bool present = false;              ///< the card object exists
    std::string why;                   ///< not offered because the object itself says so
    std::vector<Held> held;            ///< in no order; a ledger has at most 128 entries
    Held* find(std::string_view uid);  ///< null: nobody of that uid holds any of it
  };

  struct Assumed {
    std::string card;
    scheduler::Amount charged;
  };

  // What a store's listener is told may be old news: the store is read again.
  void refreshClaim(const Claim* before, const Claim* after);
  void refreshNode(const core::Node* before, const core::Node* after);
  void refreshCard(const Gpu* before, const Gpu* after);
  void refreshDevice(const Gpu* before, const Gpu* after);
  void refreshTaint(const core::DeviceTaintRule* before, const core::DeviceTaintRule* after);
  void refreshQuota(const Quota* before, const Quota* after);
  /// Before the uid of a claim: what its decision is assumed under.
  static constexpr std::string_view kAssumed = "claim/";
  static std::string assumedKey(std::string_view claimUid);
  static constexpr std::size_t kCardsAtOnce = 256;  ///< looked at while nobody else can decide
  /// Lets others decide. A mutex that is locked again at once is had by nobody else.
  static void giveWay(std::unique_lock<std::mutex>& lock);
  /// Whether the device should have its entries on its cards.
  static bool committed(const Gpu& device);
  // With mutex_ held.
  /// `device`: the one that says so, if a device does.
  void setTake(Cards::value_type& card, const std::string& uid, AllocationSource source,
               const std::optional<scheduler::Amount>& amount, const Devices::value_type* device = nullptr);
  /// Tells the quotas what is held, and for whom.
  void count(const Cards::value_type& card, const Held& held);
  std::optional<scheduler::QuotaClaim> ownerOf(const Cards::value_type& card, const Held& held) const;
  /// Of a namespace that came to be counted, what it holds is counted: once, by a look at all cards.
  void catchUp();
  /// For a claim of a namespace with quotas; nothing for others.
  std::optional<scheduler::QuotaClaim> counted(const Ask& ask);
  /// Amounts for quotas of a claim that takes this device. Nothing: no quota counts it.
  std::optional<scheduler::QuotaAsked> askedWith(const Ask& ask, const Gpu& device);
  std::optional<scheduler::QuotaExcess> excessOf(const Ask& ask, const scheduler::QuotaAsked& asked);
  scheduler::Together decideFor(const std::vector<Ask>& asks, const std::vector<scheduler::Request>& requests,
                                const scheduler::NodePredicate& suits, const scheduler::Pause& pause);
  /// Room that others come before; see kept_room.cpp.
  struct Nominated {
    scheduler::Waiter owner;
    v1alpha::Nomination room;
    std::string className{};  ///< class of the claim; empty: not known
  };
  struct KeptNode {
    scheduler::Waiter owner;
    std::string node;
    int64_t lookedAt = 0;  ///< as Turn::now
    int64_t askedAt = 0;   ///< when a decision for it was last tried in vain
    int moves = 0;         ///< as scheduler::Kept
    bool ofGang = false;
    int64_t used = 0;  ///< seconds that were counted for the claim's namespace
  };
  /// In the picture: card, and the uid it is taken under.
  using TakenBack = std::vector<std::pair<std::string, std::string>>;
  /// What nominated room is taken under, before the uid of its claim.
  static constexpr std::string_view kNominated = "nominated/";
  static std::string nominatedKey(std::string_view claimUid);
  void refreshNomination(const Claim& claim, bool gone);
  /// Since when its turn counts: of a gang's, or one of several of a pod, as of the oldest of them.
  int64_t sinceOf(const Claim& claim) const;
  static scheduler::Waiter waiterOf(const Ask& ask);
  bool waitsNoMore(const std::string& claimUid) const;
  bool anyWaitsNoMore(const std::vector<Ask>& asks) const;
  /// The node has more free than may be withheld for a claim (Keeping::freeCardPercent): nobody is kept from it.
  bool withholdsTooMuch(const KeptNode& kept) const;
  bool nodeIsKeptFrom(const std::vector<Ask>& asks, const std::string& ownerUid, const KeptNode& kept) const;
  bool roomIsKeptFrom(const std::vector<Ask>& asks, const std::string& ownerUid, const Nominated& nominated) const;
  /// What will be, for who looks at it without the lock.
  struct Then {
    std::shared_ptr<const scheduler::Cluster> cluster;
    std::vector<std::string> closed;  ///< nodes that are kept from the asks
    scheduler::QuotaBook book{};      ///< quotas of the asks' namespace
    /// `suits` without those. Refers to this.
    scheduler::NodePredicate open(const scheduler::NodePredicate& suits) const;
  };
  /// Once what is nominated to others who come before the asks has come true. Unlocks.
  Then then(const std::vector<Ask>& asks, std::unique_lock<std::mutex>& lock);
  /// Copies the rooms of these nominations, and releases what their victims have: uids by name in `victims`. False: the
  /// asks need no room any more, or do not all fit even so.
  bool releaseAll(const std::vector<Ask>& asks, const std::vector<v1alpha::Nomination>& rooms,
                  scheduler::NominatedRooms& tried, std::unordered_map<std::string, std::string>& victims);
  /// Of the devices of these names that are known.
  std::vector<std::string> uidsOf(const std::vector<std::string>& devices) const;
  /// With each one's quotas; rooms and nodes that are kept are not looked at.
  std::vector<scheduler::GangMember> membersOf(const std::vector<Ask>& asks, const std::vector<GangPlace>& places);
  /// The same, each on the node that it is nominated for; empty: not each is, or may not go there.
  std::vector<scheduler::GangMember> inTheirRoom(const std::vector<Ask>& asks,
                                                 std::vector<scheduler::GangMember> members) const;
  /// Quota that is nominated to claims that come before the asks, of one namespace, or reserved for them. carriedOut: victims have
  /// gone.
  std::vector<scheduler::QuotaHold> quotaHolds(const std::vector<Ask>& asks, bool carriedOut) const;
  /// The quotas of the asks' namespace once those nominations have come true.
  scheduler::QuotaBook quotasThen(const std::vector<Ask>& asks);
  /// waitForQuota(), with mutex_ held.
  void reserveQuota(const std::vector<Ask>& asks, const scheduler::QuotaExcess& excess);
  /// The claim waits for quota no longer.
  void reserveNoQuota(std::string_view claimUid);
  /// Nodes on which rooms that are kept from the asks are all that is free, in order: none of the asks fits there.
  std::vector<std::string> filledNodes(const std::vector<Ask>& asks) const;
  /// filled: nodes that are closed to the asks anyway; the rooms there need not be taken.
  TakenBack holdBack(const std::vector<Ask>& asks, const std::vector<std::string>& filled = {});
  void letHave(const TakenBack& taken);
  /// `suits` without the nodes that are kept from the asks; it and `open` outlive the answer.
  const scheduler::NodePredicate& openNodes(const std::vector<Ask>& asks, const scheduler::NodePredicate& suits,
                                            scheduler::NodePredicate& open) const;
  const scheduler::NodePredicate& openNodes(const std::vector<Ask>& asks, scheduler::NodePredicate&& suits,
                                            scheduler::NodePredicate& open) const = delete;
  /// Nodes that are kept from the asks are none for them.
  void closeKept(const std::vector<Ask>& asks, std::span<const std::string_view> nodes,
                 std::vector<scheduler::NodeVerdict>& verdicts) const;
  /// shared: what is found to fit nowhere is found so for all who ask the same.
  scheduler::Decision decideOne(const Ask& ask, AskedNodes& nodes, bool shared, Suitability& told);
  /// Has the claim's own nominated node first.
  scheduler::Decision decideHere(const Ask& ask, const scheduler::NodePredicate& suits);
  /// The cluster as it is now, for who looks at it without the lock; the same one until something changes.
  std::shared_ptr<const scheduler::Cluster> picture();
  /// Since when the device is there, and its name, for nodes to keep.
  void noteAge(const Gpu& device);
  /// keepNodeFor() found that node for them, or none (empty), while others decided.
  void keepOne(const Ask& ask, const std::vector<Ask>& asks, std::string node);
  /// As keepNodeFor() of a gang: its nodes. Without mutex_ held; the look is without it.
  void keepForGang(const std::vector<Ask>& asks, const std::vector<GangPlace>& places,
                   const std::vector<scheduler::TopologyGroup>* within);
  bool waitsForLong(const std::vector<Ask>& asks) const;
  /// Whether all are there still: nothing is kept for claims that went meanwhile, as nobody would end it.
  bool allStand(const std::vector<Ask>& asks) const;
  /// Whether nodes to keep for them are looked for now.
  bool looksNow(const std::vector<Ask>& asks);
  void looked(const Ask& ask, bool found);
  /// Of so many nodes that have cards one; one at least.
  std::size_t mostNodes(std::size_t atMost, std::size_t share) const;
  /// Whether one more node may be kept; if too many are, instead of the one of that claim (by uid), which comes later.
  bool hasPlace(const scheduler::Waiter& waiter, std::string& insteadOf) const;
  /// They want what is kept for them. Counts a gang's time.
  void noteAsked(const std::vector<Ask>& asks);
  /// Whether nodes were kept for gangs of the namespace for too long.
  bool gangsRest(const std::string& namespace_, int64_t now);
  /// Ends what is reserved for the claims if they, or their namespace, had reservations for too long. True: none may begin.
  bool endInTime(const std::vector<Ask>& asks);
  /// No node is reserved for the claims, for that reason.
  void noteUnreserved(const std::vector<Ask>& asks, const std::string& why);
  struct NodeSearch {
    const scheduler::Cluster& cluster;
    const std::vector<Ask>& asks;
    scheduler::NodePredicate suits;      ///< null: any node
    scheduler::NodePredicate otherwise;  ///< tried if none suits; null: none
    scheduler::KeptBefore before;
  };
  /// Without mutex_ held. Empty: there is none. why: if some node would do but for a limit, that limit, for people.
  std::string nodeToKeep(const NodeSearch& search, std::string* why) const;
  std::string nodeToKeep(const NodeSearch& search, bool isLimited, const scheduler::HolderLasts& lasts) const;
  /// Likewise.
  int64_t heldSince(std::string_view device, int64_t now) const;
  /// Likewise. Whether the holder of the device shows no sign of ending (holder_signs.h). atMost: a holder of whose end no
  /// object tells anything is taken to stay once it has been there for so many seconds.
  bool holderLasts(std::string_view device, int64_t now, int64_t atMost) const;
  scheduler::KeptBefore keptFor(const std::vector<Ask>& asks) const;
  /// Whether nodes are kept for a gang that comes before these.
  bool anotherGangKeeps(const std::vector<Ask>& asks) const;
  void keepInstead(const std::vector<Ask>& asks, const std::vector<scheduler::KeptForMember>& kept);
  /// It waits for room no longer. isServed: it has room.
  void keepNoNode(std::string_view claimUid, bool isServed = false);
  using KeptNodes = std::map<std::string, KeptNode, std::less<>>;
  /// A reservation that served its purpose takes no time from other claims of the namespace.
  KeptNodes::iterator endReservation(KeptNodes::iterator kept, bool isServed);
  void addDevice(Devices::value_type& entry);
  /// What it is charged on each of its cards: what it has, or is to have.
  void chargeDevice(Devices::value_type& entry);
  void dropResize(std::string_view deviceUid);
  void removeDevice(Devices::iterator known);
  void offer(const Cards::value_type& card);
  std::string reasonAgainst(const Cards::value_type& card) const;
  /// What the device's object says of its allocations is missing.
  MapCard mapCard(const Cards::value_type& card) const;
  /// Names of nodes from the beginning of the page on, in order; empty for cards that do not say on which node they
  /// are.
  std::vector<std::string> nodesOf(const MapPage& page) const;
  /// With mutex_ held. Nothing: it is gone.
  std::optional<MapNode> mapNode(const std::string& name) const;
  /// Fills in what the objects of card and devices say. Without the lock.
  void describe(MapCard& card) const;
  void describe(MapAllocation& take) const;
  /// The device takes the assumption's place. What the decision had elsewhere becomes free.
  void settle(const Gpu& device);
  /// Lets the cluster learn from a request, once however often it is tried in vain.
  void learn(const Ask& ask);
  void assume(const Ask& ask, const scheduler::Decision& decision);
  /// Tells what was decided, before it is assumed.
  void tell(std::span<const Ask> asks, const std::vector<scheduler::Decision>& decisions, Suitability nodes,
            bool meanwhile);
  /// Returns what was assumed. Touches growth_.
  std::vector<Assumed> drop(std::string_view claimUid);
  /// drop() before deciding anew: what is tried frees nothing. See freedBy().
  std::vector<Assumed> retract(std::string_view claimUid);
  /// Whether something was retracted that is not assumed again; then who waits must be told.
  bool freedBy(std::string_view claimUid, const std::vector<Assumed>& retracted) const;
  /// Takes the devices' allocations out of the scheduler's picture, or puts them back.
  void setAside(const std::vector<std::string>& devices, bool aside);
  /// Visits each card that is there, others deciding in between. The lock is held during a visit.
  void eachCard(const std::function<void(const Cards::value_type&)>& visit) const;
  void forgetIfEmpty(Cards::value_type& card);
  /// Clears growth_.pending, takes the changes of quotas, and calls the listeners without the lock.
  void announce();

  Stores& stores_;
  mutable std::mutex explaining_;      ///< taken before mutex_
  mutable Explanations explanations_;  ///< protected by explaining_
  std::function<void()> grown_;
  std::function<void(const std::string&, bool)> counted_;
  std::function<void(bool, double)> decided_;

  mutable std::shared_mutex ages_;  ///< taken after mutex_, or without
  struct Since {
    int64_t created = 0;  ///< seconds of the wall clock
    std::string device;   ///< name
  };
  std::map<std::string, Since, std::less<>> heldSince_;  ///< by uid of a device that is known; protected by ages_

  // Protected by mutex_.
  mutable std::mutex mutex_;
  ToldCluster cluster_;
  scheduler::QuotaBook book_;
  Cards cards_;
  Devices devices_;  ///< by name
  struct Assumption {
    std::string claim, className;
    uint64_t number = 0;
    std::vector<Assumed> cards;
    std::optional<scheduler::Decision> inGang{};  ///< what it was, if it waits to be written by the claim's own step
  };
  std::unordered_map<std::string, Assumption> assumptions_;  ///< by claim uid; few: they end with the device's coming
  std::unordered_map<std::string, std::vector<std::string>> resizes_;  ///< decided: by device uid, its cards
  std::atomic<std::size_t> resizesDecided_{0};                         ///< written with mutex_ held
  /// Claims that were learned from and wait. More than kMostLearned are forgotten, to be counted once more.
  std::unordered_set<std::string> learned_;
  static constexpr std::size_t kMostLearned = 65'536;
  std::map<std::string, Nominated, std::less<>> nominated_;  ///< by claim uid
  KeptNodes keptNodes_;                                      ///< by claim uid
  ReservationTurns gangTurns_;                               ///< by namespace
  ReservationTurns claimTurns_;                              ///< by claim uid
  ReservationTurns namespaceTurns_;                          ///< of reservations for claims, by namespace
  /// By claim uid: why no node is reserved for it. Of claims that wait.
  std::map<std::string, std::string, std::less<>> unreserved_;
  QuotaReservations quotaReservations_;
  std::atomic<bool> keepsNodes_{false};  ///< written with mutex_ held
  std::atomic<bool> looking_{false};     ///< for a node to keep, without mutex_
  scheduler::Keeping keeping_;
  struct Picture {
    std::shared_ptr<const scheduler::Cluster> cluster;  ///< null: none was needed since the last change
    uint64_t changes = 0;                               ///< of the cluster, when it was made
    uint64_t copies = 0;
  };
  Picture picture_;
  int64_t keptLast_ = 0;                                ///< when a node was last looked for, as Turn::now
  std::map<std::string, int64_t, std::less<>> inVain_;  ///< when it was, for a claim (by uid) that found none: of late
  uint64_t lastNumber_ = 0;
  /// Capacity that was freed, or a card that became schedulable.
  struct Growth {
    bool pending = false;  ///< the listener of onCapacity() has not been called for it yet
    uint64_t times = 0;    ///< since the start
    void note(bool grew = true) {
      pending = pending || grew;
      times += grew;
    }
  };
  Growth growth_;
  static constexpr std::size_t kMostHopeless = 64;
  struct Hopeless {
    scheduler::Request request;
    std::string nodes;
    Suitability told;  ///< what is told of it
  };
  /// What fits none of the nodes that it may have, since something last became free.
  std::deque<Hopeless> hopeless_;
  std::deque<scheduler::Request> unfit_;  ///< likewise, of any nodes
  struct Unfit {
    scheduler::QuotaClaim claim;  ///< namespace and class count
    scheduler::Request request;
  };
  std::deque<Unfit> unfitWithin_;      ///< likewise, of namespaces with quotas
  std::atomic<bool> assuming_{false};  ///< written with mutex_ held
};

}  // namespace egpu::cache
