// Counts how many copies of a request a node could hold if nothing else were placed there. Scarcity and worth are
// computed from this number. Internal to scheduler/.
//
//   copies = min(⌊Σ over its cards of their capacity ÷ cards per copy⌋, ⌊CPU left ÷ CPU⌋, ⌊memory left ÷ memory⌋)
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/fragmentation/node_states.h"

namespace egpu::scheduler::fragmentation {

/// The amounts of a request that determine its copies.
struct DemandShape {
  /// Amount charged on one card of a type.
  struct OnType {
    bool possible = false;
    Amount charged;
  };
  int64_t cards = 1;        ///< per copy, ≥ 1
  bool wholeCards = false;  ///< each must be empty
  NodeAmount ofNode;        ///< CPU and memory per copy; 0 = none
  std::vector<OnType> on;   ///< by TypeId; types beyond its end are not possible
};

/// Numbers by shape.
using Counts = std::vector<int32_t>;

/// Counts the copies of a list of shapes.
class FitCounts {
 public:
  explicit FitCounts(std::vector<DemandShape> shapes) : shapes_(std::move(shapes)) {}

  std::size_t shapes() const { return shapes_.size(); }
  /// Returns the capacity of a card, in parts of a copy that fit on one card. Cached, because most cards have equal
  /// states. Valid until the next call.
  const Counts& capacityOn(const CardState& card);
  /// Returns the sum over the cards of a node.
  Counts capacityOn(const NodeState& node);
  /// Returns the copies of shape `at` on a node with these free amounts and this sum of capacities of its cards.
  int32_t copies(std::size_t at, const NodeAmount& free, int32_t capacity) const {
    const DemandShape& shape = shapes_[at];
    int64_t copies = shape.cards == 1 ? capacity : capacity / shape.cards;
    if (copies == 0) return 0;
    if (shape.ofNode.cpuMilli > 0) copies = std::min(copies, free.cpuMilli / shape.ofNode.cpuMilli);
    if (shape.ofNode.memory > 0) copies = std::min(copies, free.memory / shape.ofNode.memory);
    return static_cast<int32_t>(std::max<int64_t>(0, copies));
  }

 private:
  struct Hash {
    std::size_t operator()(const CardState& card) const;
  };
  std::vector<DemandShape> shapes_;
  std::unordered_map<CardState, Counts, Hash> capacities_;
};

}  // namespace egpu::scheduler::fragmentation
