// What is free on each node. Nodes in equal states share a number, so that what is worked out for one of them holds for
// all; only nodes that changed are read again. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/state/names.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {

struct CardState {
  TypeId type = kNone;
  Amount free;
  bool empty = true;  ///< nobody holds any of it
  bool operator==(const CardState&) const = default;
};
inline CardState readCard(const CardRecord& card) { return {card.type, card.free(), card.empty()}; }

struct NodeState {
  NodeAmount free;               ///< of what is unknown, more than anybody asks for
  std::vector<CardState> cards;  ///< the healthy ones, in the node's order
  bool operator==(const NodeState&) const = default;
};
void readNode(const Cluster::State& state, NodeId id, NodeState& out);

/// The free share of a card, of core or memory, whichever is less: 0 … 1000.
int64_t freeShare(const CardState& card, const CardType& type);

class NodeStates {
 public:
  static constexpr uint32_t kNotOffered = 0;  ///< the number of nodes that are not offered

  struct Changes {
    std::vector<NodeId> nodes;      ///< that were read again
    std::vector<uint32_t> numbers;  ///< that stand for another state than before
  };

  /// A node came or went, or anything about it changed. Cheap.
  void changed(NodeId node);
  /// Brings everything up to date. What it returns is valid until the next call.
  const Changes& read(const Cluster::State& state);

  uint32_t numberOf(NodeId node) const { return numberOf_[node]; }
  /// Numbers run from 1 to one less than this; those that no node has now stand for nothing.
  std::size_t numbers() const { return states_.size(); }
  const NodeState& state(uint32_t number) const { return states_[number]; }
  uint32_t nodesIn(uint32_t number) const { return nodesIn_[number]; }

 private:
  uint32_t enter(const Cluster::State& state, NodeId node);
  void leave(uint32_t number);

  std::vector<uint32_t> numberOf_;  // by node
  std::vector<bool> isStale_;       // by node
  std::vector<NodeId> stale_;       // each once
  Changes changes_;

  std::vector<NodeState> states_ = std::vector<NodeState>(1);  // by number
  std::vector<uint32_t> nodesIn_ = {0};
  std::vector<uint32_t> spare_;  // numbers that no node has
  NameTable byState_;            // numbers, by hash of the state
  NodeState read_;               // room to work in
};

}  // namespace egpu::scheduler::fragmentation
