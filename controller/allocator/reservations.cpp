#include "controller/allocator/reservations.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/timestamp.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {
namespace {

// Seconds.
constexpr int64_t kSearchInterval = 1;    ///< between two searches: each scans the cluster
constexpr int64_t kRecheckInterval = 15;  ///< between two searches for a claim that has a reservation
/// After a failed search of a claim, so that other claims have theirs.
constexpr int64_t kReservationSearchBackoff = 300;

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

std::string timeText(int64_t seconds) { return base::rfc3339(base::Clock::Wall(std::chrono::seconds(seconds))); }

}  // namespace

std::string hoursText(int64_t seconds) { return std::to_string(seconds / 3600) + " hours"; }

bool isSmallCluster(const scheduler::Cluster& cluster, const scheduler::ReservationLimits& limits) {
  return cluster.gpuNodeCount() < limits.share && limits.freeCardPercent < 100;
}

const NodeReservation* Reservations::find(std::string_view claimUid) const {
  const auto known = reservations_.find(claimUid);
  return known == reservations_.end() ? nullptr : &known->second;
}

std::vector<scheduler::ReservedNode> Reservations::list() const {
  std::vector<scheduler::ReservedNode> all;
  for (const auto& [uid, reservation] : reservations_)
    all.push_back({reservation.owner.name, reservation.node, reservation.moves});
  return all;
}

std::string Reservations::text(std::string_view claimUid) const {
  if (const auto reservation = reservations_.find(claimUid); reservation != reservations_.end())
    return "node " + reservation->second.node + " is reserved for " + (reservation->second.ofGang ? "its gang" : "it") +
           ", for " + hoursText(kMaxReservationTime) + " at most";
  const auto known = unreserved_.find(claimUid);
  return known == unreserved_.end() ? std::string() : known->second;
}

bool Reservations::withholdsTooMuch(const NodeReservation& reservation) const {
  if (reservation.ofGang || !isSmallCluster(state_.cluster(), limits_)) return false;
  return scheduler::freeCardsOn(state_.cluster(), reservation.node) * 100 >
         limits_.freeCardPercent * scheduler::freeCards(state_.cluster());
}

bool Reservations::blocks(const std::vector<SchedulingRequest>& asks, const std::string& ownerUid,
                          const NodeReservation& reservation) const {
  const auto adminAccess = [](const SchedulingRequest& ask) {
    return ask.request.adminAccess;
  };  // such a claim takes no capacity
  if (std::all_of(asks.begin(), asks.end(), adminAccess)) return false;
  return !state_.isPlaced(ownerUid) && std::all_of(asks.begin(), asks.end(), [&](const SchedulingRequest& ask) {
    return adminAccess(ask) ||
           (ask.claimUid != ownerUid && scheduler::queueLess(reservation.owner, pendingRequestOf(ask)));
  }) && !withholdsTooMuch(reservation);
}

std::vector<std::string> Reservations::nodesWithout(std::string_view claimUid, std::string_view otherUid) const {
  std::vector<std::string> nodes;
  for (const auto& [uid, reservation] : reservations_)
    if (uid != claimUid && uid != otherUid) nodes.push_back(reservation.node);
  return nodes;
}

const scheduler::NodePredicate& Reservations::openNodes(const std::vector<SchedulingRequest>& asks,
                                                        const scheduler::NodePredicate& suits,
                                                        scheduler::NodePredicate& open) const {
  if (std::none_of(reservations_.begin(), reservations_.end(),
                   [&](const auto& reservation) { return blocks(asks, reservation.first, reservation.second); }))
    return suits;
  open = [this, &asks, &suits](std::string_view node) {
    for (const auto& [uid, reservation] : reservations_)
      if (reservation.node == node && blocks(asks, uid, reservation)) return false;
    return !suits || suits(node);
  };
  return open;
}

void Reservations::filterVerdicts(const std::vector<SchedulingRequest>& asks, std::span<const std::string_view> nodes,
                                  std::vector<scheduler::NodeVerdict>& verdicts) const {
  std::vector<std::string_view> closed;
  for (const auto& [uid, reservation] : reservations_)
    if (!asks.empty() && blocks(asks, uid, reservation)) closed.push_back(reservation.node);
  if (closed.empty()) return;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(closed.begin(), closed.end(), nodes[i]) != closed.end()) verdicts[i] = {};
}

