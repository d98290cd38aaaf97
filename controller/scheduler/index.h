// The index over nodes that makes a decision cost a logarithm, not a scan. Internal to scheduler/.
//
// Nodes are kept in the order of (fill, name), per shape: a shape is the set of card types that a node's healthy cards
// have, so within it a request needs the same amounts nearly everywhere. Each shape is a B+-tree of 32-way blocks.
// Beside each child stands an upper bound (Summary) of what any node below has free: the search walks in the policy's
// order and skips every subtree whose bound says that nothing below can fit. The bound is never too low, so nothing is
// missed; where it is too high, the node itself (fit.h) says no and the walk goes on. So the answer is exactly that of
// a scan in the same order.
//
// The order among equals is the order of the names, kept as numbers with gaps (Key::label) so that no comparison
// touches a string.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/scheduler/ids.h"

namespace egpu::scheduler {

/// What a node has free, each number an upper bound when several nodes are taken together (elementwise maximum).
/// A card fits if it has the core *and* the memory; two maxima alone would let the core of one card stand in for
/// another's. So there are two staircases: the most memory where there is so much core, and the most core where there
/// is so much memory.
struct alignas(32) Summary {
  static constexpr std::size_t kCoreSteps = 11;  // of 100 milli-cards, 0 … 1000
  static constexpr int64_t kCoreStep = 100;
  static constexpr std::size_t kMemorySteps = 21;  // of Scale::step units
  static constexpr std::size_t kMemoryAt =
      0;  // + core step: most free memory on a card with so much core free, −1 if none
  static constexpr std::size_t kCoreAt = kMemoryAt + kCoreSteps;  // + memory step: most free core likewise
  static constexpr std::size_t kCoreRanks =
      kCoreAt + kMemorySteps;  // free core of the 2nd, 4th, 8th, 16th card by free core
  static constexpr std::size_t kMemoryRanks =
      kCoreRanks + 4;                                      // free memory of the 2nd, 4th, 8th, 16th card by free memory
  static constexpr std::size_t kEmpty = kMemoryRanks + 4;  // cards nobody holds
  static constexpr std::size_t kNodeClaims = kEmpty + 1;   // kMax − claims on the node
  static constexpr std::size_t kCardClaims = kNodeClaims + 1;     // kMax − claims on the card with the fewest
  static constexpr std::size_t kNodeCpu = kCardClaims + 1;        // CPU left on the node, in kCpuUnit
  static constexpr std::size_t kNodeMemory = kNodeCpu + 1;        // memory left on the node, in kNodeMemoryUnit
  static constexpr std::size_t kUsedScore = kNodeMemory + 1;      // Σ over the cards of load_score.h's used
  static constexpr std::size_t kAvailableScore = kUsedScore + 1;  // likewise available
  static constexpr std::size_t kFreeCore = kAvailableScore + 1;   // Σ over the cards of free core
  static constexpr std::size_t kCount = 48;
  static constexpr int16_t kMax = INT16_MAX;
  static constexpr int64_t kCpuUnit = 32;                         // thousandths: up to 1,048 CPUs are told apart
  static constexpr int64_t kNodeMemoryUnit = int64_t{256} << 20;  // bytes: up to 8 TiB
  static_assert(kFreeCore < kCount);

  /// Core in milli-cards, memory in units of a Scale, rounded down; everything saturates at kMax.
  std::array<int16_t, kCount> at;

