// Node reservations of ClusterView for claims and gangs that have been pending for long.
#include <algorithm>
#include <limits>
#include <utility>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/timestamp.h"
#include "controller/cache/holder_signs.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::cache {
namespace {

constexpr int64_t kSearchInterval = 1;  ///< seconds between two searches for a node to reserve: each scans the cluster
constexpr int64_t kRecheckInterval = 15;  ///< seconds between two searches for a claim that has a reservation
constexpr int64_t kReservationSearchBackoff =
    300;  ///< seconds after a failed search of a claim, so that other claims have theirs
constexpr int64_t kReservationRenewAfter = 120;  ///< seconds after which the owner is asked to renew its reservation
/// Seconds after which a reservation that was not renewed ends; longer than any backoff of a pending claim.
constexpr int64_t kReservationTtl = 600;
constexpr int64_t kMaxReservationTime = ReservationBudget::kMaxReservationTime;
constexpr int64_t kHowLongEver = std::numeric_limits<int64_t>::max();

/// True if `atLeast` seconds have passed since `since`. If the clock was set back, the time starts again.
bool passed(int64_t now, int64_t& since, int64_t atLeast) {
  since = std::min(since, now);
  return now - since >= atLeast;
}

/// Like std::erase_if(), but the predicate may change the values.
template <class Value, class Ends>
void eraseExpired(std::map<std::string, Value, std::less<>>& all, const Ends& ends) {
  for (auto it = all.begin(); it != all.end();) it = ends(it->second) ? all.erase(it) : std::next(it);
}

/// Sets the flag while a search runs, so that only one runs at a time.
class Looking {
 public:
  explicit Looking(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Looking() { flag_ = false; }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// The members with their conditions once nodes are free; empty if these conditions do not differ.
std::vector<scheduler::GangMember> onceFree(std::vector<scheduler::GangMember> members,
                                            const std::vector<ClusterView::GangMemberConstraints>& places) {
  bool any = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!places[i].suitsOnceFree) continue;
    members[i].suits = places[i].suitsOnceFree;
    members[i].hasRoom = places[i].hasRoomOnceFree;
    any = true;
  }
  return any ? members : std::vector<scheduler::GangMember>();
}

std::string namespaceOf(const std::string& claim) { return claim.substr(0, claim.find('/')); }

std::string timeText(int64_t seconds) { return base::rfc3339(base::Clock::Wall(std::chrono::seconds(seconds))); }

std::string hoursText(int64_t seconds) { return std::to_string(seconds / 3600) + " hours"; }

/// True if Keeping::freeCardPercent applies: it does in clusters of fewer nodes with cards than Keeping::share.
bool isSmall(const scheduler::Cluster& cluster, const scheduler::Keeping& keeping) {
  return cluster.gpuNodeCount() < keeping.share && keeping.freeCardPercent < 100;
}

}  // namespace

bool ClusterView::waitsForLong(const std::vector<SchedulingRequest>& asks) const {
  return std::all_of(asks.begin(), asks.end(), [this](const SchedulingRequest& ask) {
    return ask.first && !ask.request.adminAccess && ask.turn.now - ask.turn.waitingSince >= keeping_.after;
  });
}

std::size_t ClusterView::mostNodes(std::size_t atMost, std::size_t share) const {
  return std::min(atMost, std::max<std::size_t>(1, cluster_.gpuNodeCount() / std::max<std::size_t>(1, share)));
}

bool ClusterView::isUnderReservationLimit(const scheduler::PendingRequest& waiter, std::string& insteadOf) const {
  std::vector<decltype(reservations_)::const_iterator> others;
  for (auto it = reservations_.begin(); it != reservations_.end(); ++it)
    if (!it->second.ofGang) others.push_back(it);
  if (others.size() < mostNodes(keeping_.most, keeping_.share)) return true;
  const auto last = *std::max_element(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return scheduler::queueLess(a->second.owner, b->second.owner);
  });
  insteadOf = last->first;
  return scheduler::queueLess(waiter, last->second.owner);
}