bool Reservations::isPendingLong(const std::vector<SchedulingRequest>& asks) const {
  return std::all_of(asks.begin(), asks.end(), [this](const SchedulingRequest& ask) {
    return ask.first && !ask.request.adminAccess && ask.order.now - ask.order.waitingSince >= limits_.after;
  });
}

bool Reservations::shouldSearch(const std::vector<SchedulingRequest>& asks) {
  const auto& ask = asks.front();
  const auto now = ask.order.now;
  if (!isPendingLong(asks) || !allExist(stores_, asks)) return false;
  for (const auto& each : asks)
    if (const auto own = reservations_.find(each.claimUid); own != reservations_.end())
      return passed(now, own->second.searchedAt, kRecheckInterval);
  eraseExpired(failedSearches_, [now](auto& since) { return passed(now, since, kReservationSearchBackoff); });
  return passed(now, lastSearch_, kSearchInterval) && !failedSearches_.contains(ask.claimUid);
}

void Reservations::recordSearch(const SchedulingRequest& ask, bool found) {
  lastSearch_ = ask.order.now;
  if (!found) failedSearches_[ask.claimUid] = ask.order.now;
}

std::size_t Reservations::maxNodes(std::size_t max, std::size_t share) const {
  return std::min(max, std::max<std::size_t>(1, state_.cluster().gpuNodeCount() / std::max<std::size_t>(1, share)));
}

bool Reservations::isUnderLimit(const scheduler::PendingRequest& pending, std::string& insteadOf) const {
  std::vector<decltype(reservations_)::const_iterator> others;
  for (auto it = reservations_.begin(); it != reservations_.end(); ++it)
    if (!it->second.ofGang) others.push_back(it);
  if (others.size() < maxNodes(limits_.maxNodes, limits_.share)) return true;
  const auto last = *std::max_element(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return scheduler::queueLess(a->second.owner, b->second.owner);
  });
  insteadOf = last->first;
  return scheduler::queueLess(pending, last->second.owner);
}

scheduler::CurrentReservations Reservations::of(const std::vector<SchedulingRequest>& asks) const {
  scheduler::CurrentReservations before;
  for (const auto& ask : asks)
    if (const auto own = reservations_.find(ask.claimUid); own != reservations_.end()) {
      before.nodes.push_back(own->second.node);
      before.moves = std::max(before.moves, own->second.moves);
    }
  return before;
}

bool Reservations::isAnotherGangFirst(const std::vector<SchedulingRequest>& asks) const {
  return std::any_of(reservations_.begin(), reservations_.end(), [&](const auto& reservation) {
    const auto own = [&](const SchedulingRequest& ask) { return ask.claimUid == reservation.first; };
    return reservation.second.ofGang && std::none_of(asks.begin(), asks.end(), own) &&
           scheduler::queueLess(reservation.second.owner, pendingRequestOf(asks.front()));
  });
}

void Reservations::reserve(const SchedulingRequest& ask, const std::vector<SchedulingRequest>& asks, std::string node) {
  const auto before = of(asks);
  std::string insteadOf;
  const bool wanted = !state_.isAnyPlaced(asks) && allExist(stores_, asks) &&
                      (!before.nodes.empty() || isUnderLimit(pendingRequestOf(ask), insteadOf));
  if (node.empty() || !wanted) return release(ask.claimUid);
  auto owner = pendingRequestOf(ask);
  owner.request = nullptr;  // the request does not outlive the decision
  const bool moves = !before.nodes.empty() && before.nodes.front() != node;
  if (moves || reservations_.erase(insteadOf) > 0) hasFreed_ = true;
  const auto now = ask.order.now;
  for (const auto& each : asks) unreserved_.erase(each.claimUid);
  auto& reservation = reservations_[ask.claimUid];
  reservation = {std::move(owner), std::move(node), now, now, before.moves + (moves ? 1 : 0), false, reservation.used};
}

