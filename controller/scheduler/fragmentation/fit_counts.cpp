#include "controller/scheduler/fragmentation/fit_counts.h"

#include <algorithm>

namespace egpu::scheduler::fragmentation {
namespace {

constexpr std::size_t kMaxCachedCards = 1 << 14;

/// Returns how many parts of copies fit on the card.
int32_t capacityFor(const DemandShape& shape, const CardState& card) {
  if (card.type >= shape.on.size() || !shape.on[card.type].possible) return 0;
  if (shape.wholeCards) return card.empty ? 1 : 0;
  const Amount& charged = shape.on[card.type].charged;
  int64_t capacity = shape.cards > 1 ? 1 : 1000;  // a copy has at most one part per card
  if (charged.core > 0) capacity = std::min(capacity, card.free.core / charged.core);
  if (charged.memory > 0) capacity = std::min(capacity, card.free.memory / charged.memory);
  return static_cast<int32_t>(std::max<int64_t>(0, capacity));
}

}  // namespace

std::size_t FitCounts::Hash::operator()(const CardState& card) const {
  uint64_t hash = static_cast<uint64_t>(card.free.core) << 33 ^ static_cast<uint64_t>(card.free.memory) ^
                  uint64_t { card.type } << 1 ^ (card.empty ? 1 : 0);
  hash *= 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

const Counts& FitCounts::capacityOn(const CardState& card) {
  if (const auto known = capacities_.find(card); known != capacities_.end()) return known->second;
  if (capacities_.size() == kMaxCachedCards) capacities_.clear();
  Counts& capacity = capacities_[card];
  for (const DemandShape& shape : shapes_) capacity.push_back(capacityFor(shape, card));
  return capacity;
}

Counts FitCounts::capacityOn(const NodeState& node) {
  Counts sum(shapes(), 0);
  for (const CardState& card : node.cards) {
    const Counts& capacity = capacityOn(card);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += capacity[i];
  }
  return sum;
}

}  // namespace egpu::scheduler::fragmentation
