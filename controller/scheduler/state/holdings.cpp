#include "controller/scheduler/state/holdings.h"

#include <algorithm>

#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

void collect(const Cluster::State& state, const NodeRecord& node, Holdings& out) {
  for (CardId id : node.cards) {
    state.eachTake(id, [&](std::string_view device, const Amount& charged, const NodeAmount& ofNode) {
      out[std::string(device)].push_back(
          {std::string(state.cardName(id)), charged, ofNode, std::string(modeNameOf(state, id))});
    });
  }
}

int64_t freeCardsOf(const Cluster::State& state, const NodeRecord& node) {
  if (!node.offered()) return 0;
  return std::count_if(node.cards.begin(), node.cards.end(), [&state](CardId id) {
    const CardRecord& card = state.cards[id];
    return card.healthy && card.free().core > 0 && card.free().memory > 0;
  });
}

}  // namespace

int64_t freeCards(const Cluster& cluster) {
  int64_t free = 0;
  for (const auto& [name, id] : cluster.state().nodesByName())
    free += freeCardsOf(cluster.state(), cluster.state().nodes[id]);
  return free;
}

int64_t freeCardsOn(const Cluster& cluster, std::string_view node) {
  const NodeId id = cluster.state().findNode(node);
  return id == kNone ? 0 : freeCardsOf(cluster.state(), cluster.state().nodes[id]);
}

Holdings holdingsOf(const Cluster& cluster) {
  Holdings all;
  for (const auto& [name, id] : cluster.state().nodesByName()) collect(cluster.state(), cluster.state().nodes[id], all);
  return all;
}

Holdings holdingsOn(const Cluster& cluster, std::string_view node) {
  Holdings here;
  const NodeId id = cluster.state().findNode(node);
  if (id != kNone) collect(cluster.state(), cluster.state().nodes[id], here);
  return here;
}

NodeAmount nodeAmountOf(const std::vector<Holding>& holdings) {
  NodeAmount sum;
  for (const Holding& each : holdings) {
    sum.cpuMilli += each.ofNode.cpuMilli;
    sum.memory += each.ofNode.memory;
  }
  return sum;
}

void hold(Cluster& cluster, std::string_view device, const Decision& decision, NodeAmount ofNode) {
  for (const Placement& placement : decision.placements) {
    cluster.take(placement, device, ofNode);
    ofNode = {};
  }
}

void hold(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings) {
  for (const Holding& each : holdings) cluster.take(each.card, device, each.charged, each.ofNode, each.isolation);
}

void release(Cluster& cluster, std::string_view device, const std::vector<Holding>& holdings) {
  for (const Holding& each : holdings) cluster.giveBack(each.card, device);
}

bool hasFreeBeside(const Cluster& cluster, std::string_view node, const CardAmounts& amounts) {
  const auto& state = cluster.state();
  const NodeId id = state.findNode(node);
  if (id == kNone) return false;
  const auto& cards = state.nodes[id].cards;
  return std::any_of(cards.begin(), cards.end(), [&](CardId card) {
    if (!state.cards[card].healthy) return false;
    const Amount free = state.cards[card].free();
    const auto beside = amounts.find(state.cardName(card));
    const Amount amount = beside == amounts.end() ? Amount{} : beside->second;
    return free.core > amount.core || free.memory > amount.memory;
  });
}

Amount freeUpTo(const Cluster& cluster, std::string_view card, const Amount& wanted) {
  const auto known = cluster.findCard(card);
  const auto upTo = [](int64_t free, int64_t max) { return std::max<int64_t>(0, std::min(free, max)); };
  return {upTo(known.capacity.core - known.used.core, wanted.core),
          upTo(known.capacity.memory - known.used.memory, wanted.memory)};
}

}  // namespace egpu::scheduler
