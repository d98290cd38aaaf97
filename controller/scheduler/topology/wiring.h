// A node's topology as the scheduler keeps it: the scores of its pairs, and, for small nodes, every answer of
// bestEffort() beforehand. Immutable; nodes that are wired alike share one.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

class Wiring {
 public:
  /// At most kMaxCards cards. Up to kTabled cards this works out a table of 256 × 9 sets, some 50 µs.
  explicit Wiring(PairScores scores);

  static constexpr std::size_t kTabled = 8;

  const PairScores& scores() const { return scores_; }
  /// bestEffort() of cards without required ones: a look into the table on small nodes, else a search.
  Set best(Set available, std::size_t size) const {
    if (!table_.empty() && size <= kTabled) return table_[(available & 0xff) * (kTabled + 1) + size];
    return search(available, size).cards;
  }
  /// The same with scores, and with required cards.
  Choice choose(const Wish& wish, const Admits& admits = {}) const;

 private:
  Choice search(Set available, std::size_t size) const { return choose({available, size, 0, 0}); }

  PairScores scores_;
  bool flat_;
  std::vector<uint8_t> table_;  // [available][size]; empty if the node is large
};

/// Shares wirings between the nodes of a cluster. A copy shares them too.
class Wirings {
 public:
  /// Of a node's cards in their order; null if they say nothing of each other, or are more than kMaxCards.
  std::shared_ptr<const Wiring> of(std::span<const Site> cards);
  std::size_t size() const { return known_.size(); }

 private:
  /// Nodes fill up card by card, and each number of cards is a wiring of its own: those are kept for the next node until
  /// there are this many.
  static constexpr std::size_t kKept = 1024;
  std::map<PairScores, std::shared_ptr<const Wiring>> known_;
};

}  // namespace egpu::scheduler::topology
