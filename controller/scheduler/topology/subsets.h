// The best divisions of all subsets of up to 16 cards. Internal to topology/.
//
// divide(m) is the best division of the cards m into sets of one size, with the rest in one smaller set. One of its
// sets contains m's lowest card, so
//   divide(m) = max over sets S of m with m's lowest card: score(S) + divide(m ∖ S)
// where S has the wanted size or, once, |m| mod size. Each m is solved once. For 16 cards there are at most some two
// million sets.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "controller/scheduler/topology/pair_scores.h"
#include "controller/scheduler/topology/sets.h"

namespace egpu::scheduler::topology {

/// score(S) for every subset S of some cards, renumbered from 0.
class SubsetScores {
 public:
  using Cards = std::vector<uint8_t>;  ///< the cards in their new order, at most 16
  SubsetScores(const PairScores& scores, const Cards& cards);
  std::size_t cards() const { return cards_; }
  int32_t of(uint32_t subset) const { return scores_[subset]; }

 private:
  std::size_t cards_;
  std::vector<int32_t> scores_;
};

class Divisions {
 public:
  /// The best division of one subset.
  struct SubsetDivision {
    int32_t total = -1;  ///< -1 = not solved yet
    int32_t score = -1;  ///< score of the best full set; -1 = there is none
    uint16_t set = 0;    ///< that set
  };

  /// size ≥ 2.
  Divisions(const SubsetScores& scores, std::size_t size);
  SubsetDivision divide(uint32_t subset);

 private:
  struct Task;
  void withSets(const Task& task, uint32_t partial, std::size_t from, std::size_t missing, SubsetDivision& best);
  void consider(const Task& task, uint32_t set, SubsetDivision& best);

  const SubsetScores& scores_;
  std::size_t size_;
  // By subset. In separate arrays, because most accesses read only the total.
  std::vector<int32_t> totals_;
  std::vector<std::pair<int32_t, uint16_t>> bestSets_;
};

/// Scores by which divisions of the same cards are compared.
struct DivisionRank {
  int64_t total = 0;  ///< sum of the sets' scores
  int64_t score = 0;  ///< score of the best full set
  Set set = 0;        ///< that set
};
/// True if division `a` is better than `b`; ties: the earlier set.
bool isBetter(const DivisionRank& a, const DivisionRank& b);

}  // namespace egpu::scheduler::topology
