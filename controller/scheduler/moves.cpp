#include "controller/scheduler/moves.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "controller/scheduler/moving/moving.h"
#include "controller/scheduler/preempt.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// Holder of capacity that no claim may move into. Device uids contain no slash.
constexpr std::string_view kReserved = "moves/kept";

/// Returns the number of healthy cards without holders.
int64_t emptyCardsOf(const Cluster::State& state) {
  int64_t count = 0;
  for (const auto& [name, id] : state.nodesByName())
    for (const CardId card : state.nodes[id].cards) count += state.cards[card].healthy && state.cards[card].empty();
  return count;
}

class Emptying {
 public:
  Emptying(const Cluster& cluster, const Movers& movers, int64_t max, int64_t limit, const Pause& pause)
      : cluster_(cluster), movers_(movers), max_(max), left_(limit), pause_(pause), holdings_(holdingsOf(cluster_)) {}

  MovePlan run() {
    const int64_t before = emptyCardsOf(state());
    // One card's moves can take or free the capacity for another's, so repeat until no further card can be emptied.
    for (bool more = true; more && left_ > 0;) {
      more = false;
      for (const CardToEmpty& each : candidates()) {
        if (left_ <= 0) break;
        if (pause_) pause_();
        more = empty(each) || more;
      }
    }
    for (const std::string& card : emptied_) cluster_.giveBack(card, kReserved);
    plan_.freedCards = emptyCardsOf(state()) - before;
    plan_.possible = plan_.freedCards > 0;
    plan_.exact = left_ > 0;
    return std::move(plan_);
  }

 private:
  struct CardToEmpty {
    int64_t claims = 0;
    int64_t fill = 0;
    std::string card;
    auto operator<=>(const CardToEmpty&) const = default;
  };

  const Cluster::State& state() const { return cluster_.state(); }

