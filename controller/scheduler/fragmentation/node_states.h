// Free capacity of each node. Nodes in equal states share a number, so that results are computed once per state. Only
// changed nodes are read again. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/state/names.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {

struct CardState {
  TypeId type = kNone;
  Amount free;
  bool empty = true;       ///< without holders
  uint16_t isolation = 0;  ///< modes that it offers and, unless it is empty, the mode of its shares
  bool operator==(const CardState&) const = default;
};
inline CardState readCard(const CardRecord& card) {
  const uint32_t mode = card.empty() ? 0 : card.mode;
  return {card.type, card.free(), card.empty(),
          static_cast<uint16_t>(card.exclusive << 8u | card.memoryLimits << 7u | card.limiter << 5u | mode)};
}

struct NodeState {
  NodeAmount free;               ///< unknown amounts are larger than every request
  std::vector<CardState> cards;  ///< healthy cards, in the node's order
  bool operator==(const NodeState&) const = default;
};
void readNode(const Cluster::State& state, NodeId id, NodeState& out);

/// Returns the smaller of the free shares of core and memory: 0 … 1000.
int64_t freeShare(const CardState& card, const CardType& type);

class NodeStates {
 public:
  static constexpr uint32_t kNotOffered = 0;  ///< number of all nodes that are not schedulable

  struct Changes {
    std::vector<NodeId> nodes;      ///< nodes that were read again
    std::vector<uint32_t> numbers;  ///< numbers that represent another state than before
  };

  /// Marks a node that was added, removed or changed. Cheap.
  void changed(NodeId node);
  /// Reads all marked nodes. The result is valid until the next call.
  const Changes& read(const Cluster::State& state);

  uint32_t numberOf(NodeId node) const { return numberOf_[node]; }
  /// The highest number plus 1; numbers start at 1. Numbers without nodes have no meaning.
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
  std::vector<uint32_t> spare_;  // unused numbers
  NameTable byState_;            // numbers, by hash of the state
  NodeState read_;               // buffer
};

}  // namespace egpu::scheduler::fragmentation
