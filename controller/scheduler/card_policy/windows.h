// Cards over which a total is divided, for policies that score each card independently.
#pragma once

#include <algorithm>
#include <numeric>

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

/// Chooses the cards with the most capacity: as many as the division's best quality needs.
inline bool divideOverLargest(const Offer&, const Division& division, Chosen& chosen) {
  const auto& byCapacity = division.byCapacity();
  chosen.cards.assign(byCapacity.begin(), byCapacity.begin() + static_cast<std::ptrdiff_t>(division.best().cards));
  return true;
}

/// Chooses the set of the best quality with the least capacity, so that larger cards stay unchanged. Sets are runs of
/// neighbours in the order of capacity: no other set is as even with less capacity. Among cards of equal capacity those
/// with the highest indexes are taken, as backend.ai does: its published allocation map depends on it. Under `fill` the
/// order of capacity decides.
inline bool divideOverTightest(const Offer& offer, const Division& division, Chosen& chosen) {
  if (division.split() == Split::fill) return divideOverLargest(offer, division, chosen);
  const std::span<const uint32_t> byCapacity = division.byCapacity();
  const std::size_t cards = division.best().cards;
  std::span<const uint32_t> tightest = byCapacity.first(cards);
  auto capacity = [&](std::span<const uint32_t> set) {
    return std::accumulate(set.begin(), set.end(), int64_t{0},
                           [&](int64_t sum, uint32_t card) { return sum + division.capacity(card); });
  };
  for (std::size_t at = 1; at + cards <= byCapacity.size(); ++at) {
    const std::span<const uint32_t> set = byCapacity.subspan(at, cards);
    if (division.qualityOf(set) != division.best()) break;  // a set with less capacity is never more even
    if (capacity(set) < capacity(tightest)) tightest = set;
  }
  // From the smallest capacity up, each group of equal cards gives its last ones.
  for (std::size_t taken = 0; taken < cards;) {
    const int64_t least = division.capacity(tightest[cards - taken - 1]);
    auto equal = std::find_if(byCapacity.rbegin(), byCapacity.rend(),
                              [&](uint32_t card) { return division.capacity(card) == least; });
    for (; taken < cards && division.capacity(tightest[cards - taken - 1]) == least; ++taken)
      chosen.cards.push_back(*equal++);
  }
  std::reverse(chosen.cards.begin(), chosen.cards.end());
  return true;
}

}  // namespace egpu::scheduler::card_policy
