#include "controller/scheduler/fragmentation/node_states.h"

#include <algorithm>

namespace egpu::scheduler::fragmentation {
namespace {

uint32_t hashOf(const NodeState& state) {
  uint64_t hash = 0;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  mix(static_cast<uint64_t>(state.free.cpuMilli));
  mix(static_cast<uint64_t>(state.free.memory));
  for (const CardState& card : state.cards) {
    mix(uint64_t{card.isolation} << 33 | uint64_t{card.type} << 1 | (card.empty ? 1 : 0));
    mix(static_cast<uint64_t>(card.free.core) ^ static_cast<uint64_t>(card.free.memory) << 16);
  }
  return static_cast<uint32_t>(hash);
}

}  // namespace

void readNode(const Cluster::State& state, NodeId id, NodeState& out) {
  const NodeRecord& node = state.nodes[id];
  out.free = node.free();
  out.cards.clear();
  for (const CardId card : node.cards)
    if (state.cards[card].healthy) out.cards.push_back(readCard(state.cards[card]));
}

int64_t freeShare(const CardState& card, const CardType& type) {
  const auto share = [](int64_t free, int64_t of) -> int64_t {
    if (of <= 0 || free >= of) return 1000;  // a card with no capacity of a resource is not constrained by it
    if (free <= 0) return 0;
    if (free < int64_t{1} << 53) return free * 1000 / of;
    return static_cast<int64_t>(static_cast<__int128>(free) * 1000 / of);
  };
  return std::min(share(card.free.core, type.core), share(card.free.memory, type.memory));
}

void NodeStates::changed(NodeId node) {
  if (node >= isStale_.size() || isStale_[node]) return;  // nodes that were never read are read anyway
  isStale_[node] = true;
  stale_.push_back(node);
}

uint32_t NodeStates::enter(const Cluster::State& state, NodeId node) {
  if (!state.nodes[node].offered()) return kNotOffered;
  readNode(state, node, read_);
  const uint32_t hash = hashOf(read_);
  uint32_t number = byState_.find(hash, [&](uint32_t each) { return states_[each] == read_; });
  if (number == kNone) {
    if (spare_.empty()) {
      spare_.push_back(static_cast<uint32_t>(states_.size()));
      states_.emplace_back();
      nodesIn_.push_back(0);
    }
    number = spare_.back();
    spare_.pop_back();
    states_[number] = read_;
    byState_.insert(hash, number);
    changes_.numbers.push_back(number);
  }
  ++nodesIn_[number];
  return number;
}

void NodeStates::leave(uint32_t number) {
  if (number == kNotOffered || --nodesIn_[number] > 0) return;
  byState_.erase(hashOf(states_[number]), number);
  spare_.push_back(number);
}

const NodeStates::Changes& NodeStates::read(const Cluster::State& state) {
  for (auto node = static_cast<NodeId>(numberOf_.size()); node < state.nodes.size(); ++node) {
    numberOf_.push_back(kNotOffered);
    isStale_.push_back(true);
    stale_.push_back(node);
  }
  changes_.numbers.clear();
  changes_.nodes.swap(stale_);
  stale_.clear();
  for (const NodeId node : changes_.nodes) {
    isStale_[node] = false;
    const uint32_t before = numberOf_[node];
    numberOf_[node] = enter(state, node);
    leave(before);
  }
  return changes_;
}

}  // namespace egpu::scheduler::fragmentation
