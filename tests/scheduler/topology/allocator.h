// Allocates sets of whole cards of one node, and remembers which are free. A pure value for programs and tests with one
// node; the scheduler itself chooses among the free cards of its cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/scheduler/topology/dgx.h"
#include "controller/scheduler/topology/wiring.h"

namespace egpu::scheduler::topology {

enum class Method {
  simple,      ///< the required cards, then the lowest
  bestEffort,  ///< best_effort.h
  fixedSets,   ///< dgx.h
};

class Allocator {
 public:
  using Cards = std::vector<uint32_t>;  ///< ascending and distinct in results

  /// All cards of the node are free initially. At most kMaxCards are used.
  Allocator(const std::vector<v1alpha::Card>& cards, Method method);

  /// Returns the method's choice among `available` that contains all of `required`, without allocating it. Empty if
  /// there is none: too few cards, a required card that is not available, more cards required than `size`, a card that
  /// is unknown or listed twice, or size 0.
  Cards choose(const Cards& available, const Cards& required, uint32_t size) const;

  /// Allocates `size` free cards. If that is impossible, returns an empty list and allocates none.
  Cards allocate(uint32_t size);
  /// Allocates exactly these cards, or none. Returns false if one is not free, unknown or listed twice.
  bool allocateSpecific(const Cards& cards);
  /// Releases these cards, or none. Returns false if one is free already, unknown or listed twice.
  bool free(const Cards& cards);

  Cards freeCards() const;

 private:
  Set choose(const CardSetRequest& wish) const;

  Method method_;
  std::size_t cards_;
  Wiring wiring_;
  Machine machine_;
  Set free_;
};

}  // namespace egpu::scheduler::topology