  /// Returns the cards that could be emptied, in the order in which they are tried.
  std::vector<CardToEmpty> candidates() const {
    std::vector<CardToEmpty> all;
    for (const auto& [name, id] : state().nodesByName()) {
      for (const CardId card : state().nodes[id].cards) {
        const CardRecord& record = state().cards[card];
        if (!record.healthy || record.empty()) continue;
        bool movable = true;
        state().eachTake(card, [&](std::string_view device, const Amount&, const NodeAmount&) {
          const auto mover = movers_.find(device);
          movable = movable && mover != movers_.end() && !mover->second.request.wholeCards &&
                    moved_.find(device) == moved_.end();
        });
        if (movable)
          all.push_back({record.claims(), fillOf(state().usedOf(card), state().capacityOf(card)),
                         std::string(state().cardName(card))});
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  bool empty(const CardToEmpty& candidate) {
    const CardId id = state().findCard(candidate.card);
    std::vector<Victim> claims;
    std::set<std::string> touched;  // cards that can become empty or used
    bool movable = true;
    state().eachTake(id, [&](std::string_view device, const Amount&, const NodeAmount&) {
      const auto& holdings = holdings_.find(device)->second;
      movable = movable && moved_.find(device) == moved_.end();
      claims.push_back({std::string(device), holdings});
      for (const Holding& each : holdings) touched.insert(each.card);
    });
    // Other claims may have moved here since the candidates were counted.
    if (!movable || claims.empty() || static_cast<int64_t>(plan_.moves.size() + claims.size()) > max_) return false;
    std::sort(claims.begin(), claims.end(), [](const Victim& a, const Victim& b) { return a.device < b.device; });
    left_ -= static_cast<int64_t>(claims.size());
    const auto emptyOf = [&](const std::set<std::string>& cards) {
      return std::count_if(cards.begin(), cards.end(),
                           [&](const std::string& card) { return state().cards[state().findCard(card)].empty(); });
    };
    for (const Victim& each : claims) release(cluster_, each.device, each.holdings);
    const auto freed = emptyOf(touched);
    cluster_.take(candidate.card, kReserved, state().capacityOf(id));
    auto moves = settle(cluster_, claims, movers_);
    const bool gained = moves && gains(*moves, freed);
    if (moves)
      for (const Move& each : *moves) moveTo(cluster_, each.device, each.to);
    cluster_.giveBack(candidate.card, kReserved);
    for (const Victim& each : claims) hold(cluster_, each.device, each.holdings);
    if (!gained || !order(cluster_, *moves, movers_)) return false;
    make(*moves);
    cluster_.take(candidate.card, kReserved, state().capacityOf(id));
    emptied_.push_back(candidate.card);
    return true;
  }

  void make(const std::vector<Move>& moves) {
    for (const Move& each : moves) {
      release(cluster_, each.device, each.from);
      hold(cluster_, each.device, each.to, nodeAmountOf(each.from));
      moved_.insert(each.device);
      plan_.moves.push_back(each);
    }
  }

  /// True if more cards were freed than are now in use for these claims alone.
  bool gains(const std::vector<Move>& moves, int64_t freed) const {
    std::set<std::string_view> devices, opened;
    for (const Move& each : moves) devices.insert(each.device);
    for (const Move& each : moves) {
      for (const Placement& placement : each.to.placements) {
        bool alone = true;
        state().eachTake(state().findCard(placement.card),
                         [&](std::string_view device, const Amount&, const NodeAmount&) {
                           alone = alone && devices.find(device) != devices.end();
                         });
        if (alone) opened.insert(placement.card);
      }
    }
    return freed > static_cast<int64_t>(opened.size());
  }

  Cluster cluster_;
  const Movers& movers_;
  const int64_t max_;
  int64_t left_;  ///< decisions left
  const Pause& pause_;
  const Holdings holdings_;
  std::set<std::string, std::less<>> moved_;
  std::vector<std::string> emptied_;
  MovePlan plan_;
};

}  // namespace

bool firstMoveHolds(const Cluster& cluster, const MovePlan& plan, const Movers& movers, const MovePlanner& planner) {
  if (plan.moves.empty()) return false;
  const Move& move = plan.moves.front();
  const auto mover = movers.find(move.device);
  if (mover == movers.end()) return false;
  const NodeAmount pod = nodeAmountOf(move.from);
  Request request = mover->second.request;
  request.cpuMilli = pod.cpuMilli;
  request.podMemory = pod.memory;
  Cluster without = cluster;
  release(without, move.device, move.from);
  const int64_t goal = emptyCardsOf(cluster.state()) + plan.freedCards;
  for (const Cluster* at : {&cluster, static_cast<const Cluster*>(&without)}) {
    const Decision to = decide(*at, request, mover->second.suits);
    if (!to.fits) return false;
    Cluster after = without;
    hold(after, move.device, to, pod);
    const MovePlan left = planner(after);
    if (left.moves.size() >= plan.moves.size()) return false;
    // The whole gain of the plan may be reached already; then nothing is left to do.
    if (plan.freedCards > 0 ? emptyCardsOf(after.state()) + left.freedCards < goal : !left.possible) return false;
  }
  return true;
}

MovePlan movesToLetIn(const Cluster& cluster, const Request& request, const NodePredicate& suits, const Movers& movers,
                      int64_t limit, const Pause& pause) {
  std::vector<Move> moves;  // moves of the last acceptable set of victims
  const AcceptVictims accept = [&](Cluster& without, const Decision& decision, const std::vector<Victim>& victims) {
    hold(without, kReserved, decision, {request.cpuMilli, request.podMemory});
    auto found = settle(without, victims, movers);
    moveTo(without, kReserved, decision);
    // A claim that moves within the node, or to a shared card, still counts toward the request's limits of claims.
    const bool fits = found && hasCapacity(without, {std::string(kReserved), {}, decision}, request);
    if (found)
      for (const Move& each : *found) moveTo(without, each.device, each.to);
    if (!fits) return false;
    for (const Victim& each : victims) hold(without, each.device, each.holdings);
    const bool ordered = order(without, *found, movers);
    for (const Victim& each : victims) release(without, each.device, each.holdings);
    if (ordered) moves = std::move(*found);
    return ordered;
  };
  const IsEvictable isEvictable = [&](std::string_view device) { return movers.find(device) != movers.end(); };
  const Preemption preemption = preempt(cluster, request, suits, isEvictable, limit, pause, accept);
  return {preemption.possible, std::move(moves), preemption.decision, 0, preemption.exact};
}

MovePlan movesToFreeCards(const Cluster& cluster, const Movers& movers, int64_t max, int64_t limit,
                          const Pause& pause) {
  return Emptying(cluster, movers, max, limit, pause).run();
}

}  // namespace egpu::scheduler
