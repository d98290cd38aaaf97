// Invariants of the index, for tests and debugging.
#include "controller/scheduler/state/index.h"

namespace egpu::scheduler {

std::size_t NodeIndex::bytes() const {
  return labels_.capacity() * sizeof(uint64_t) + places_.capacity() * sizeof(Place) +
         blocks_.capacity() * sizeof(Block) + mixes_.capacity() * sizeof(CardMix);
}

void NodeIndex::collect(uint32_t block, std::vector<NodeId>& out) const {
  const Block& b = blocks_[block];
  for (uint32_t i = 0; i < b.count; ++i) {
    if (b.leaf) {
      out.push_back(b.child[i]);
    } else {
      collect(b.child[i], out);
    }
  }
}

std::vector<NodeId> NodeIndex::inOrder(const CardMix& mix) const {
  std::vector<NodeId> nodes;
  if (mix.root != kNone) collect(mix.root, nodes);
  return nodes;
}

std::string NodeIndex::checkBlock(uint32_t block, uint32_t parent, MixId mix, std::vector<NodeId>& inOrder) const {
  const Block& b = blocks_[block];
  if (b.parent != parent) return "a block does not know its parent";
  if (b.count == 0 || b.count > kWidth) return "a block has an impossible number of children";
  for (uint32_t i = 0; i < b.count; ++i) {
    if (b.leaf) {
      const NodeId node = b.child[i];
      if (places_[node].leaf != block || places_[node].mix != mix) return "a node is elsewhere than noted";
      if (b.label[i] != labels_[node]) return "a node stands under another label";
      inOrder.push_back(node);
      continue;
    }
    if (std::string fault = checkBlock(b.child[i], block, mix, inOrder); !fault.empty()) return fault;
    const Block& child = blocks_[b.child[i]];
    if (!(keyAt(b, i) == keyAt(child, 0))) return "a block's key is not that of its lowest node";
    if (!(b.summary[i] == boundOf(child))) return "a bound is not the maximum of what is below";
  }
  return {};
}

std::string NodeIndex::check() const {
  std::size_t inTrees = 0, placed = 0, live = 0;
  for (MixId id = 0; id < mixes_.size(); ++id) {
    const CardMix& mix = mixes_[id];
    if ((mix.root == kNone) != (mix.nodes == 0)) return "a mix miscounts its nodes";
    if (mix.root == kNone) continue;
    if (id != 0) {
      ++live;
      auto it = mixIds_.find(mix.types);
      if (it == mixIds_.end() || it->second != id) return "a mix can't be found by its types";
    }
    std::vector<NodeId> inOrder;
    if (std::string fault = checkBlock(mix.root, kNone, id, inOrder); !fault.empty()) return fault;
    if (inOrder.size() != mix.nodes) return "a mix miscounts its nodes";
    for (std::size_t i = 1; i < inOrder.size(); ++i) {
      const Key low{static_cast<int32_t>(fillOf(inOrder[i - 1])), labels_[inOrder[i - 1]]};
      const Key high{static_cast<int32_t>(fillOf(inOrder[i])), labels_[inOrder[i]]};
      if (!(low < high)) return "nodes are out of order";
    }
    inTrees += inOrder.size();
  }
  if (live != mixIds_.size()) return "an empty mix was kept";
  for (const Place& place : places_)
    if (place.leaf != kNone) ++placed;
  return placed == inTrees ? "" : "a node is noted but not in its tree";
}

}  // namespace egpu::scheduler
