// The best-effort choice: so many cards of those available, such that what stays behind is good for others too.
//
// All available cards are divided into sets of the wanted size (one set may be smaller, if the number is no multiple);
// a set's score is the sum over its pairs, and the division of the highest sum wins. Of its full sets the best one is
// given that contains all required cards; divisions without such a set don't count. Ties: the better set, then the
// lower cards. A single card has no pairs: the lowest one is given.
//
// Example: a DGX-1V (double links 03 04 12 15 23 47 56 67, single 01 02 13 26 37 45 46 57, paths not known), 2 of 4
// cards 0 1 2 3. Pairs: 01 100, 02 100, 03 200, 12 200, 13 100, 23 200. The divisions: 01|23 300, 02|13 200, 03|12 400.
// Given: 0 and 3 (200, as good as 1 and 2, and lower). Taking 2 and 3 would have left 0 and 1 with a single link.
//
// Up to kExact available cards the answer is exact (best_effort.cpp: a program over subsets). Above, a bounded search
// (bounded.cpp) divides greedily and swaps while that helps; `bound` then says what no division can exceed.
#pragma once

#include <functional>

#include "controller/scheduler/topology/pair_scores.h"
#include "controller/scheduler/topology/sets.h"

namespace egpu::scheduler::topology {

/// What is wanted. Cards beyond the node's are ignored.
struct Wish {
  Set available = 0;
  std::size_t size = 0;
  Set required = 0;  ///< must be among what is given; a required card that isn't available can't be had
  Set avoided = 0;   ///< as if not available
};

struct Choice {
  Set cards = 0;      ///< none: impossible (too few, required ones missing, more required than wanted)
  int64_t score = 0;  ///< Σ over the pairs of cards
  int64_t total = 0;  ///< Σ over all sets of the division
  int64_t bound = 0;  ///< no division has more than this; total where the answer is exact
  /// How far from the best the division may be at most.
  int64_t gap() const { return bound - total; }
  bool operator==(const Choice&) const = default;
};

/// Which sets may be given; null: all.
using Admits = std::function<bool(Set)>;

inline constexpr std::size_t kExact = 16;

Choice bestEffort(const PairScores& scores, const Wish& wish, const Admits& admits = {});

/// Σ over the pairs of a set.
int64_t scoreOf(const PairScores& scores, Set cards);

/// The required cards, then the lowest. 0 if impossible.
Set lowestCards(const Wish& wish);

}  // namespace egpu::scheduler::topology
