// Invariants of the state, for tests and debugging.
#include <algorithm>
#include <set>

#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Recomputes what a state derives from its records.
class StateCheck {
 public:
  explicit StateCheck(const Cluster::State& state) : state_(state) {}
  /// Returns the first difference; empty if there is none.
  std::string run() const;

 private:
  int64_t countClaims(const NodeRecord& node) const;
  NodeAmount countUsed(const NodeRecord& node) const;
  std::string checkNode(NodeId id) const;
  std::string checkCard(CardId id) const;

  const Cluster::State& state_;
};

int64_t StateCheck::countClaims(const NodeRecord& node) const {
  std::set<DeviceId> seen;
  for (CardId c : node.cards)
    for (const CardAllocation& allocation : state_.allocations_.of(state_.cards[c].allocations))
      seen.insert(allocation.device);
  return static_cast<int64_t>(seen.size());
}

NodeAmount StateCheck::countUsed(const NodeRecord& node) const {
  NodeRecord anew;
  for (CardId c : node.cards)
    for (const CardAllocation& allocation : state_.allocations_.of(state_.cards[c].allocations))
      anew.use(state_.nodeShares_.of(allocation.nodeShare));
  for (const NodeAllocation& take : state_.nodeAllocations_.of(node.allocations)) anew.use(take.amount);
  return anew.used;
}

std::string StateCheck::checkNode(NodeId id) const {
  const NodeRecord& node = state_.nodes[id];
  if (state_.findNode(node.name) != id) return "is lost";
  if (node.claims != countClaims(node)) return "miscounts its claims";
  if (node.used != countUsed(node)) return "miscounts what is used of it";
  for (std::size_t i = 0; i < node.cards.size(); ++i) {
    if (!state_.facts[node.cards[i]] || state_.cards[node.cards[i]].node != id) return "has a card that is elsewhere";
    if (i > 0 && !isCardBefore(state_, node.cards[i - 1], node.cards[i])) return "has cards out of order";
  }
  if (state_.index.holds(id) != node.offered()) return "is in the index or not, wrongly";
  if (!node.offered()) return {};
  const NodeIndex::CardMix& mix = state_.index.mixes()[state_.index.mixOf(id)];
  for (CardId c : node.cards)
    if (state_.cards[c].healthy &&
        !std::binary_search(mix.types.begin(), mix.types.end(), TypeId{state_.cards[c].type}))
      return "has the wrong mix";
  const Survey anew = state_.survey(node, mix.scale);
  if (state_.index.fillOf(id) != anew.fill) return "has the wrong fill";
  if (!(state_.index.summaryOf(id) == anew.summary)) return "has the wrong summary";
  return {};
}

std::string StateCheck::checkCard(CardId id) const {
  const CardRecord& card = state_.cards[id];
  if (state_.findCard(state_.cardName(id)) != id) return "is lost";
  Amount sum;
  v1alpha::Slots slots;
  std::set<DeviceId> seen;
  for (const CardAllocation& allocation : state_.allocations_.of(card.allocations)) {
    sum.core += allocation.charged.core;
    sum.memory += allocation.charged.memory;
    slots = slots.with(allocation.charged.slots);
    if (!seen.insert(allocation.device).second) return "is taken twice by one device";
    if (state_.holders_.find(state_.holders_.uidOf(allocation.device)) != allocation.device)
      return "is taken by a device that is lost";
  }
  if (sum != state_.usedOf(id)) return "miscounts what is used of it";
  if (slots != card.left.used()) return "has the wrong used slots";
  if (card.node == kNone) return {};
  const CardIds& beside = state_.nodes[card.node].cards;
  return std::find(beside.begin(), beside.end(), id) != beside.end() ? "" : "is not on its node";
}

std::string StateCheck::run() const {
  std::size_t cardsSeen = 0, takes = 0;
  NodeId before = kNone;
  for (const auto& [name, id] : state_.names_) {
    if (state_.nodes[id].name != name) return "node " + std::string(name) + " is another";
    if (std::string fault = checkNode(id); !fault.empty()) return "node " + std::string(name) + ' ' + fault;
    if (before != kNone && !state_.index.namedBefore(before, id))
      return "node " + std::string(name) + " is out of order";
    before = id;
  }
  if (state_.nodeIds_.size() != state_.names_.size()) return "a node has no name";
  for (CardId id = 0; id < state_.facts.size(); ++id) {
    if (!state_.facts[id]) continue;
    ++cardsSeen;
    takes += state_.cards[id].allocations.count;
    if (std::string fault = checkCard(id); !fault.empty())
      return "card " + std::string(state_.cardName(id)) + ' ' + fault;
  }
  if (cardsSeen != state_.cardIds_.size()) return "a card has no name";
  std::size_t counted = 0;
  state_.holders_.each([&](DeviceId id) { counted += state_.holders_.cardAllocations(id); });
  if (counted != takes) return "a device miscounts its takes";
  return state_.index.check();
}

std::string Cluster::State::check() const { return StateCheck(*this).run(); }

}  // namespace egpu::scheduler
