// The index's invariants, for tests and for whoever suspects it.
#include "controller/scheduler/index.h"

namespace egpu::scheduler {

const Summary& NodeIndex::summaryOf(NodeId id) const {
  const Block& leaf = blocks_[places_[id].leaf];
  uint32_t slot = 0;
  while (leaf.child[slot] != id) ++slot;
  return leaf.summary[slot];
}

std::size_t NodeIndex::bytes() const {
  return keys_.capacity() * sizeof(Key) + places_.capacity() * sizeof(Place) + blocks_.capacity() * sizeof(Block) +
         shapes_.capacity() * sizeof(Shape);
}

std::string NodeIndex::checkBlock(uint32_t block, uint32_t parent, ShapeId shape, std::vector<NodeId>& inOrder) const {
  const Block& b = blocks_[block];
  if (b.parent != parent) return "a block does not know its parent";
  if (b.count == 0 || b.count > kWidth) return "a block has an impossible number of children";
  for (uint32_t i = 0; i < b.count; ++i) {
    if (b.leaf) {
      const NodeId node = b.child[i];
      if (b.first[i] != node) return "a leaf's first is another node";
      if (places_[node].leaf != block || places_[node].shape != shape) return "a node is elsewhere than noted";
      inOrder.push_back(node);
      continue;
    }
    const std::size_t before = inOrder.size();
    if (std::string fault = checkBlock(b.child[i], block, shape, inOrder); !fault.empty()) return fault;
    if (b.first[i] != inOrder[before]) return "a block's first is not its lowest node";
    Summary all;
    const Block& child = blocks_[b.child[i]];
    for (uint32_t j = 0; j < child.count; ++j) all.raise(child.summary[j]);
    if (!(b.summary[i] == all)) return "a bound is not the maximum of what is below";
  }
  return {};
}

std::string NodeIndex::check() const {
  std::size_t inTrees = 0, placed = 0, live = 0;
  for (ShapeId id = 0; id < shapes_.size(); ++id) {
    const Shape& shape = shapes_[id];
    if ((shape.root == kNone) != (shape.nodes == 0)) return "a shape miscounts its nodes";
    if (shape.root == kNone) continue;
    if (id != 0) {
      ++live;
      auto it = shapeIds_.find(shape.types);
      if (it == shapeIds_.end() || it->second != id) return "a shape can't be found by its types";
    }
    std::vector<NodeId> inOrder;
    if (std::string fault = checkBlock(shape.root, kNone, id, inOrder); !fault.empty()) return fault;
    if (inOrder.size() != shape.nodes) return "a shape miscounts its nodes";
    for (std::size_t i = 1; i < inOrder.size(); ++i)
      if (!(keys_[inOrder[i - 1]] < keys_[inOrder[i]])) return "nodes are out of order";
    inTrees += inOrder.size();
  }
  if (live != shapeIds_.size()) return "an empty shape was kept";
  for (const Place& place : places_)
    if (place.leaf != kNone) ++placed;
  return placed == inTrees ? "" : "a node is noted but not in its tree";
}

}  // namespace egpu::scheduler
