// The index of nodes: decisions take logarithmic time instead of a scan. Internal to scheduler/.
//
// Nodes are ordered by (fill, name), per mix. A mix is the set of card types of a node's healthy cards, so within a mix
// a request needs nearly the same amounts everywhere. Each mix is a B+-tree of 32-way blocks. Each child has an upper
// bound (Summary) of the free capacity of every node below. The search walks in the policy's order and skips every
// subtree whose bound excludes the request. A bound is never too low, so no node is missed. If a bound is too high, the
// exact check of the node (fit.h) fails and the walk continues. So the result equals that of a scan in the same order.
//
// Ties are ordered by name. Names are represented by numbers with gaps, so that comparisons do not read strings. The
// index of a large cluster does not fit into the processor's caches; therefore a block is small and contiguous, and
// contains all data that a search reads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/scheduler/state/ids.h"
#include "controller/scheduler/state/large_array.h"
#include "controller/scheduler/state/summary.h"

namespace egpu::scheduler {

class NodeIndex {
 public:
  using MixId = uint32_t;
  struct CardMix {
    std::vector<TypeId> types;  ///< sorted; for the catch-all mix, all types that were ever added
    uint32_t root = kNone;      ///< kNone = an unused slot or an empty catch-all
    uint32_t nodes = 0;
    Scale scale;
  };
  /// Limit of the number of mixes. Further ones share one catch-all mix, which is exact, but has looser bounds.
  static constexpr std::size_t kMaxMixes = 256;

  NodeIndex() { mixes_.resize(1); }

  using Names = std::map<std::string_view, NodeId>;
  /// Assigns a number in the order of names to a node that was just added to `names` (at `at`).
  void name(NodeId id, const Names& names, Names::const_iterator at);
  /// Returns the mix for a set of types (sorted, unique) with these largest amounts of a card, created if new. A put()
  /// must follow.
  MixId mixFor(const std::vector<TypeId>& types, int64_t largestCore, int64_t largestMemory);
  /// Adds a node, or moves it to the position for its fill (fill.h).
  void put(NodeId id, MixId mix, int64_t fill, const Summary& summary);
  void remove(NodeId id);

  bool holds(NodeId id) const { return id < places_.size() && places_[id].leaf != kNone; }
  MixId mixOf(NodeId id) const { return places_[id].mix; }
  int64_t fillOf(NodeId id) const;
  const Summary& summaryOf(NodeId id) const;
  const std::vector<CardMix>& mixes() const { return mixes_; }
  /// True if a's name sorts before b's.
  bool namedBefore(NodeId a, NodeId b) const { return labels_[a] < labels_[b]; }

  struct FoundNode {
    NodeId node = kNone;
    int64_t fill = 0;
  };
  enum class Acceptance { no, yes, stop };
  /// Returns the first node of the mix, lowest fill first, that reaches `least` by its summary and that accept(NodeId,
  /// int64_t fill) accepts. Returns no node if there is none or `accept` stops the walk. Ties: lower name first. Skips
  /// nodes with a fill below `from`.
  template <class Accept>
  FoundNode emptiest(const CardMix& mix, const Summary& least, Accept accept, int64_t from = 0) const {
    FoundNode found;
    if (mix.root != kNone) ascend(mix.root, least, static_cast<int32_t>(from), accept, found);
    return found;
  }
  /// As emptiest(), highest fill first; ties are also ordered by lower name.
  template <class Accept>
  FoundNode fullest(const CardMix& mix, const Summary& least, Accept accept) const {
    FoundNode found;
    if (mix.root == kNone || descend(mix.root, least, accept, found) != Acceptance::yes) return found;
    // The descending walk visits equal nodes in reverse order of names, so look for the first name. Usually there is
    // only one node.
    return firstOfItsFill(found.node) ? found : emptiest(mix, least, accept, found.fill);
  }
  /// Calls visit(NodeId, int64_t fill, int32_t number) for the nodes that reach `least` by their summary and have a
  /// wide number above `above`. The visitor can raise `above`. Lowest fill first or last.
  template <class Visit>
  void eachAbove(const CardMix& mix, const Summary& least, bool ascending, std::size_t number, const int32_t& above,
                 Visit visit) const {
    if (mix.root != kNone) visitAbove(mix.root, least, ascending, number, above, visit);
  }

  /// Returns the first broken invariant; empty if there is none.
  std::string check() const;
  /// Returns the nodes of a mix in their order.
  std::vector<NodeId> inOrder(const CardMix& mix) const;
  /// Returns the memory used by the index.
  std::size_t bytes() const;

 private:
  static constexpr uint32_t kWidth = 32;
  struct alignas(64) Block {
    uint32_t count = 0;
    uint32_t parent = kNone;
    bool leaf = true;
    std::array<int32_t, kWidth> fill;    ///< fill of the lowest node below each child
    std::array<uint64_t, kWidth> label;  ///< its name's number, to break ties without another access
    std::array<uint32_t, kWidth> child;  ///< node ids in a leaf, block ids above
    std::array<Summary, kWidth> summary;
  };
  struct Place {
    MixId mix = 0;
    uint32_t leaf = kNone;
  };
  struct Key {
    int32_t fill;
    uint64_t label;
    bool operator<(const Key& other) const { return fill != other.fill ? fill < other.fill : label < other.label; }
    bool operator==(const Key&) const = default;
  };

