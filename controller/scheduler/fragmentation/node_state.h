// What of a node decides what it is worth: CPU and memory left and what its healthy cards have free. Nodes in equal
// states are interchangeable, except for links between cards and limits on claims. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {

struct CardState {
  TypeId type = kNone;
  Amount free;
  bool empty = true;  ///< nobody holds any of it
  bool operator==(const CardState&) const = default;
};

struct NodeState {
  NodeAmount free;               ///< of what is unknown, more than anybody asks for
  std::vector<CardState> cards;  ///< the healthy ones, in the node's order
  bool operator==(const NodeState&) const = default;
};

/// Reads a node; `ids`, if given, receives the cards' ids in the same order.
void readNode(const Cluster::State& state, NodeId id, NodeState& out, std::vector<CardId>* ids = nullptr);

/// The free share of a card, of core or memory, whichever is less: 0 … 1000.
int64_t freeShare(const CardState& card, const CardType& type);

std::size_t hashOf(const NodeState& state);

}  // namespace egpu::scheduler::fragmentation