void Reservations::replace(const std::vector<SchedulingRequest>& asks,
                           const std::vector<scheduler::MemberReservation>& nodes) {
  const auto before = of(asks);
  std::set<std::string> released;
  std::erase_if(reservations_, [&](const auto& each) {
    const auto own = [&](const SchedulingRequest& ask) { return ask.claimUid == each.first; };
    // Ends the reservations of another gang, too, which comes later in queue order: it gets its own later.
    const bool ends = std::any_of(asks.begin(), asks.end(), own) || (each.second.ofGang && !nodes.empty());
    if (ends) released.insert(each.second.node);
    return ends;
  });
  const auto isReserved = [&](const auto& node) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& each) { return each.node == node; });
  };
  const bool moves = !std::all_of(before.nodes.begin(), before.nodes.end(), isReserved);
  for (const auto& each : nodes) {
    auto owner = pendingRequestOf(asks[each.member]);
    owner.request = nullptr;  // the request does not outlive the decision
    const auto now = asks.front().order.now;
    reservations_[asks[each.member].claimUid] = {
        std::move(owner), each.node, now, now, before.moves + (moves ? 1 : 0), true};
  }
  hasFreed_ = !std::all_of(released.begin(), released.end(), isReserved) || hasFreed_;
}

void Reservations::renew(const std::vector<SchedulingRequest>& asks) {
  const auto now = asks.front().order.now;
  const auto namespace_ = namespaceOf(asks.front().claim);
  int64_t since = now;  // last renewal of the gang
  for (const auto& ask : asks) {
    const auto own = reservations_.find(ask.claimUid);
    if (own == reservations_.end()) continue;
    auto& reservation = own->second;
    if (reservation.ofGang) {
      since = std::min(since, reservation.renewedAt);
    } else if (reservation.renewedAt < now) {
      claimBudget_.use(ask.claimUid, reservation.renewedAt, now);
      namespaceBudget_.use(namespace_, reservation.renewedAt, now);
      reservation.used += now - reservation.renewedAt;
    }
    reservation.renewedAt = now;
  }
  if (since < now) gangBudget_.use(namespace_, since, now);
}

bool Reservations::endIfExhausted(const std::vector<SchedulingRequest>& asks) {
  const auto now = asks.front().order.now;
  std::optional<int64_t> until = namespaceBudget_.pausedUntil(namespaceOf(asks.front().claim), now);
  std::string owner = "claims of its namespace";
  for (const auto& ask : asks)
    if (const auto pause = claimBudget_.pausedUntil(ask.claimUid, now); pause && pause >= until) {
      until = pause;
      owner = "it";
    }
  if (!until) return false;
  recordUnreserved(asks, "no node is reserved for it before " + timeText(*until) + ": nodes were reserved for " +
                             owner + " for " + hoursText(kMaxReservationTime) + " without success");
  return true;
}

bool Reservations::isGangBudgetExhausted(const std::string& namespace_, int64_t now) {
  return gangBudget_.pausedUntil(namespace_, now).has_value();
}

void Reservations::recordUnreserved(const std::vector<SchedulingRequest>& asks, const std::string& why) {
  for (const auto& ask : asks) {
    release(ask.claimUid);
    unreserved_[ask.claimUid] = why;
  }
}

void Reservations::release(std::string_view claimUid, bool isServed) {
  if (const auto known = unreserved_.find(claimUid); known != unreserved_.end()) unreserved_.erase(known);
  const auto known = reservations_.find(claimUid);
  if (known == reservations_.end()) return;
  end(known, isServed || state_.isPlaced(known->first));
  hasFreed_ = true;
}

Reservations::ByClaim::iterator Reservations::end(ByClaim::iterator reservation, bool isServed) {
  if (isServed && !reservation->second.ofGang) {
    namespaceBudget_.giveBack(namespaceOf(reservation->second.owner.name), reservation->second.used);
    claimBudget_.forget(reservation->first);
  }
  return reservations_.erase(reservation);
}

bool Reservations::concerns(std::string_view claimUid) const {
  return reservations_.contains(claimUid) || unreserved_.contains(claimUid);
}

std::vector<std::string> Reservations::expire(int64_t now) {
  std::vector<std::string> toAsk;
  for (auto it = reservations_.begin(); it != reservations_.end();) {
    if (passed(now, it->second.renewedAt, limits_.ttl)) {
      it = end(it, state_.isPlaced(it->first));
      hasFreed_ = true;
      continue;
    }
    if (passed(now, it->second.renewedAt, limits_.renewAfter())) toAsk.push_back(it->second.owner.name);
    ++it;
  }
  return toAsk;
}

}  // namespace egpu::allocator