  template <class Accept>
  Acceptance ascend(uint32_t block, const Summary& least, int32_t from, Accept& accept, FoundNode& found) const {
    const Block& b = blocks_[block];
    for (uint32_t i = 0; i < b.count; ++i) {
      if (b.leaf) {
        if (b.fill[i] < from || !b.summary[i].reaches(least)) continue;
        const Acceptance answer = accept(b.child[i], int64_t{b.fill[i]});
        if (answer == Acceptance::yes) found = {b.child[i], b.fill[i]};
        if (answer != Acceptance::no) return answer;
      } else {
        // No node below has a higher fill than the next child's lowest.
        if ((i + 1 < b.count && b.fill[i + 1] < from) || !b.summary[i].reaches(least)) continue;
        if (const Acceptance answer = ascend(b.child[i], least, from, accept, found); answer != Acceptance::no)
          return answer;
      }
    }
    return Acceptance::no;
  }
  template <class Accept>
  Acceptance descend(uint32_t block, const Summary& least, Accept& accept, FoundNode& found) const {
    const Block& b = blocks_[block];
    for (uint32_t i = b.count; i-- > 0;) {
      if (!b.summary[i].reaches(least)) continue;
      if (b.leaf) {
        const Acceptance answer = accept(b.child[i], int64_t{b.fill[i]});
        if (answer == Acceptance::yes) found = {b.child[i], b.fill[i]};
        if (answer != Acceptance::no) return answer;
      } else {
        if (const Acceptance answer = descend(b.child[i], least, accept, found); answer != Acceptance::no)
          return answer;
      }
    }
    return Acceptance::no;
  }
  template <class Visit>
  void visitAbove(uint32_t block, const Summary& least, bool ascending, std::size_t number, const int32_t& above,
                  Visit& visit) const {
    const Block& b = blocks_[block];
    for (uint32_t n = 0; n < b.count; ++n) {
      const uint32_t i = ascending ? n : b.count - 1 - n;
      if (b.summary[i].wide(number) <= above || !b.summary[i].reaches(least)) continue;
      if (b.leaf) {
        visit(b.child[i], int64_t{b.fill[i]}, b.summary[i].wide(number));
      } else {
        visitAbove(b.child[i], least, ascending, number, above, visit);
      }
    }
  }
  /// True if the previous node in its leaf has another fill; false if it is the first in its leaf.
  bool firstOfItsFill(NodeId id) const {
    const Block& leaf = blocks_[places_[id].leaf];
    const uint32_t slot = slotIn(leaf, id);
    return slot > 0 && leaf.fill[slot - 1] != leaf.fill[slot];
  }

  static uint32_t slotIn(const Block& block, uint32_t child) {
    uint32_t slot = 0;
    while (block.child[slot] != child) ++slot;
    return slot;
  }
  static Key keyAt(const Block& block, uint32_t slot) { return {block.fill[slot], block.label[slot]}; }
  static void setKey(Block& block, uint32_t slot, const Key& key) {
    block.fill[slot] = key.fill;
    block.label[slot] = key.label;
  }
  /// Returns the number of children whose first key is below `key`.
  static uint32_t countBelow(const Block& block, const Key& key);
  /// Changes a node's label without moving it.
  void relabel(NodeId id, uint64_t label);

  uint32_t obtainBlock(bool leaf);
  void releaseBlock(uint32_t block);
  /// Splits the full child in a slot; the parent must have space.
  void split(uint32_t parent, uint32_t slot);
  /// Insert and remove a slot of a block.
  static void open(Block& block, uint32_t slot);
  static void cut(Block& block, uint32_t slot);
  /// Returns the bound of all entries of a block.
  static Summary boundOf(const Block& block);
  /// Updates the parent's entry for a block. Returns true if it changed.
  bool restate(uint32_t block);
  /// Joins a small block with a neighbour. Returns the joined block, or kNone if none was joined.
  uint32_t mergeIfSmall(uint32_t block);
  void adopt(uint32_t block, uint32_t slot);
  /// Updates a node in place; returns false if it has to move.
  bool stays(NodeId id, const Key& key, const Summary& summary);
  void insert(NodeId id, MixId mix, const Key& key, const Summary& summary);
  void erase(NodeId id);
  std::string checkBlock(uint32_t block, uint32_t parent, MixId mix, std::vector<NodeId>& inOrder) const;
  void collect(uint32_t block, std::vector<NodeId>& out) const;

  LargeArray<uint64_t> labels_;  // by node: the order of the names
  LargeArray<Place> places_;     // by node
  std::vector<CardMix> mixes_;   // [0] is the catch-all
  std::vector<MixId> freeMixes_;
  std::map<std::vector<TypeId>, MixId> mixIds_;
  LargeArray<Block> blocks_;  // of all mixes
  std::vector<uint32_t> freeBlocks_;
};

}  // namespace egpu::scheduler