int64_t ClusterView::heldSince(std::string_view device, int64_t now) const {
  if (device.starts_with(kNominated)) return 0;  // nominated capacity is expected to stay allocated for long
  return ages_.createdAt(device).value_or(now);
}

bool ClusterView::holderLasts(std::string_view device, int64_t now, int64_t atMost) const {
  const auto since = ages_.find(device);
  if (!since) return false;
  const auto object = stores_.devices.get({"", since->device});
  if (!object || object->metadata.uid != device) return false;
  const auto sign = signOf(stores_, *object);
  return sign == HolderSign::stays || (sign == HolderSign::unknown && now - since->created > atMost);
}

std::string ClusterView::nodeToKeep(const NodeSearch& search, bool isLimited,
                                    const scheduler::HolderLasts& lasts) const {
  const auto& cluster = search.cluster;
  const auto& asks = search.asks;
  const auto now = asks.front().turn.now;
  const scheduler::HeldSince since = [this, now](std::string_view device) { return heldSince(device, now); };
  const auto all = isLimited ? scheduler::freeCards(cluster) : 0;
  int64_t wanted = 0;
  for (const auto& ask : asks) wanted += ask.request.adminAccess ? 0 : ask.request.cards;
  const auto tryOn = [&](const scheduler::NodePredicate& open) {
    const scheduler::NodePredicate within = [&](std::string_view node) {
      const auto free = scheduler::freeCardsOn(cluster, node);
      // More cards become free and are withheld until the claim is served.
      const auto more = std::max<int64_t>(0, wanted - free);
      return (free + more) * 100 <= keeping_.freeCardPercent * (all + more) && (!open || open(node));
    };
    std::vector<scheduler::GangMember> members;
    for (const auto& ask : asks) {
      members.push_back({ask.request, isLimited ? within : open});
      if (members.size() > 1) members.back().with = 0;
    }
    const auto kept = scheduler::planReservations(cluster, members, nullptr, {}, now, since, search.before, 1, lasts);
    return kept.empty() ? std::string() : kept.front().node;
  };
  auto node = tryOn(search.suits);
  return node.empty() && search.otherwise ? tryOn(search.otherwise) : node;
}

std::string ClusterView::nodeToKeep(const NodeSearch& search, std::string* why) const {
  const auto now = search.asks.front().turn.now;
  const scheduler::HolderLasts lasts = [this, now](std::string_view device) {
    return holderLasts(device, now, kMaxReservationTime);
  };
  const bool isLimited = isSmall(search.cluster, keeping_);
  auto node = nodeToKeep(search, isLimited, lasts);
  if (!node.empty()) return node;
  if (isLimited && !nodeToKeep(search, false, lasts).empty())
    *why = "no node is reserved for it: that could withhold more than " + std::to_string(keeping_.freeCardPercent) +
           " % of the free cards of this small cluster (flag --reserved-free-cards of the controller)";
  else if (!nodeToKeep(search, false, {}).empty())
    *why =
        "no node is reserved for it: each node that could hold it is used by claims that are not expected to end: of "
        "pods that a ReplicaSet, StatefulSet or DaemonSet replaces, or older than " +
        hoursText(kMaxReservationTime) + " and without a pod of a Job or another controller";
  return node;
}

bool ClusterView::withholdsTooMuch(const NodeReservation& kept) const {
  if (kept.ofGang || !isSmall(cluster_, keeping_)) return false;
  return scheduler::freeCardsOn(cluster_, kept.node) * 100 > keeping_.freeCardPercent * scheduler::freeCards(cluster_);
}

bool ClusterView::endInTime(const std::vector<SchedulingRequest>& asks) {
  const auto now = asks.front().turn.now;
  std::optional<int64_t> until = namespaceTurns_.pausedUntil(namespaceOf(asks.front().claim), now);
  std::string of = "claims of its namespace";
  for (const auto& ask : asks)
    if (const auto rests = claimTurns_.pausedUntil(ask.claimUid, now); rests && rests >= until) {
      until = rests;
      of = "it";
    }
  if (!until) return false;
  noteUnreserved(asks, "no node is reserved for it before " + timeText(*until) + ": nodes were reserved for " + of +
                           " for " + hoursText(kMaxReservationTime) + " without success");
  return true;
}

