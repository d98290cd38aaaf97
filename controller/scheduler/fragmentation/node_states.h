// The states that the cluster's nodes are in, kept from one decision to the next: only nodes that changed are read
// again, and nodes in equal states share what is worked out for one of them. Everything here can be worked out again
// from the cluster, so copies of a cluster begin without it. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/scheduler/fragmentation/node_state.h"
#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/names.h"

namespace egpu::scheduler::fragmentation {

/// What tells at one look that a state can't hold a request; and what a request needs of it.
struct FreeRoom {
  NodeAmount free;          ///< of the node
  Amount most;              ///< free core of the card with most, and memory likewise
  int64_t empty = 0;        ///< cards
  TypeId onlyType = kNone;  ///< of all its cards; kNone: there are none, or several types
  bool has(const FreeRoom& least) const {
    return free.cpuMilli >= least.free.cpuMilli && free.memory >= least.free.memory && most.core >= least.most.core &&
           most.memory >= least.most.memory && empty >= least.empty;
  }
};

/// Rooms by column, so that what a request needs is held against many of them side by side.
class RoomColumns {
 public:
  void add(const FreeRoom& room);
  void clear();
  /// For those from the first-th on: `no` for those that surely lack something, else `yes`. Rounded: those that lack
  /// little may count as having it. One that is not of one type alone is held only against what `least` says of nodes.
  void sift(const FreeRoom& least, std::size_t first, std::span<int32_t> out, int32_t yes, int32_t no) const;

 private:
  std::vector<float> cpu_, memory_, core_, cardMemory_, empty_;
};

/// A state of a node that was met.
struct KnownState {
  NodeState state;
  double free = 0;  ///< Σ over its cards of freeShare(), milli-cards
  // What it is worth under the prices of this number; 0: never asked.
  uint64_t pricing = 0;
  std::vector<uint16_t> parts;  ///< FitCounts::partsOn of it
  int32_t rests = 0;            ///< worth of what is left of its cards
  float worth = 0;              ///< of both
};

class NodeStates {
 public:
  /// The number of no state: the node is not offered.
  static constexpr uint32_t kNotOffered = 0;

  struct Change {
    NodeId node;
    bool replaced;  ///< not only its state: it may have another name
  };

  /// A node has more or less free. Cheap, and cheaper before the first read().
  void changed(NodeId node) { note({node, false}); }
  /// A node came or went, or its cards, health or readiness changed.
  void replaced(NodeId node) { note({node, true}); }

  /// Brings everything up to date. Returns the nodes that changed since the last time, each once; the first time, and
  /// after states were forgotten, all are read, and only what changed for others to see is returned. Valid until the
  /// next call.
  const std::vector<Change>& read(const Cluster::State& state);

  /// The number of a node's state. Numbers hold for one generation().
  uint32_t stateOf(NodeId node) const { return ofNode_[node]; }
  /// By node.
  const std::vector<uint32_t>& statesOfNodes() const { return ofNode_; }
  /// They are numbered from 1 to one less than this.
  std::size_t states() const { return count_; }
  KnownState& known(uint32_t number) { return states_[number]; }
  const KnownState& known(uint32_t number) const { return states_[number]; }
  const FreeRoom& room(uint32_t number) const { return rooms_[number]; }
  const RoomColumns& rooms() const { return roomColumns_; }
  /// Nodes in it.
  uint32_t nodesIn(uint32_t number) const { return nodesIn_[number]; }
  uint64_t generation() const { return generation_; }

  /// Of all nodes that are offered: milli-cards, and how many healthy cards, by type.
  double free() const { return free_; }
  const std::vector<double>& cards() const { return cards_; }

 private:
  static constexpr uint32_t kUnread = kNone;

  void note(Change change);
  uint32_t numberOf(const Cluster::State& state, NodeId node);
  void count(uint32_t number, int sign);
  void forget();

  bool used_ = false;
  std::vector<uint32_t> ofNode_;
  std::vector<uint8_t> isNoted_;  // by node; 2: as replaced
  std::vector<NodeId> noted_;     // each once
  std::vector<Change> changes_;

  uint64_t generation_ = 0;
  std::vector<KnownState> states_;  // the first count_ are in use; the rest keeps its memory
  uint32_t count_ = 0;
  std::vector<FreeRoom> rooms_;
  RoomColumns roomColumns_;
  std::vector<uint32_t> nodesIn_;
  NameTable numbers_;  // by hash of the state
  double free_ = 0;
  std::vector<double> cards_;
};

}  // namespace egpu::scheduler::fragmentation
