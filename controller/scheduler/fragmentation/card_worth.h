// What the rest of a card is worth, by the shares of cards that are asked for. Pure arithmetic.
//
// Given sizes and how often each is asked for, cutting whole cards into those sizes with the least waste is the cutting
// stock problem; the dual of its linear relaxation (Gilmore and Gomory 1961) gives each size a price, such that no way
// to cut a card brings in more than 1. A rest is worth the best set of sizes that it holds.
//
// Example: only halves are asked for. A half is priced 0.5, so a rest of 499 is worth nothing and one of 999 as much as
// one of 500.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace egpu::scheduler::fragmentation {

/// A share of a card in milli-cards, 1 … 1000, and how often it is asked for, > 0.
struct ShareDemand {
  int64_t size = 0;
  double weight = 0;
  bool operator==(const ShareDemand&) const = default;
};

/// By free milli-cards 0 … 1000: the worth, in thousandths of a whole card, never falling, 1000 at 1000.
using CardWorth = std::array<int32_t, 1001>;

/// Sizes must differ. Without any, a rest is worth nothing and a whole card 1000. O(sizes² · iterations + 1000 · sizes
/// · iterations), with at most 100 iterations.
CardWorth worthOfRests(const std::vector<ShareDemand>& demand);

}  // namespace egpu::scheduler::fragmentation
