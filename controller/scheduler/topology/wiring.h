// A node's topology in the scheduler: the scores of its pairs and, for small nodes, all results of bestEffort().
// Immutable; nodes with equal wiring share one object.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

class Wiring {
 public:
  /// At most kMaxCards cards. Up to kTabled cards it computes a table of 256 × 9 sets, which takes some 50 µs.
  explicit Wiring(PairScores scores);

  static constexpr std::size_t kTabled = 8;

  const PairScores& scores() const { return scores_; }
  /// Returns the result of bestEffort() without required cards: a table look-up on small nodes, otherwise a search.
  Set best(Set available, std::size_t size) const {
    if (!table_.empty() && size <= kTabled) return table_[(available & 0xff) * (kTabled + 1) + size];
    return search(available, size).cards;
  }
  /// As best(), with scores and required cards.
  Choice choose(const CardSetRequest& wish, const Admits& admits = {}) const;

 private:
  Choice search(Set available, std::size_t size) const { return choose({available, size, 0, 0}); }

  PairScores scores_;
  bool flat_;
  std::vector<uint8_t> table_;  // [available][size]; empty on large nodes
};

/// Shares wirings between the nodes of a cluster, and between copies of it.
class Wirings {
 public:
  /// Returns the wiring of a node's cards, in their order. Null if they report no links, or if there are more than
  /// kMaxCards.
  std::shared_ptr<const Wiring> of(std::span<const Site> cards);
  std::size_t size() const { return wirings_.size(); }

 private:
  /// Nodes are filled up card by card, and each number of cards has its own wiring. Unused ones are kept for the next
  /// node until there are this many.
  static constexpr std::size_t kMaxUnused = 1024;
  std::map<PairScores, std::shared_ptr<const Wiring>> wirings_;  ///< by the scores of their cards
};

}  // namespace egpu::scheduler::topology
