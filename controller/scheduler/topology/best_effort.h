// The best-effort choice: well-linked cards, such that the remaining cards are well linked, too.
//
// All available cards are divided into sets of the wanted size (one set is smaller if the number is no multiple). A
// set's score is the sum over its pairs; the division with the highest sum wins. Its best full set that contains all
// required cards is given; divisions without such a set do not count. Ties: the better set, then the lower cards. A
// single card has no pairs, so the lowest one is given.
//
// Example: a DGX-1V (double links 03 04 12 15 23 47 56 67, single 01 02 13 26 37 45 46 57, no PCIe paths known), 2 of 4
// cards 0 1 2 3. Pairs: 01 100, 02 100, 03 200, 12 200, 13 100, 23 200. The divisions: 01|23 300, 02|13 200, 03|12 400.
// Given: 0 and 3 (200; 1 and 2 are equal, but higher). 2 and 3 would leave 0 and 1 with a single link.
//
// The result is exact for up to kExact available cards (best_effort.cpp: a dynamic program over subsets). Above, a
// bounded search (bounded.cpp) divides greedily and swaps cards while that helps; `bound` is then an upper bound of all
// divisions.
#pragma once

#include <functional>

#include "controller/scheduler/topology/pair_scores.h"
#include "controller/scheduler/topology/sets.h"

namespace egpu::scheduler::topology {

/// A request for cards. Cards that the node does not have are ignored.
struct CardSetRequest {
  Set available = 0;
  std::size_t size = 0;
  Set required = 0;  ///< must be in the result; impossible if one is not available
  Set avoided = 0;   ///< treated as not available
};

struct Choice {
  Set cards = 0;      ///< 0 = impossible (too few cards, a required one missing, more required than `size`)
  int64_t score = 0;  ///< sum over the pairs of `cards`
  int64_t total = 0;  ///< sum over all sets of the division
  int64_t bound = 0;  ///< upper bound of all divisions; equals `total` if the result is exact
  /// Returns the maximum distance from the best division.
  int64_t gap() const { return bound - total; }
  bool operator==(const Choice&) const = default;
};

/// True for sets that may be given; null: all.
using Admits = std::function<bool(Set)>;

inline constexpr std::size_t kExact = 16;

Choice bestEffort(const PairScores& scores, const CardSetRequest& wish, const Admits& admits = {});

/// Returns the sum over the pairs of a set.
int64_t scoreOf(const PairScores& scores, Set cards);

/// Returns the required cards filled up with the lowest others; 0 if impossible.
Set lowestCards(const CardSetRequest& wish);

}  // namespace egpu::scheduler::topology
