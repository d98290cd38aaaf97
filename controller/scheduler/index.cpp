#include "controller/scheduler/index.h"

#include <iterator>

namespace egpu::scheduler {
namespace {

constexpr uint64_t kLabels = uint64_t{1} << 62;  // labels lie in (0, kLabels)
constexpr uint64_t kGap = uint64_t{1} << 32;
constexpr uint32_t kSmall = 8;
constexpr uint32_t kJoined = 24;  // leaves room, so that the next insert does not split again

using Names = NodeIndex::Names;

/// Makes room next to `at` by spreading the labels of the smallest surrounding range that is sparse enough (after
/// Bender et al., "Two simplified algorithms for maintaining order in a list": amortised logarithmic).
void spread(std::vector<NodeIndex::Key>& keys, const Names& names, Names::const_iterator at, NodeId fresh,
            uint64_t around) {
  auto low = at, high = std::next(at);  // [low, high) get new labels; at itself is the one without
  uint64_t members = 1;
  double sparse = 1;
  for (int bits = 1; bits <= 62; ++bits) {
    sparse *= 4.0 / 3;
    const uint64_t size = uint64_t{1} << bits;
    const uint64_t from = around & ~(size - 1);
    auto inside = [&](NodeId id) { return id != fresh && keys[id].label - from < size; };
    while (low != names.begin() && inside(std::prev(low)->second)) --low, ++members;
    while (high != names.end() && inside(high->second)) ++high, ++members;
    if (static_cast<double>(members) > sparse || size / (members + 1) < 2) continue;
    uint64_t label = from;
    for (auto it = low; it != high; ++it) keys[it->second].label = label += size / (members + 1);
    return;
  }
}

}  // namespace

Scale Scale::forCards(int64_t largestMemory) {
  Scale scale{0, 0};
  while ((largestMemory >> scale.shift) > Summary::kMax) ++scale.shift;
  constexpr int64_t kSteps = Summary::kMemorySteps;
  while ((largestMemory >> scale.shift >> scale.step) >= kSteps) ++scale.step;
  return scale;
}

void NodeIndex::name(NodeId id, const Names& names, Names::const_iterator at) {
  if (id >= keys_.size()) {
    keys_.resize(id + 1);
    places_.resize(id + 1);
  }
  const bool hasPrevious = at != names.begin(), hasNext = std::next(at) != names.end();
  const uint64_t below = hasPrevious ? keys_[std::prev(at)->second].label : 0;
  const uint64_t above = hasNext ? keys_[std::next(at)->second].label : kLabels;
  uint64_t& label = keys_[id].label;
  if (above - below < 2) {
    spread(keys_, names, at, id, hasPrevious ? below : above);
  } else if (hasPrevious && !hasNext && above - below > kGap) {
    label = below + kGap;  // names that come in order leave the room to those after them
  } else {
    label = below + (above - below) / 2;
  }
}

NodeIndex::ShapeId NodeIndex::shapeFor(const std::vector<TypeId>& types, int64_t largestMemory) {
  if (auto it = shapeIds_.find(types); it != shapeIds_.end()) return it->second;
  if (shapeIds_.size() >= kMaxShapes) {
    Shape& any = shapes_[0];
    std::vector<TypeId> all;
    std::set_union(any.types.begin(), any.types.end(), types.begin(), types.end(), std::back_inserter(all));
    any.types = std::move(all);
    return 0;
  }
  ShapeId id;
  if (freeShapes_.empty()) {
    id = static_cast<ShapeId>(shapes_.size());
    shapes_.emplace_back();
  } else {
    id = freeShapes_.back();
    freeShapes_.pop_back();
  }
  Shape& shape = shapes_[id];
  shape.types = types;
  shape.scale = Scale::forCards(largestMemory);
  shapeIds_.emplace(types, id);
  return id;
}

void NodeIndex::put(NodeId id, ShapeId shape, int64_t fill, const Summary& summary) {
  Place& place = places_[id];
  if (place.leaf != kNone && place.shape == shape) {
    Block& leaf = blocks_[place.leaf];
    uint32_t at = 0;
    while (leaf.child[at] != id) ++at;
    const Key key{fill, keys_[id].label};
    // Most changes leave a node where it is; the edges of a leaf take the long way.
    const bool stays =
        key.fill == keys_[id].fill ||
        (at > 0 && at + 1 < leaf.count && keys_[leaf.child[at - 1]] < key && key < keys_[leaf.child[at + 1]]);
    if (stays) {
      keys_[id].fill = fill;
      leaf.summary[at] = summary;
      for (uint32_t b = place.leaf; restate(b);) b = blocks_[b].parent;
      return;
    }
  }
  if (place.leaf != kNone) {
    ++shapes_[shape].nodes;  // keeps the shape alive if the node was its last and returns to it
    erase(id);
    --shapes_[shape].nodes;
  }
  keys_[id].fill = fill;
  insert(id, shape, summary);
}

void NodeIndex::remove(NodeId id) {
  if (holds(id)) erase(id);
}

uint32_t NodeIndex::obtainBlock(bool leaf) {
  uint32_t id;
  if (freeBlocks_.empty()) {
    id = static_cast<uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else {
    id = freeBlocks_.back();
    freeBlocks_.pop_back();
  }
  blocks_[id].count = 0;
  blocks_[id].parent = kNone;
  blocks_[id].leaf = leaf;
  return id;
}

void NodeIndex::releaseBlock(uint32_t block) {
  blocks_[block].count = 0;
  freeBlocks_.push_back(block);
}

uint32_t NodeIndex::slotOf(uint32_t block) const {
  const Block& parent = blocks_[blocks_[block].parent];
  uint32_t slot = 0;
  while (parent.child[slot] != block) ++slot;
  return slot;
}

void NodeIndex::adopt(uint32_t block, uint32_t slot) {
  const Block& b = blocks_[block];
  if (b.leaf) {
    places_[b.child[slot]].leaf = block;
  } else {
    blocks_[b.child[slot]].parent = block;
  }
}

void NodeIndex::split(uint32_t parentId, uint32_t slot) {
  const uint32_t lowId = blocks_[parentId].child[slot];
  const uint32_t highId = obtainBlock(blocks_[lowId].leaf);
  Block& parent = blocks_[parentId];
  Block& low = blocks_[lowId];
  Block& high = blocks_[highId];
  high.parent = parentId;
  high.count = low.count / 2;
  low.count -= high.count;
  for (uint32_t i = 0; i < high.count; ++i) {
    high.child[i] = low.child[low.count + i];
    high.first[i] = low.first[low.count + i];
    high.summary[i] = low.summary[low.count + i];
    adopt(highId, i);
  }
  for (uint32_t i = parent.count; i > slot + 1; --i) {
    parent.child[i] = parent.child[i - 1];
    parent.first[i] = parent.first[i - 1];
    parent.summary[i] = parent.summary[i - 1];
  }
  ++parent.count;
  parent.child[slot + 1] = highId;
  parent.first[slot + 1] = high.first[0];
  parent.summary[slot] = Summary();
  parent.summary[slot + 1] = Summary();
  for (uint32_t i = 0; i < low.count; ++i) parent.summary[slot].raise(low.summary[i]);
  for (uint32_t i = 0; i < high.count; ++i) parent.summary[slot + 1].raise(high.summary[i]);
}

void NodeIndex::insert(NodeId id, ShapeId shapeId, const Summary& summary) {
  Shape& shape = shapes_[shapeId];
  ++shape.nodes;
  if (shape.root == kNone) shape.root = obtainBlock(true);
  if (blocks_[shape.root].count == kWidth) {
    const uint32_t root = obtainBlock(false);
    Block& top = blocks_[root];
    top.count = 1;
    top.child[0] = shape.root;
    top.first[0] = blocks_[shape.root].first[0];
    blocks_[shape.root].parent = root;
    shape.root = root;
    split(root, 0);
  }
  // On the way down, full children are split (their parent has room by then) and the bounds raised.
  const Key key = keys_[id];
  auto below = [&](const Block& b) {  // how many children start at or below the key
    uint32_t low = 0, high = b.count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (keys_[b.first[middle]] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  uint32_t at = shape.root;
  while (!blocks_[at].leaf) {
    uint32_t slot = below(blocks_[at]);
    if (slot > 0) --slot;
    if (blocks_[blocks_[at].child[slot]].count == kWidth) {
      split(at, slot);
      if (keys_[blocks_[at].first[slot + 1]] < key) ++slot;
    }
    Block& b = blocks_[at];
    b.summary[slot].raise(summary);
    if (key < keys_[b.first[slot]]) b.first[slot] = id;
    at = b.child[slot];
  }
  Block& leaf = blocks_[at];
  const uint32_t slot = below(leaf);
  for (uint32_t i = leaf.count; i > slot; --i) {
    leaf.child[i] = leaf.child[i - 1];
    leaf.first[i] = leaf.first[i - 1];
    leaf.summary[i] = leaf.summary[i - 1];
  }
  ++leaf.count;
  leaf.child[slot] = id;
  leaf.first[slot] = id;
  leaf.summary[slot] = summary;
  places_[id] = {shapeId, at};
}

void NodeIndex::cut(Block& block, uint32_t slot) {
  --block.count;
  for (uint32_t i = slot; i < block.count; ++i) {
    block.child[i] = block.child[i + 1];
    block.first[i] = block.first[i + 1];
    block.summary[i] = block.summary[i + 1];
  }
}

bool NodeIndex::restate(uint32_t block) {
  const Block& b = blocks_[block];
  if (b.parent == kNone) return false;
  Block& parent = blocks_[b.parent];
  const uint32_t slot = slotOf(block);
  Summary all;
  for (uint32_t i = 0; i < b.count; ++i) all.raise(b.summary[i]);
  if (parent.first[slot] == b.first[0] && parent.summary[slot] == all) return false;
  parent.first[slot] = b.first[0];
  parent.summary[slot] = all;
  return true;
}

uint32_t NodeIndex::mergeIfSmall(uint32_t block) {
  if (blocks_[block].count > kSmall || blocks_[block].parent == kNone) return kNone;
  const uint32_t parentId = blocks_[block].parent;
  Block& parent = blocks_[parentId];
  const uint32_t slot = slotOf(block);
  for (uint32_t left : {slot - 1, slot}) {
    if (left >= parent.count || left + 1 >= parent.count) continue;  // slot − 1 wraps for the first child
    const uint32_t lowId = parent.child[left], highId = parent.child[left + 1];
    Block& low = blocks_[lowId];
    const Block& high = blocks_[highId];
    if (low.count + high.count > kJoined) continue;
    for (uint32_t i = 0; i < high.count; ++i) {
      low.child[low.count] = high.child[i];
      low.first[low.count] = high.first[i];
      low.summary[low.count] = high.summary[i];
      adopt(lowId, low.count++);
    }
    cut(parent, left + 1);
    releaseBlock(highId);
    return lowId;
  }
  return kNone;
}

void NodeIndex::erase(NodeId id) {
  const ShapeId shapeId = places_[id].shape;
  Shape& shape = shapes_[shapeId];
  uint32_t block = places_[id].leaf;
  places_[id].leaf = kNone;
  uint32_t slot = 0;
  while (blocks_[block].child[slot] != id) ++slot;
  cut(blocks_[block], slot);
  --shape.nodes;
  // A block left empty goes, and its parent with it if it was the only child.
  while (blocks_[block].count == 0 && blocks_[block].parent != kNone) {
    const uint32_t parent = blocks_[block].parent;
    cut(blocks_[parent], slotOf(block));
    releaseBlock(block);
    block = parent;
  }
  if (blocks_[block].count == 0) {
    releaseBlock(block);
    shape.root = kNone;
  } else {
    // Joining takes a child from the parent, which may be small in turn; a bound that did not change ends the way up.
    while (true) {
      const uint32_t kept = mergeIfSmall(block);
      const bool joined = kept != kNone;
      if (joined) block = kept;
      const bool changed = restate(block);
      if ((!joined && !changed) || blocks_[block].parent == kNone) break;
      block = blocks_[block].parent;
    }
    while (!blocks_[shape.root].leaf && blocks_[shape.root].count == 1) {
      const uint32_t old = shape.root;
      shape.root = blocks_[old].child[0];
      blocks_[shape.root].parent = kNone;
      releaseBlock(old);
    }
  }
  if (shape.nodes == 0 && shapeId != 0) {
    shapeIds_.erase(shape.types);
    shape = Shape{};
    freeShapes_.push_back(shapeId);
  }
}

}  // namespace egpu::scheduler
