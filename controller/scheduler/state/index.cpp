#include "controller/scheduler/state/index.h"

#include <algorithm>
#include <iterator>

namespace egpu::scheduler {
namespace {

constexpr uint64_t kLabels = uint64_t{1} << 62;  // labels lie in (0, kLabels)
constexpr uint64_t kGap = uint64_t{1} << 32;
constexpr uint32_t kSmall = 8;
constexpr uint32_t kJoined = 24;  // maximum size after a join; leaves space so that the next insert does not split

using Names = NodeIndex::Names;

/// Makes a label available next to `at` by redistributing the labels of the smallest surrounding range that is sparse
/// enough (after Bender et al., "Two simplified algorithms for maintaining order in a list": amortised logarithmic).
/// Calls relabel(NodeId, uint64_t) for each changed label.
template <class Relabel>
void spread(const LargeArray<uint64_t>& labels, const Names& names, Names::const_iterator at, NodeId fresh,
            uint64_t around, Relabel relabel) {
  auto low = at, high = std::next(at);  // [low, high) get new labels; `at` is the node without a label
  uint64_t members = 1;
  double sparse = 1;
  for (int bits = 1; bits <= 62; ++bits) {
    sparse *= 4.0 / 3;
    const uint64_t size = uint64_t{1} << bits;
    const uint64_t from = around & ~(size - 1);
    auto inside = [&](NodeId id) { return id != fresh && labels[id] - from < size; };
    while (low != names.begin() && inside(std::prev(low)->second)) --low, ++members;
    while (high != names.end() && inside(high->second)) ++high, ++members;
    if (static_cast<double>(members) > sparse || size / (members + 1) < 2) continue;
    uint64_t label = from;
    for (auto it = low; it != high; ++it) relabel(it->second, label += size / (members + 1));
    return;
  }
}

}  // namespace

void NodeIndex::name(NodeId id, const Names& names, Names::const_iterator at) {
  if (id >= labels_.size()) {
    labels_.resize(id + 1);
    places_.resize(id + 1);
  }
  const bool hasPrevious = at != names.begin(), hasNext = std::next(at) != names.end();
  const uint64_t below = hasPrevious ? labels_[std::prev(at)->second] : 0;
  const uint64_t above = hasNext ? labels_[std::next(at)->second] : kLabels;
  uint64_t& label = labels_[id];
  if (above - below < 2) {
    spread(labels_, names, at, id, hasPrevious ? below : above,
           [this](NodeId node, uint64_t newLabel) { relabel(node, newLabel); });
  } else if (hasPrevious && !hasNext && above - below > kGap) {
    label = below + kGap;  // names that arrive in order leave space for later names
  } else {
    label = below + (above - below) / 2;
  }
}

NodeIndex::MixId NodeIndex::mixFor(const std::vector<TypeId>& types, int64_t largestCore, int64_t largestMemory) {
  if (auto it = mixIds_.find(types); it != mixIds_.end()) return it->second;
  if (mixIds_.size() >= kMaxMixes) {
    CardMix& any = mixes_[0];
    std::vector<TypeId> all;
    std::set_union(any.types.begin(), any.types.end(), types.begin(), types.end(), std::back_inserter(all));
    any.types = std::move(all);
    return 0;
  }
  MixId id;
  if (freeMixes_.empty()) {
    id = static_cast<MixId>(mixes_.size());
    mixes_.emplace_back();
  } else {
    id = freeMixes_.back();
    freeMixes_.pop_back();
  }
  CardMix& mix = mixes_[id];
  mix.types = types;
  mix.scale = Scale::forCards(largestCore, largestMemory);
  mixIds_.emplace(types, id);
  return id;
}

int64_t NodeIndex::fillOf(NodeId id) const {
  const Block& leaf = blocks_[places_[id].leaf];
  return leaf.fill[slotIn(leaf, id)];
}

const Summary& NodeIndex::summaryOf(NodeId id) const {
  const Block& leaf = blocks_[places_[id].leaf];
  return leaf.summary[slotIn(leaf, id)];
}

uint32_t NodeIndex::countBelow(const Block& block, const Key& key) {
  uint32_t low = 0, high = block.count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (keyAt(block, middle) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void NodeIndex::relabel(NodeId id, uint64_t label) {
  labels_[id] = label;
  if (!holds(id)) return;
  // The first node below a child determines the child's key.
  uint32_t child = id;
  for (uint32_t b = places_[id].leaf; b != kNone; child = b, b = blocks_[b].parent) {
    const uint32_t slot = slotIn(blocks_[b], child);
    blocks_[b].label[slot] = label;
    if (slot != 0) return;
  }
}

bool NodeIndex::stays(NodeId id, const Key& key, const Summary& summary) {
  const uint32_t leafId = places_[id].leaf;
  Block& leaf = blocks_[leafId];
  const uint32_t at = slotIn(leaf, id);
  if (key.fill > leaf.fill[at]) {
    if (at + 1 == leaf.count || keyAt(leaf, at + 1) < key) return false;
  } else if (key.fill < leaf.fill[at]) {
    if (at == 0 || !(keyAt(leaf, at - 1) < key)) return false;
  }
  leaf.fill[at] = key.fill;
  leaf.summary[at] = summary;
  for (uint32_t b = leafId; restate(b);) b = blocks_[b].parent;
  return true;
}

void NodeIndex::put(NodeId id, MixId mix, int64_t fill, const Summary& summary) {
  const Key key{static_cast<int32_t>(fill), labels_[id]};
  if (holds(id)) {
    if (places_[id].mix == mix && stays(id, key, summary)) return;
    ++mixes_[mix].nodes;  // keeps the mix if its last node returns to it
    erase(id);
    --mixes_[mix].nodes;
  }
  insert(id, mix, key, summary);
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

void NodeIndex::adopt(uint32_t block, uint32_t slot) {
  const Block& b = blocks_[block];
  if (b.leaf) {
    places_[b.child[slot]].leaf = block;
  } else {
    blocks_[b.child[slot]].parent = block;
  }
}

void NodeIndex::open(Block& b, uint32_t slot) {
  std::copy_backward(&b.fill[slot], &b.fill[b.count], &b.fill[b.count] + 1);
  std::copy_backward(&b.label[slot], &b.label[b.count], &b.label[b.count] + 1);
  std::copy_backward(&b.child[slot], &b.child[b.count], &b.child[b.count] + 1);
  std::copy_backward(&b.summary[slot], &b.summary[b.count], &b.summary[b.count] + 1);
  ++b.count;
}

void NodeIndex::cut(Block& b, uint32_t slot) {
  std::copy(&b.fill[slot] + 1, &b.fill[0] + b.count, &b.fill[slot]);
  std::copy(&b.label[slot] + 1, &b.label[0] + b.count, &b.label[slot]);
  std::copy(&b.child[slot] + 1, &b.child[0] + b.count, &b.child[slot]);
  std::copy(&b.summary[slot] + 1, &b.summary[0] + b.count, &b.summary[slot]);
  --b.count;
}

Summary NodeIndex::boundOf(const Block& block) {
  Summary all;
  for (uint32_t i = 0; i < block.count; ++i) all.raise(block.summary[i]);
  return all;
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
    setKey(high, i, keyAt(low, low.count + i));
    high.summary[i] = low.summary[low.count + i];
    adopt(highId, i);
  }
  open(parent, slot + 1);
  parent.child[slot + 1] = highId;
  setKey(parent, slot + 1, keyAt(high, 0));
  parent.summary[slot] = boundOf(low);
  parent.summary[slot + 1] = boundOf(high);
}

void NodeIndex::insert(NodeId id, MixId mixId, const Key& key, const Summary& summary) {
  CardMix& mix = mixes_[mixId];
  ++mix.nodes;
  if (mix.root == kNone) mix.root = obtainBlock(true);
  if (blocks_[mix.root].count == kWidth) {
    const uint32_t root = obtainBlock(false);
    Block& top = blocks_[root];
    top.count = 1;
    top.child[0] = mix.root;
    setKey(top, 0, keyAt(blocks_[mix.root], 0));
    blocks_[mix.root].parent = root;
    mix.root = root;
    split(root, 0);
  }
  // On the way down, splits full children (their parent has space) and raises the bounds.
  uint32_t at = mix.root;
  while (!blocks_[at].leaf) {
    uint32_t slot = countBelow(blocks_[at], key);
    if (slot > 0) --slot;
    if (blocks_[blocks_[at].child[slot]].count == kWidth) {
      split(at, slot);
      if (keyAt(blocks_[at], slot + 1) < key) ++slot;
    }
    Block& b = blocks_[at];
    b.summary[slot].raise(summary);
    if (key < keyAt(b, slot)) setKey(b, slot, key);
    at = b.child[slot];
  }
  Block& leaf = blocks_[at];
  const uint32_t slot = countBelow(leaf, key);
  open(leaf, slot);
  leaf.child[slot] = id;
  setKey(leaf, slot, key);
  leaf.summary[slot] = summary;
  places_[id] = {mixId, at};
}

bool NodeIndex::restate(uint32_t block) {
  const Block& b = blocks_[block];
  if (b.parent == kNone) return false;
  Block& parent = blocks_[b.parent];
  const uint32_t slot = slotIn(parent, block);
  const Summary all = boundOf(b);
  if (keyAt(parent, slot) == keyAt(b, 0) && parent.summary[slot] == all) return false;
  setKey(parent, slot, keyAt(b, 0));
  parent.summary[slot] = all;
  return true;
}

uint32_t NodeIndex::mergeIfSmall(uint32_t block) {
  if (blocks_[block].count > kSmall || blocks_[block].parent == kNone) return kNone;
  Block& parent = blocks_[blocks_[block].parent];
  const uint32_t slot = slotIn(parent, block);
  for (uint32_t left : {slot - 1, slot}) {
    if (left >= parent.count || left + 1 >= parent.count) continue;  // slot − 1 wraps for the first child
    const uint32_t lowId = parent.child[left], highId = parent.child[left + 1];
    Block& low = blocks_[lowId];
    const Block& high = blocks_[highId];
    if (low.count + high.count > kJoined) continue;
    for (uint32_t i = 0; i < high.count; ++i) {
      low.child[low.count] = high.child[i];
      setKey(low, low.count, keyAt(high, i));
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
  const MixId mixId = places_[id].mix;
  CardMix& mix = mixes_[mixId];
  uint32_t block = places_[id].leaf;
  places_[id].leaf = kNone;
  cut(blocks_[block], slotIn(blocks_[block], id));
  --mix.nodes;
  // Removes empty blocks, and their parents if they become empty.
  while (blocks_[block].count == 0 && blocks_[block].parent != kNone) {
    const uint32_t parent = blocks_[block].parent;
    cut(blocks_[parent], slotIn(blocks_[parent], block));
    releaseBlock(block);
    block = parent;
  }
  if (blocks_[block].count == 0) {
    releaseBlock(block);
    mix.root = kNone;
  } else {
    // A join removes a child of the parent, which may become small, too. The loop ends at the first unchanged bound.
    while (true) {
      const uint32_t merged = mergeIfSmall(block);
      const bool joined = merged != kNone;
      if (joined) block = merged;
      const bool changed = restate(block);
      if ((!joined && !changed) || blocks_[block].parent == kNone) break;
      block = blocks_[block].parent;
    }
    while (!blocks_[mix.root].leaf && blocks_[mix.root].count == 1) {
      const uint32_t old = mix.root;
      mix.root = blocks_[old].child[0];
      blocks_[mix.root].parent = kNone;
      releaseBlock(old);
    }
  }
  if (mix.nodes == 0 && mixId != 0) {
    mixIds_.erase(mix.types);
    mix = CardMix{};
    freeMixes_.push_back(mixId);
  }
}

}  // namespace egpu::scheduler
