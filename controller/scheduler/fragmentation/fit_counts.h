// How many copies of a request a node could hold, were it given nothing else: the number that both scarcity and worth
// are counted in. Internal to scheduler/.
//
//   copies = min(⌊Σ over its cards of what each has room for ÷ cards per copy⌋, ⌊CPU left ÷ CPU⌋, ⌊memory left ÷ memory⌋)
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "controller/scheduler/fragmentation/node_states.h"

namespace egpu::scheduler::fragmentation {

/// What a request takes, as far as copies are concerned.
struct DemandShape {
  /// What it takes of one card of a type, charged.
  struct OnType {
    bool possible = false;
    Amount charged;
  };
  int64_t cards = 1;        ///< per copy, ≥ 1
  bool wholeCards = false;  ///< each must be empty
  NodeAmount ofNode;        ///< CPU and memory per copy; 0 = none
  std::vector<OnType> on;   ///< by TypeId; types beyond its end are not possible
};

/// By shape.
using Counts = std::vector<int32_t>;

/// Copies of a list of shapes.
class FitCounts {
 public:
  explicit FitCounts(std::vector<DemandShape> shapes) : shapes_(std::move(shapes)) {}

  std::size_t shapes() const { return shapes_.size(); }
  /// What a card has room for, in single cards' parts. Kept, as few cards are unlike all others; valid until the next
  /// call.
  const Counts& roomOn(const CardState& card);
  /// The same of all cards of a node.
  Counts roomOn(const NodeState& node);
  /// Of the shape at `at`, on a node with so much CPU and memory left and so much room on its cards.
  int32_t copies(std::size_t at, const NodeAmount& free, int32_t room) const {
    const DemandShape& shape = shapes_[at];
    int64_t copies = shape.cards == 1 ? room : room / shape.cards;
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
  std::unordered_map<CardState, Counts, Hash> rooms_;
};

}  // namespace egpu::scheduler::fragmentation