  Summary() { at.fill(-1); }
  void raise(const Summary& other) {
    for (std::size_t i = 0; i < kCount; ++i) at[i] = std::max(at[i], other.at[i]);
  }
  bool operator==(const Summary&) const = default;
};
static_assert(sizeof(Summary) == 96);

/// How summaries of a shape count memory: powers of two, so that the sizes people ask for fall on a step.
struct Scale {
  int shift = 25;  ///< a unit is 2^shift bytes
  int step = 10;   ///< a step is 2^step units
  static Scale forCards(int64_t largestMemory);
};

/// What a Summary must reach for a request to have a chance.
class Threshold {
 public:
  void require(std::size_t number, int64_t least) {
    tests_[count_++] = {static_cast<uint16_t>(number),
                        static_cast<int16_t>(std::clamp<int64_t>(least, -1, Summary::kMax))};
  }
  bool reached(const Summary& s) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (s.at[tests_[i].number] < tests_[i].least) return false;
    return true;
  }

 private:
  struct Test {
    uint16_t number;
    int16_t least;
  };
  std::array<Test, 8> tests_{};
  std::size_t count_ = 0;
};

class NodeIndex {
 public:
  struct Key {
    int64_t fill = 0;    ///< of the healthy cards, fill.h
    uint64_t label = 0;  ///< order of the names
    auto operator<=>(const Key&) const = default;
  };
  using ShapeId = uint32_t;
  struct Shape {
    std::vector<TypeId> types;  ///< sorted; of the catch-all shape: all that were ever put in
    uint32_t root = kNone;      ///< kNone: an unused slot or an empty catch-all
    uint32_t nodes = 0;
    Scale scale;
  };
  /// Above this many shapes further ones share one catch-all shape: still exact, but with looser bounds.
  static constexpr std::size_t kMaxShapes = 256;

  NodeIndex() { shapes_.resize(1); }

  using Names = std::map<std::string, NodeId, std::less<>>;
  /// Gives a node that was just added to `names` (at `at`) its number in the order of the names.
  void name(NodeId id, const Names& names, Names::const_iterator at);
  /// The shape for a set of types (sorted, unique) whose largest card has so much memory; made if new. Follow with
  /// put().
  ShapeId shapeFor(const std::vector<TypeId>& types, int64_t largestMemory);
  /// Adds a node or moves it to where its fill belongs.
  void put(NodeId id, ShapeId shape, int64_t fill, const Summary& summary);
  void remove(NodeId id);

  bool holds(NodeId id) const { return id < places_.size() && places_[id].leaf != kNone; }
  ShapeId shapeOf(NodeId id) const { return places_[id].shape; }
  const Key& keyOf(NodeId id) const { return keys_[id]; }
  const std::vector<Shape>& shapes() const { return shapes_; }

  enum class Answer { no, yes, stop };
  /// The first node in ascending (descending) order that reaches the threshold and is accepted; kNone if there is none
  /// or `accept` said stop.
  template <class Accept>
  NodeId ascend(const Shape& shape, const Threshold& t, Accept accept) const {
    bool stopped = false;
    return shape.root == kNone ? kNone : ascend(shape.root, t, INT64_MIN, accept, stopped);
  }
  template <class Accept>
  NodeId descend(const Shape& shape, const Threshold& t, Accept accept) const {
    bool stopped = false;
    return shape.root == kNone ? kNone : descend(shape.root, t, accept, stopped);
  }
  /// As ascend, from the first node of at least this fill.
  template <class Accept>
  NodeId ascendFrom(const Shape& shape, const Threshold& t, int64_t fill, Accept accept) const {
    bool stopped = false;
    return shape.root == kNone ? kNone : ascend(shape.root, t, fill, accept, stopped);
  }

  /// Visits, in ascending or descending order, the nodes that reach the threshold and have more of a summary's number
  /// than `least`, which the visitor may raise.
  template <class Visit>
  void eachAbove(const Shape& shape, const Threshold& t, bool ascending, std::size_t number, const int16_t& least,
                 Visit visit) const {
    if (shape.root != kNone) eachAbove(shape.root, t, ascending, number, least, visit);
  }

  /// Names the first broken invariant; empty if there is none.
  std::string check() const;
  /// What the index occupies.
  std::size_t bytes() const;
  /// The summary stored for a node.
  const Summary& summaryOf(NodeId id) const;

