#include "controller/allocator/reservation_search.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "controller/allocator/allocator_state.h"
#include "controller/base/mutex.h"
#include "controller/cache/holder_signs.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::allocator {
namespace {

constexpr int64_t kMaxReservationTime = Reservations::kMaxReservationTime;

/// Sets the flag while a search runs.
class SearchGuard {
 public:
  explicit SearchGuard(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~SearchGuard() { flag_ = false; }
  SearchGuard(const SearchGuard&) = delete;
  SearchGuard& operator=(const SearchGuard&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// The members with their conditions once nodes are free; empty if these conditions do not differ.
std::vector<scheduler::GangMember> onceFree(std::vector<scheduler::GangMember> members,
                                            const std::vector<GangMemberConstraints>& places) {
  bool any = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!places[i].suitsOnceFree) continue;
    members[i].suits = places[i].suitsOnceFree;
    members[i].hasCapacity = places[i].hasCapacityOnceFree;
    any = true;
  }
  return any ? members : std::vector<scheduler::GangMember>();
}

/// Renews the reservations of nodes and quota for the claims.
void renew(AllocatorState& state, const std::vector<SchedulingRequest>& asks) EGPU_REQUIRES(state.mutex) {
  for (const auto& ask : asks) state.quotas.renewReservation(ask.claimUid, asks.front().order.now);
  state.reservations.renew(asks);
}

}  // namespace

int64_t ReservationSearch::heldSince(std::string_view device, int64_t now) const {
  if (device.starts_with(Nominator::kNominated)) return 0;  // nominated capacity is expected to stay allocated for long
  return state_.ages.createdAt(device).value_or(now);
}

bool ReservationSearch::holderLasts(std::string_view device, int64_t now, int64_t max) const {
  const auto since = state_.ages.find(device);
  if (!since) return false;
  const auto object = state_.stores.devices.get({"", since->device});
  if (!object || object->metadata.uid != device) return false;
  const auto sign = cache::signOf(state_.stores, *object);
  return sign == cache::HolderSign::stays || (sign == cache::HolderSign::unknown && now - since->created > max);
}

std::string ReservationSearch::nodeFor(const NodeSearch& search, bool isLimited,
                                       const scheduler::HolderLasts& lasts) const {
  const auto& cluster = search.cluster;
  const auto& asks = search.asks;
  const auto now = asks.front().order.now;
  const scheduler::HeldSince since = [this, now](std::string_view device) { return heldSince(device, now); };
  const auto all = isLimited ? scheduler::freeCards(cluster) : 0;
  int64_t wanted = 0;
  for (const auto& ask : asks) wanted += ask.request.adminAccess ? 0 : ask.request.cards;
  const auto tryOn = [&](const scheduler::NodePredicate& open) {
    const scheduler::NodePredicate within = [&](std::string_view node) {
      const auto free = scheduler::freeCardsOn(cluster, node);
      // More cards become free and are withheld until the claim is served.
      const auto more = std::max<int64_t>(0, wanted - free);
      return (free + more) * 100 <= search.limits.freeCardPercent * (all + more) && (!open || open(node));
    };
    std::vector<scheduler::GangMember> members;
    for (const auto& ask : asks) {
      members.push_back({ask.request, isLimited ? within : open});
      if (members.size() > 1) members.back().with = 0;
    }
    const auto planned =
        scheduler::planReservations(cluster, members, nullptr, {}, now, since, search.before, 1, lasts);
    return planned.empty() ? std::string() : planned.front().node;
  };
  auto node = tryOn(search.suits);
  return node.empty() && search.otherwise ? tryOn(search.otherwise) : node;
}

std::string ReservationSearch::nodeFor(const NodeSearch& search, std::string* why) const {
  const auto now = search.asks.front().order.now;
  const scheduler::HolderLasts lasts = [this, now](std::string_view device) {
    return holderLasts(device, now, kMaxReservationTime);
  };
  const bool isLimited = isSmallCluster(search.cluster, search.limits);
  auto node = nodeFor(search, isLimited, lasts);
  if (!node.empty()) return node;
  if (isLimited && !nodeFor(search, false, lasts).empty())
    *why = "no node is reserved for it: that could withhold more than " +
           std::to_string(search.limits.freeCardPercent) +
           " % of the free cards of this small cluster (flag --reserved-free-cards of the controller)";
  else if (!nodeFor(search, false, {}).empty())
    *why =
        "no node is reserved for it: each node that could hold it is used by claims that are not expected to end: of "
        "pods that a ReplicaSet, StatefulSet or DaemonSet replaces, or older than " +
        hoursText(kMaxReservationTime) + " and without a pod of a Job or another controller";
  return node;
}

void ReservationSearch::reserveFor(const std::vector<SchedulingRequest>& asks, const scheduler::NodePredicate& suits,
                                   const scheduler::NodePredicate& otherwise) {
  base::MutexLock lock(state_.mutex);
  auto& reservations = state_.reservations;
  if (asks.empty() || state_.cluster.isAnyPlaced(asks)) return;
  renew(state_, asks);
  const bool mayHave = !reservations.of(asks).nodes.empty() || reservations.isPendingLong(asks);
  if (mayHave && allExist(state_.stores, asks) && reservations.endIfExhausted(asks)) {
    lock.unlock();
    return state_.announce();
  }
  if (state_.isSearchingForNode || !reservations.shouldSearch(asks)) return;
  for (const auto& each : asks)  // a former gang member gets one node like any claim
    if (const auto* const own = reservations.find(each.claimUid); own != nullptr && own->ofGang)
      reservations.release(each.claimUid);
  const auto known =
      std::find_if(asks.begin(), asks.end(), [&](const SchedulingRequest& each) EGPU_REQUIRES(state_.mutex) {
        return reservations.find(each.claimUid) != nullptr;
      });
  const auto& ask = known == asks.end() ? asks.front() : *known;
  const auto before = reservations.of(asks);
  std::string insteadOf;
  if (!before.nodes.empty() || reservations.isUnderLimit(pendingRequestOf(ask), insteadOf)) {
    const SearchGuard guard(state_.isSearchingForNode);
    const auto limits = reservations.limits();
    auto projected = state_.projectedSnapshot(asks);
    for (auto& node : reservations.nodesWithout(ask.claimUid, insteadOf)) projected.closed.push_back(std::move(node));
    lock.unlock();
    projected.carryOutPending();
    std::string why;
    auto node = nodeFor({*projected.cluster, asks, projected.open(suits),
                         otherwise ? projected.open(otherwise) : otherwise, before, limits},
                        &why);
    lock.lock();
    reservations.recordSearch(ask, !node.empty());
    reservations.reserve(ask, asks, std::move(node));
    state_.noteReservations();
    if (!why.empty() && !state_.cluster.isAnyPlaced(asks) && allExist(state_.stores, asks))
      reservations.recordUnreserved(asks, why);
  }
  lock.unlock();
  state_.announce();
}

void ReservationSearch::reserveForGang(const std::vector<SchedulingRequest>& asks,
                                       const std::vector<GangMemberConstraints>& places,
                                       const std::vector<scheduler::TopologyGroup>* within) {
  const auto now = asks.front().order.now;
  base::MutexLock lock(state_.mutex);
  auto& reservations = state_.reservations;
  renew(state_, asks);
  if (reservations.isGangBudgetExhausted(namespaceOf(asks.front().claim), now)) {
    reservations.replace(asks, {});
    lock.unlock();
    return state_.announce();
  }
  if (state_.isSearchingForNode || !reservations.shouldSearch(asks) || reservations.isAnotherGangFirst(asks)) return;
  const auto before = reservations.of(asks);
  const auto maxNodes = reservations.maxNodes(std::numeric_limits<std::size_t>::max(), reservations.limits().gangShare);
  auto members = state_.membersOf(asks, places);
  const bool any = std::any_of(members.begin(), members.end(), [](const auto& each) { return each.claim.has_value(); });
  const auto book = any ? state_.quotas.book() : scheduler::QuotaBook();
  auto otherwise = onceFree(members, places);
  const SearchGuard guard(state_.isSearchingForNode);
  auto projected = state_.projectedSnapshot(asks);
  lock.unlock();
  projected.carryOutPending();
  for (auto* const each : {&members, &otherwise})
    for (auto& member : *each) member.suits = projected.open(member.suits);
  const scheduler::HeldSince since = [this, now](std::string_view device) { return heldSince(device, now); };
  const scheduler::HolderLasts lasts = [this, now](auto device) {
    return holderLasts(device, now, std::numeric_limits<int64_t>::max());
  };
  const auto plan = [&](const std::vector<scheduler::GangMember>& all) {
    return scheduler::planReservations(*projected.cluster, all, within, book, now, since, before, maxNodes, lasts);
  };
  auto nodes = plan(members);
  if (nodes.empty() && !otherwise.empty()) nodes = plan(otherwise);
  lock.lock();
  reservations.recordSearch(asks.front(), !nodes.empty());
  const bool isWanted =
      !state_.cluster.isAnyPlaced(asks) && allExist(state_.stores, asks) && !reservations.isAnotherGangFirst(asks);
  reservations.replace(asks, isWanted ? nodes : std::vector<scheduler::MemberReservation>());
  state_.noteReservations();
  lock.unlock();
  state_.announce();
}

}  // namespace egpu::allocator