void ClusterView::noteUnreserved(const std::vector<SchedulingRequest>& asks, const std::string& why) {
  for (const auto& ask : asks) {
    dropReservation(ask.claimUid);
    unreserved_[ask.claimUid] = why;
  }
}

std::string ClusterView::reservationText(std::string_view claimUid) const {
  const std::lock_guard lock(mutex_);
  if (const auto kept = reservations_.find(claimUid); kept != reservations_.end())
    return "node " + kept->second.node + " is reserved for " + (kept->second.ofGang ? "its gang" : "it") + ", for " +
           hoursText(kMaxReservationTime) + " at most";
  const auto known = unreserved_.find(claimUid);
  return known == unreserved_.end() ? std::string() : known->second;
}

bool ClusterView::shouldSearchForNode(const std::vector<SchedulingRequest>& asks) {
  const auto& ask = asks.front();
  const auto now = ask.turn.now;
  if (looking_ || !waitsForLong(asks) || !allStand(asks)) return false;
  for (const auto& each : asks)
    if (const auto own = reservations_.find(each.claimUid); own != reservations_.end())
      return passed(now, own->second.lookedAt, kRecheckInterval);
  eraseExpired(failedSearches_, [now](auto& since) { return passed(now, since, kReservationSearchBackoff); });
  return passed(now, lastSearch_, kSearchInterval) && !failedSearches_.contains(ask.claimUid);
}

void ClusterView::renewReservations(const std::vector<SchedulingRequest>& asks) {
  const auto now = asks.front().turn.now;
  const auto namespace_ = namespaceOf(asks.front().claim);
  int64_t since = now;  // last renewal of the gang
  for (const auto& ask : asks) quotaReservations_.renew(ask.claimUid, now);
  for (const auto& ask : asks) {
    const auto own = reservations_.find(ask.claimUid);
    if (own == reservations_.end()) continue;
    auto& kept = own->second;
    if (kept.ofGang) {
      since = std::min(since, kept.askedAt);
    } else if (kept.askedAt < now) {
      claimTurns_.use(ask.claimUid, kept.askedAt, now);
      namespaceTurns_.use(namespace_, kept.askedAt, now);
      kept.used += now - kept.askedAt;
    }
    kept.askedAt = now;
  }
  if (since < now) gangTurns_.use(namespace_, since, now);
}

bool ClusterView::gangBudgetExhausted(const std::string& namespace_, int64_t now) {
  return gangTurns_.pausedUntil(namespace_, now).has_value();
}

std::vector<std::string> ClusterView::expireReservations(int64_t now) {
  std::vector<std::string> quiet;
  {
    const std::lock_guard lock(mutex_);
    const auto before = reservations_.size();
    for (auto it = reservations_.begin(); it != reservations_.end();)
      it = passed(now, it->second.askedAt, kReservationTtl) ? endReservation(it, isPlaced(it->first)) : std::next(it);
    capacityFreed_ = reservations_.size() != before || capacityFreed_;
    for (auto& [uid, kept] : reservations_)
      if (passed(now, kept.askedAt, kReservationRenewAfter)) quiet.push_back(kept.owner.name);
    for (const auto& space : quotaReservations_.expire(now)) book_.noteFreed(space);
    for (auto& owner : quotaReservations_.ownersToAsk(now)) quiet.push_back(std::move(owner));
    keepsNodes_ = !reservations_.empty() || !quotaReservations_.empty();
  }
  announce();
  return quiet;
}

void ClusterView::recordSearch(const SchedulingRequest& ask, bool found) {
  lastSearch_ = ask.turn.now;
  if (!found) failedSearches_[ask.claimUid] = ask.turn.now;
}

