// How many copies of each of a list of shapes of request a node could hold, were it given nothing else: the number that
// both scarcity and worth are counted in. Internal to scheduler/.
//
// Copies on a node = min(⌊Σ over its cards of what each has room for ÷ cards per copy⌋, ⌊CPU left ÷ CPU⌋,
// ⌊memory left ÷ memory⌋). CPU beyond 4,000 cores and memory beyond 4 TiB count as that, memory in whole MiB.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/scheduler/fragmentation/node_state.h"
#include "controller/scheduler/state/names.h"

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

/// Per shape, what the cards of a node have room for, in single cards' parts.
using Parts = std::vector<uint16_t>;

class FitCounts {
 public:
  /// Shapes are padded to a multiple of kLanes, so that loops over them need no remainder.
  static constexpr std::size_t kLanes = 8;
  explicit FitCounts(std::vector<DemandShape> shapes);

  std::size_t shapes() const { return shapes_.size(); }
  std::size_t padded() const { return padded_; }

  /// What a node's cards have room for, per shape.
  void partsOn(const NodeState& node, Parts& sum);
  /// The same with one more card, or with one less that was among them.
  void add(const CardState& card, Parts& sum);
  void take(const CardState& card, Parts& sum);

  /// Adds to each shape's sum its copies, of which `parts` is the sum over the cards, times the nodes that are alike.
  /// `sum` has padded() numbers.
  void addCopies(const NodeAmount& free, const Parts& parts, double nodes, std::span<double> sum) const;
  /// Σ of those copies · worth of a copy; `perCopy` has padded() numbers.
  float worth(const NodeAmount& free, const Parts& parts, std::span<const float> perCopy) const;
  /// The same, were a card that is among them in another state.
  float worthWith(const NodeAmount& free, const Parts& parts, const CardState& was, const CardState& becomes,
                  std::span<const float> perCopy);

 private:
  /// What the node has left, in the terms of the reciprocals.
  struct Left {
    explicit Left(const NodeAmount& free);
    float cpu, memory;
  };
  float copiesOf(std::size_t shape, const Left& left, uint16_t parts) const;
  /// Σ of copies · worth of a copy, of so many parts as partsOf(shape) says.
  template <class PartsOf>
  float worthOf(const NodeAmount& free, PartsOf partsOf, std::span<const float> perCopy) const;
  /// The same of `parts` with `less` taken away and `more` added, shape by shape.
  float worthOfChange(const NodeAmount& free, const uint16_t* parts, const uint16_t* less, const uint16_t* more,
                      std::span<const float> perCopy) const;
  /// Where in rows_ stands what a card has room for, per shape: the same for equal cards, so it is kept. Good until
  /// makeRoom() is called.
  std::size_t rowOf(const CardState& card);
  /// For so many more rows.
  void makeRoom(std::size_t rows);
  void fill(const CardState& card, uint16_t* parts) const;

  std::vector<DemandShape> shapes_;
  std::size_t padded_;
  std::vector<float> perCopy_, perCpu_, perMemory_;  // reciprocals; 0: no constraint
  std::vector<float> cpuFree_, memoryFree_;          // what counts as unconstrained: a large number, else 0
  NameTable known_;                                  // rows, by hash of the card's state
  std::vector<CardState> cards_;                     // by row
  std::vector<uint16_t> rows_;
};

}  // namespace egpu::scheduler::fragmentation
