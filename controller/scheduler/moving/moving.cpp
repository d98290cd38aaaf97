#include "controller/scheduler/moving/moving.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/holdings.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

namespace {

/// Returns the sum of the holdings, in millionths of cards.
int64_t amountOf(const Cluster::State& state, const std::vector<Holding>& holdings) {
  int64_t sum = 0;
  for (const Holding& each : holdings) sum += fillOf(each.charged, state.capacityOf(state.findCard(each.card)));
  return sum;
}

}  // namespace

void moveTo(Cluster& cluster, std::string_view device, const Decision& decision) {
  for (const Placement& each : decision.placements) cluster.giveBack(each.card, device);
}

std::optional<std::vector<Move>> settle(Cluster& cluster, std::vector<Victim> released, const Movers& movers) {
  const Cluster::State& state = cluster.state();
  std::stable_sort(released.begin(), released.end(), [&](const Victim& a, const Victim& b) {
    return amountOf(state, a.holdings) > amountOf(state, b.holdings);
  });
  std::vector<Move> moves;
  for (Victim& each : released) {
    const Mover& mover = movers.find(each.device)->second;
    Request request = mover.request;
    const NodeAmount pod = nodeAmountOf(each.holdings);
    request.cpuMilli = pod.cpuMilli;
    request.podMemory = pod.memory;
    Decision to = decide(cluster, request, mover.suits);
    if (!to.fits) {
      for (const Move& made : moves) moveTo(cluster, made.device, made.to);
      return std::nullopt;
    }
    hold(cluster, each.device, to, pod);
    moves.push_back({std::move(each.device), std::move(each.holdings), std::move(to)});
  }
  return moves;
}

bool hasCapacity(const Cluster& cluster, const Move& move, const Request& request) {
  const Cluster::State& state = cluster.state();
  const NodeRecord& node = state.nodes[state.findNode(move.to.node)];
  const NodeAmount pod = nodeAmountOf(move.from), free = node.free();
  if (free.cpuMilli < pod.cpuMilli || free.memory < pod.memory || !isBelowClaimLimit(node, request)) return false;
  const ModeId mode = modeOf(state, request);
  return std::all_of(move.to.placements.begin(), move.to.placements.end(), [&](const Placement& each) {
    const CardRecord& card = state.cards[state.findCard(each.card)];
    return canTakeMode(card, mode) && cardHasCapacity(card, each.charged, request);
  });
}

bool order(Cluster& cluster, std::vector<Move>& moves, const Movers& movers) {
  std::vector<Move> made;
  while (!moves.empty()) {
    const auto next = std::find_if(moves.begin(), moves.end(), [&](const Move& move) {
      release(cluster, move.device, move.from);
      if (hasCapacity(cluster, move, movers.find(move.device)->second.request)) return true;
      hold(cluster, move.device, move.from);
      return false;
    });
    if (next == moves.end()) break;
    hold(cluster, next->device, next->to, nodeAmountOf(next->from));
    made.push_back(std::move(*next));
    moves.erase(next);
  }
  const bool all = moves.empty();
  for (const Move& each : made) moveTo(cluster, each.device, each.to);
  for (const Move& each : made) hold(cluster, each.device, each.from);
  moves.insert(moves.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  return all;
}

}  // namespace egpu::scheduler
