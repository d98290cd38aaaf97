// Values the rest of a card by the shares of cards that are requested. Pure arithmetic.
//
// To cut whole cards into the requested sizes with the least waste is the cutting stock problem. The dual of its linear
// relaxation (Gilmore and Gomory 1961) gives each size a price, such that no way to cut a card yields more than 1. The
// worth of a rest is the best set of sizes that fits into it.
//
// Example: only halves are requested. The price of a half is 0.5, so a rest of 499 is worth nothing, and one of 999 as
// much as one of 500.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace egpu::scheduler::fragmentation {

/// A share of a card in milli-cards, 1 … 1000, and its frequency, > 0.
struct ShareDemand {
  int64_t size = 0;
  double weight = 0;
  bool operator==(const ShareDemand&) const = default;
};

/// Worth by free milli-cards 0 … 1000, in thousandths of a whole card. Never decreases; 1000 at 1000.
using CardWorth = std::array<int32_t, 1001>;

/// Sizes must differ. Without sizes, rests are worth nothing and a whole card 1000. O(sizes² · iterations + 1000 ·
/// sizes · iterations), with at most 100 iterations.
CardWorth worthOfRests(const std::vector<ShareDemand>& demand);

}  // namespace egpu::scheduler::fragmentation