void ClusterView::reserveNodeFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                                 const scheduler::NodePredicate& otherwise) {
  std::unique_lock lock(mutex_);
  if (asks.empty() || anyIsPlaced(asks)) return;
  renewReservations(asks);
  const bool mayHave = !keptFor(asks).nodes.empty() || waitsForLong(asks);
  if (mayHave && allStand(asks) && endInTime(asks)) {
    lock.unlock();
    return announce();
  }
  if (!shouldSearchForNode(asks)) return;
  for (const auto& each : asks)  // a former gang member gets one node like any claim
    if (const auto own = reservations_.find(each.claimUid); own != reservations_.end() && own->second.ofGang)
      dropReservation(each.claimUid);
  const auto known = std::find_if(asks.begin(), asks.end(), [this](const SchedulingRequest& each) {
    return reservations_.contains(each.claimUid);
  });
  const auto& ask = known == asks.end() ? asks.front() : *known;
  const auto before = keptFor(asks);
  std::string insteadOf;
  if (!before.nodes.empty() || isUnderReservationLimit(waiterOf(ask), insteadOf)) {
    std::vector<std::string> others;
    for (const auto& [uid, kept] : reservations_)
      if (uid != ask.claimUid && uid != insteadOf) others.push_back(kept.node);
    const Looking one(looking_);
    auto later = projectedSnapshot(asks, lock);
    later.closed.insert(later.closed.end(), others.begin(), others.end());
    std::string why;
    auto node = nodeToKeep(
        {*later.cluster, asks, later.open(suits), otherwise ? later.open(otherwise) : otherwise, before}, &why);
    lock.lock();
    recordSearch(ask, !node.empty());
    keepOne(ask, asks, std::move(node));
    if (!why.empty() && !anyIsPlaced(asks) && allStand(asks)) noteUnreserved(asks, why);
  }
  lock.unlock();
  announce();
}

void ClusterView::keepOne(const SchedulingRequest& ask, const std::vector<SchedulingRequest>& asks, std::string node) {
  const auto before = keptFor(asks);
  std::string insteadOf;
  const bool wanted = !anyIsPlaced(asks) && allStand(asks) &&
                      (!before.nodes.empty() || isUnderReservationLimit(waiterOf(ask), insteadOf));
  if (node.empty() || !wanted) return dropReservation(ask.claimUid);
  auto owner = waiterOf(ask);
  owner.request = nullptr;  // it does not outlive the decision
  const bool moves = !before.nodes.empty() && before.nodes.front() != node;
  if (moves || reservations_.erase(insteadOf) > 0) capacityFreed_ = true;
  const auto now = ask.turn.now;
  for (const auto& each : asks) unreserved_.erase(each.claimUid);
  auto& kept = reservations_[ask.claimUid];
  kept = {std::move(owner), std::move(node), now, now, before.moves + (moves ? 1 : 0), false, kept.used};
  keepsNodes_ = true;
}

bool ClusterView::allStand(const std::vector<SchedulingRequest>& asks) const {
  return std::all_of(asks.begin(), asks.end(), [this](const SchedulingRequest& ask) {
    const auto claim = stores_.claims.get(core::ObjectKey::of(ask.claim));
    return claim && claim->metadata.uid == ask.claimUid;
  });
}

scheduler::KeptBefore ClusterView::keptFor(const std::vector<SchedulingRequest>& asks) const {
  scheduler::KeptBefore before;
  for (const auto& ask : asks)
    if (const auto own = reservations_.find(ask.claimUid); own != reservations_.end()) {
      before.nodes.push_back(own->second.node);
      before.moves = std::max(before.moves, own->second.moves);
    }
  return before;
}

bool ClusterView::anotherGangKeeps(const std::vector<SchedulingRequest>& asks) const {
  return std::any_of(reservations_.begin(), reservations_.end(), [&](const auto& kept) {
    const auto own = [&](const SchedulingRequest& ask) { return ask.claimUid == kept.first; };
    return kept.second.ofGang && std::none_of(asks.begin(), asks.end(), own) &&
           scheduler::queueLess(kept.second.owner, waiterOf(asks.front()));
  });
}