 private:
  static constexpr uint32_t kWidth = 32;
  struct Block {
    uint32_t count = 0;
    uint32_t parent = kNone;
    bool leaf = true;
    std::array<uint32_t, kWidth> child{};  ///< node ids in a leaf, blocks above
    std::array<NodeId, kWidth> first{};    ///< lowest node below each child; in a leaf the node itself
    std::array<Summary, kWidth> summary;
  };
  struct Place {
    ShapeId shape = 0;
    uint32_t leaf = kNone;
  };

  template <class Accept>
  NodeId ascend(uint32_t block, const Threshold& t, int64_t fill, Accept& accept, bool& stopped) const {
    const Block& b = blocks_[block];
    for (uint32_t i = 0; i < b.count && !stopped; ++i) {
      if (!t.reached(b.summary[i])) continue;
      if (b.leaf) {
        if (keys_[b.child[i]].fill < fill) continue;
        const Answer answer = accept(b.child[i]);
        if (answer == Answer::yes) return b.child[i];
        if (answer == Answer::stop) stopped = true;
      } else {
        // Everything below is lower than the next child's first.
        if (i + 1 < b.count && keys_[b.first[i + 1]].fill < fill) continue;
        if (NodeId found = ascend(b.child[i], t, fill, accept, stopped); found != kNone) return found;
      }
    }
    return kNone;
  }
  template <class Accept>
  NodeId descend(uint32_t block, const Threshold& t, Accept& accept, bool& stopped) const {
    const Block& b = blocks_[block];
    for (uint32_t i = b.count; i-- > 0 && !stopped;) {
      if (!t.reached(b.summary[i])) continue;
      if (b.leaf) {
        const Answer answer = accept(b.child[i]);
        if (answer == Answer::yes) return b.child[i];
        if (answer == Answer::stop) stopped = true;
      } else {
        if (NodeId found = descend(b.child[i], t, accept, stopped); found != kNone) return found;
      }
    }
    return kNone;
  }

  template <class Visit>
  void eachAbove(uint32_t block, const Threshold& t, bool ascending, std::size_t number, const int16_t& least,
                 Visit& visit) const {
    const Block& b = blocks_[block];
    for (uint32_t n = 0; n < b.count; ++n) {
      const uint32_t i = ascending ? n : b.count - 1 - n;
      if (b.summary[i].at[number] <= least || !t.reached(b.summary[i])) continue;
      if (b.leaf) {
        visit(b.child[i], b.summary[i].at[number]);
      } else {
        eachAbove(b.child[i], t, ascending, number, least, visit);
      }
    }
  }

  uint32_t obtainBlock(bool leaf);
  void releaseBlock(uint32_t block);
  uint32_t slotOf(uint32_t block) const;
  /// Splits the full child in a slot of a block that has room.
  void split(uint32_t parent, uint32_t slot);
  /// Takes a slot out of a block.
  void cut(Block& block, uint32_t slot);
  /// States anew in the parent what is below a block; whether that changed anything.
  bool restate(uint32_t block);
  /// Joins a block that got small with a neighbour. Returns the block that holds both, kNone if nothing was joined.
  uint32_t mergeIfSmall(uint32_t block);
  void adopt(uint32_t block, uint32_t slot);
  void insert(NodeId id, ShapeId shape, const Summary& summary);
  void erase(NodeId id);
  std::string checkBlock(uint32_t block, uint32_t parent, ShapeId shape, std::vector<NodeId>& inOrder) const;

  std::vector<Key> keys_;      // by node
  std::vector<Place> places_;  // by node
  std::vector<Shape> shapes_;  // [0] is the catch-all
  std::vector<ShapeId> freeShapes_;
  std::map<std::vector<TypeId>, ShapeId> shapeIds_;
  std::vector<Block> blocks_;  // of all shapes
  std::vector<uint32_t> freeBlocks_;
};

}  // namespace egpu::scheduler
