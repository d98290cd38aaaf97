#include "controller/scheduler/fragmentation/node_state.h"

#include <algorithm>

namespace egpu::scheduler::fragmentation {

void readNode(const Cluster::State& state, NodeId id, NodeState& out, std::vector<CardId>* ids) {
  const NodeRecord& node = state.nodes[id];
  out.free = node.free();
  out.cards.clear();
  if (ids != nullptr) ids->clear();
  for (const CardId c : node.cards) {
    const CardRecord& card = state.cards[c];
    if (!card.healthy) continue;
    out.cards.push_back({card.type, card.free(), card.empty()});
    if (ids != nullptr) ids->push_back(c);
  }
}

int64_t freeShare(const CardState& card, const CardType& type) {
  const auto share = [](int64_t free, int64_t of) -> int64_t {
    if (of <= 0 || free >= of) return 1000;  // what a card has none of is no constraint
    if (free <= 0) return 0;
    if (free < int64_t{1} << 53) return free * 1000 / of;
    return static_cast<int64_t>(static_cast<__int128>(free) * 1000 / of);
  };
  return std::min(share(card.free.core, type.core), share(card.free.memory, type.memory));
}

std::size_t hashOf(const NodeState& state) {
  uint64_t hash = 0;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  mix(static_cast<uint64_t>(state.free.cpuMilli));
  mix(static_cast<uint64_t>(state.free.memory));
  for (const CardState& card : state.cards) {
    mix(uint64_t{card.type} << 1 | (card.empty ? 1 : 0));
    mix(static_cast<uint64_t>(card.free.core) ^ static_cast<uint64_t>(card.free.memory) << 16);
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace egpu::scheduler::fragmentation