void ClusterView::keepForGang(const std::vector<SchedulingRequest>& asks,
                              const std::vector<GangMemberConstraints>& places,
                              const std::vector<scheduler::TopologyGroup>* within) {
  const auto now = asks.front().turn.now;
  std::unique_lock lock(mutex_);
  renewReservations(asks);
  if (gangBudgetExhausted(namespaceOf(asks.front().claim), now)) {
    replaceReservations(asks, {});
    lock.unlock();
    return announce();
  }
  if (!shouldSearchForNode(asks) || anotherGangKeeps(asks)) return;
  const auto before = keptFor(asks);
  const auto most = mostNodes(std::numeric_limits<std::size_t>::max(), keeping_.gangShare);
  auto members = membersOf(asks, places);
  const bool any = std::any_of(members.begin(), members.end(), [](const auto& each) { return each.claim.has_value(); });
  const auto book = any ? book_ : scheduler::QuotaBook();
  auto otherwise = onceFree(members, places);
  const Looking one(looking_);
  const auto later = projectedSnapshot(asks, lock);
  for (auto* const each : {&members, &otherwise})
    for (auto& member : *each) member.suits = later.open(member.suits);
  const scheduler::HeldSince since = [this, now](std::string_view device) { return heldSince(device, now); };
  const scheduler::HolderLasts lasts = [this, now](auto device) { return holderLasts(device, now, kHowLongEver); };
  auto kept = scheduler::planReservations(*later.cluster, members, within, book, now, since, before, most, lasts);
  if (kept.empty() && !otherwise.empty())
    kept = scheduler::planReservations(*later.cluster, otherwise, within, book, now, since, before, most, lasts);
  lock.lock();
  recordSearch(asks.front(), !kept.empty());
  const bool wanted = !anyIsPlaced(asks) && allStand(asks) && !anotherGangKeeps(asks);
  replaceReservations(asks, wanted ? kept : std::vector<scheduler::KeptForMember>());
  lock.unlock();
  announce();
}

void ClusterView::replaceReservations(const std::vector<SchedulingRequest>& asks,
                                      const std::vector<scheduler::KeptForMember>& kept) {
  const auto before = keptFor(asks);
  std::set<std::string> given;  // nodes that are released
  std::erase_if(reservations_, [&](const auto& each) {
    const auto own = [&](const SchedulingRequest& ask) { return ask.claimUid == each.first; };
    // Ends the reservations of another gang, too, which comes later in queue order: it gets its own later.
    const bool goes = std::any_of(asks.begin(), asks.end(), own) || (each.second.ofGang && !kept.empty());
    if (goes) given.insert(each.second.node);
    return goes;
  });
  const auto keeps = [&](const auto& node) {
    return std::any_of(kept.begin(), kept.end(), [&](const auto& each) { return each.node == node; });
  };
  const bool moves = !std::all_of(before.nodes.begin(), before.nodes.end(), keeps);
  for (const auto& each : kept) {
    auto owner = waiterOf(asks[each.member]);
    owner.request = nullptr;  // it does not outlive the decision
    const auto now = asks.front().turn.now;
    reservations_[asks[each.member].claimUid] = {
        std::move(owner), each.node, now, now, before.moves + (moves ? 1 : 0), true};
  }
  keepsNodes_ = keepsNodes_ || !kept.empty();
  capacityFreed_ = !std::all_of(given.begin(), given.end(), keeps) || capacityFreed_;
}

void ClusterView::dropReservation(std::string_view claimUid, bool isServed) {
  if (const auto known = unreserved_.find(claimUid); known != unreserved_.end()) unreserved_.erase(known);
  const auto known = reservations_.find(claimUid);
  if (known == reservations_.end()) return;
  endReservation(known, isServed || isPlaced(known->first));
  capacityFreed_ = true;
}

ClusterView::KeptNodes::iterator ClusterView::endReservation(KeptNodes::iterator kept, bool isServed) {
  if (isServed && !kept->second.ofGang) {
    namespaceTurns_.giveBack(namespaceOf(kept->second.owner.name), kept->second.used);
    claimTurns_.forget(kept->first);
  }
  return reservations_.erase(kept);
}

std::vector<scheduler::Kept> ClusterView::keptNodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<scheduler::Kept> all;
  for (const auto& [uid, kept] : reservations_) all.push_back({kept.owner.name, kept.node, kept.moves});
  return all;
}

}  // namespace egpu::cache
