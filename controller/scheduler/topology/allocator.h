// The cards of one node handed out in sets, as an allocator of whole cards would: a pure value that remembers what is
// free. For programs and tests that have one node; the scheduler itself chooses among what its cluster says is free.
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
  using Cards = std::vector<uint32_t>;  ///< ascending, without repetition where the allocator gives them

  /// All cards of the node are free at first. At most kMaxCards.
  Allocator(const std::vector<v1alpha::Card>& cards, Method method);

  /// What the method would give of `available`, with all of `required`; nothing is taken. Empty if that is impossible:
  /// too few cards, a required one not available, more required than wanted, a card the node does not have or named
  /// twice, or nothing wanted.
  Cards choose(const Cards& available, const Cards& required, uint32_t size) const;

  /// Takes so many of what is free. Empty, and nothing taken, if that is impossible.
  Cards allocate(uint32_t size);
  /// Takes exactly these: all or none. False if one is not free, unknown or named twice.
  bool allocateSpecific(const Cards& cards);
  /// Gives cards back: all or none. False if one is free already, unknown or named twice.
  bool free(const Cards& cards);

  Cards freeCards() const;

 private:
  Set choose(const Wish& wish) const;

  Method method_;
  std::size_t cards_;
  Wiring wiring_;
  Machine machine_;
  Set free_;
};

}  // namespace egpu::scheduler::topology
