// The index over nodes that makes a decision cost a logarithm, not a scan. Internal to scheduler/.
//
// Nodes are kept in the order of (fill, name), per mix: a mix is the set of card types that a node's healthy cards
// have, so within it a request needs the same amounts nearly everywhere. Each mix is a B+-tree of 32-way blocks.
// Beside each child stands an upper bound (Summary) of what any node below has free: the search walks in the policy's
// order and skips every subtree whose bound says that nothing below can fit. The bound is never too low, so nothing is
// missed; where it is too high, the node itself (fit.h) says no and the walk goes on. So the answer is exactly that of
// a scan in the same order.
//
// The order among equals is the order of the names, kept as numbers with gaps so that no comparison touches a string.
// A large cluster's index does not fit into the processor's caches: a block is small and in one piece, and whatever a
// search looks at stands in it.
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
    std::vector<TypeId> types;  ///< sorted; of the catch-all mix: all that were ever put in
    uint32_t root = kNone;      ///< kNone: an unused slot or an empty catch-all
    uint32_t nodes = 0;
    Scale scale;
  };
  /// Above this many mixes further ones share one catch-all mix: still exact, but with looser bounds.
  static constexpr std::size_t kMaxMixes = 256;

  NodeIndex() { mixes_.resize(1); }

  using Names = std::map<std::string_view, NodeId>;
  /// Gives a node that was just added to `names` (at `at`) its number in the order of the names.
  void name(NodeId id, const Names& names, Names::const_iterator at);
  /// The mix for a set of types (sorted, unique) whose cards have at most so much; made if new. Follow with put().
  MixId mixFor(const std::vector<TypeId>& types, int64_t largestCore, int64_t largestMemory);
  /// Adds a node or moves it to where its fill (fill.h) belongs.
  void put(NodeId id, MixId mix, int64_t fill, const Summary& summary);
  void remove(NodeId id);

  bool holds(NodeId id) const { return id < places_.size() && places_[id].leaf != kNone; }
  MixId mixOf(NodeId id) const { return places_[id].mix; }
  int64_t fillOf(NodeId id) const;
  const Summary& summaryOf(NodeId id) const;
  const std::vector<CardMix>& mixes() const { return mixes_; }
  /// Whether a's name comes before b's.
  bool namedBefore(NodeId a, NodeId b) const { return labels_[a] < labels_[b]; }

  struct Found {
    NodeId node = kNone;
    int64_t fill = 0;
  };
  enum class Answer { no, yes, stop };
  /// The first node of the mix, lowest fill first, whose summary reaches `least` and for which accept(NodeId, int64_t
  /// fill) says yes; none if there is none or `accept` said stop. Equal fill: lower name first.
  /// Nodes of less fill than `from` are left out.
  template <class Accept>
  Found emptiest(const CardMix& mix, const Summary& least, Accept accept, int64_t from = 0) const {
    Found found;
    if (mix.root != kNone) ascend(mix.root, least, static_cast<int32_t>(from), accept, found);
    return found;
  }
  /// The same, highest fill first; equal fill: lower name first here, too.
  template <class Accept>
  Found fullest(const CardMix& mix, const Summary& least, Accept accept) const {
    Found found;
    if (mix.root == kNone || descend(mix.root, least, accept, found) != Answer::yes) return found;
    // Downhill, equal nodes come in the wrong order: the first of them by name is wanted. Mostly there is only one.
    return firstOfItsFill(found.node) ? found : emptiest(mix, least, accept, found.fill);
  }
  /// visit(NodeId, int64_t fill, int32_t number) for the nodes whose summary reaches `least` and has more of a wide
  /// number than `above`, which the visitor may raise; lowest fill first or last.
  template <class Visit>
  void eachAbove(const CardMix& mix, const Summary& least, bool ascending, std::size_t number, const int32_t& above,
                 Visit visit) const {
    if (mix.root != kNone) visitAbove(mix.root, least, ascending, number, above, visit);
  }

  /// Names the first broken invariant; empty if there is none.
  std::string check() const;
  /// The nodes of a mix in their order.
  std::vector<NodeId> inOrder(const CardMix& mix) const;
  /// What the index occupies.
  std::size_t bytes() const;

 private:
  static constexpr uint32_t kWidth = 32;
  struct alignas(64) Block {
    uint32_t count = 0;
    uint32_t parent = kNone;
    bool leaf = true;
    std::array<int32_t, kWidth> fill;    ///< of the lowest node below each child
    std::array<uint64_t, kWidth> label;  ///< likewise: equals are told apart where they stand
    std::array<uint32_t, kWidth> child;  ///< node ids in a leaf, blocks above
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
  Answer ascend(uint32_t block, const Summary& least, int32_t from, Accept& accept, Found& found) const {
    const Block& b = blocks_[block];
    for (uint32_t i = 0; i < b.count; ++i) {
      if (b.leaf) {
        if (b.fill[i] < from || !b.summary[i].reaches(least)) continue;
        const Answer answer = accept(b.child[i], int64_t{b.fill[i]});
        if (answer == Answer::yes) found = {b.child[i], b.fill[i]};
        if (answer != Answer::no) return answer;
      } else {
        // Nothing below is higher than the next child's lowest.
        if ((i + 1 < b.count && b.fill[i + 1] < from) || !b.summary[i].reaches(least)) continue;
        if (const Answer answer = ascend(b.child[i], least, from, accept, found); answer != Answer::no) return answer;
      }
    }
    return Answer::no;
  }
  template <class Accept>
  Answer descend(uint32_t block, const Summary& least, Accept& accept, Found& found) const {
    const Block& b = blocks_[block];
    for (uint32_t i = b.count; i-- > 0;) {
      if (!b.summary[i].reaches(least)) continue;
      if (b.leaf) {
        const Answer answer = accept(b.child[i], int64_t{b.fill[i]});
        if (answer == Answer::yes) found = {b.child[i], b.fill[i]};
        if (answer != Answer::no) return answer;
      } else {
        if (const Answer answer = descend(b.child[i], least, accept, found); answer != Answer::no) return answer;
      }
    }
    return Answer::no;
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
  /// Whether the node before it in its leaf has another fill; false if it is the leaf's first.
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
  /// How many children of a block start below a key.
  static uint32_t countBelow(const Block& block, const Key& key);
  /// Gives a node another label that leaves it where it is.
  void relabel(NodeId id, uint64_t label);

  uint32_t obtainBlock(bool leaf);
  void releaseBlock(uint32_t block);
  /// Splits the full child in a slot of a block that has room.
  void split(uint32_t parent, uint32_t slot);
  /// Makes room for a slot in a block; takes one out.
  static void open(Block& block, uint32_t slot);
  static void cut(Block& block, uint32_t slot);
  /// The bound of everything in a block.
  static Summary boundOf(const Block& block);
  /// States anew in the parent what is below a block; whether that changed anything.
  bool restate(uint32_t block);
  /// Joins a block that got small with a neighbour. Returns the block that holds both, kNone if nothing was joined.
  uint32_t mergeIfSmall(uint32_t block);
  void adopt(uint32_t block, uint32_t slot);
  /// Puts a node where it stands anew without moving it; false if it has to move.
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
