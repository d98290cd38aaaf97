// Invariants of the state, for tests and debugging.
#include <algorithm>
#include <set>

#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

int64_t Cluster::State::countClaims(const NodeRecord& node) const {
  std::set<DeviceId> seen;
  for (CardId c : node.cards)
    for (const CardAllocation& allocation : allocations_.of(cards[c].allocations)) seen.insert(allocation.device);
  return static_cast<int64_t>(seen.size());
}

NodeAmount Cluster::State::countUsed(const NodeRecord& node) const {
  NodeRecord anew;
  for (CardId c : node.cards)
    for (const CardAllocation& allocation : allocations_.of(cards[c].allocations)) anew.use(ofNode(allocation));
  for (const NodeAllocation& take : nodeAllocations_.of(node.allocations)) anew.use(take.amount);
  return anew.used;
}

std::string Cluster::State::checkNode(NodeId id) const {
  const NodeRecord& node = nodes[id];
  if (findNode(node.name) != id) return "is lost";
  if (node.claims != countClaims(node)) return "miscounts its claims";
  if (node.used != countUsed(node)) return "miscounts what is used of it";
  for (std::size_t i = 0; i < node.cards.size(); ++i) {
    if (!facts[node.cards[i]] || cards[node.cards[i]].node != id) return "has a card that is elsewhere";
    if (i > 0 && !ordered(node.cards[i - 1], node.cards[i])) return "has cards out of order";
  }
  if (index.holds(id) != node.offered()) return "is in the index or not, wrongly";
  if (!node.offered()) return {};
  const NodeIndex::CardMix& mix = index.mixes()[index.mixOf(id)];
  for (CardId c : node.cards)
    if (cards[c].healthy && !std::binary_search(mix.types.begin(), mix.types.end(), TypeId{cards[c].type}))
      return "has the wrong mix";
  const Survey anew = survey(node, mix.scale);
  if (index.fillOf(id) != anew.fill) return "has the wrong fill";
  if (!(index.summaryOf(id) == anew.summary)) return "has the wrong summary";
  return {};
}

std::string Cluster::State::checkCard(CardId id) const {
  const CardRecord& card = cards[id];
  if (findCard(cardName(id)) != id) return "is lost";
  Amount sum;
  std::set<DeviceId> seen;
  for (const CardAllocation& allocation : allocations_.of(card.allocations)) {
    sum.core += allocation.charged.core;
    sum.memory += allocation.charged.memory;
    if (!seen.insert(allocation.device).second) return "is taken twice by one device";
    if (holders_.find(holders_.uidOf(allocation.device)) != allocation.device)
      return "is taken by a device that is lost";
  }
  if (sum != usedOf(id)) return "miscounts what is used of it";
  if (card.node == kNone) return {};
  const CardIds& beside = nodes[card.node].cards;
  return std::find(beside.begin(), beside.end(), id) != beside.end() ? "" : "is not on its node";
}

std::string Cluster::State::check() const {
  std::size_t cardsSeen = 0, takes = 0;
  NodeId before = kNone;
  for (const auto& [name, id] : names_) {
    if (nodes[id].name != name) return "node " + std::string(name) + " is another";
    if (std::string fault = checkNode(id); !fault.empty()) return "node " + std::string(name) + ' ' + fault;
    if (before != kNone && !index.namedBefore(before, id)) return "node " + std::string(name) + " is out of order";
    before = id;
  }
  if (nodeIds_.size() != names_.size()) return "a node has no name";
  for (CardId id = 0; id < facts.size(); ++id) {
    if (!facts[id]) continue;
    ++cardsSeen;
    takes += cards[id].allocations.count;
    if (std::string fault = checkCard(id); !fault.empty()) return "card " + std::string(cardName(id)) + ' ' + fault;
  }
  if (cardsSeen != cardIds_.size()) return "a card has no name";
  std::size_t counted = 0;
  holders_.each([&](DeviceId id) { counted += holders_.cardAllocations(id); });
  if (counted != takes) return "a device miscounts its takes";
  return index.check();
}

}  // namespace egpu::scheduler
