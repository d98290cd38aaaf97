// Sets of cards of one node, as bits: bit i is the node's i-th card.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace egpu::scheduler::topology {

using Set = uint64_t;
inline constexpr std::size_t kMaxCards = 64;

inline constexpr std::size_t count(Set set) { return static_cast<std::size_t>(std::popcount(set)); }
inline constexpr Set only(std::size_t card) { return Set{1} << card; }
/// The first `cards` cards.
inline constexpr Set firstOf(std::size_t cards) { return cards >= kMaxCards ? ~Set{0} : only(cards) - 1; }
inline constexpr Set lowest(Set set) { return set & (~set + 1); }
inline constexpr std::size_t lowestCard(Set set) { return static_cast<std::size_t>(std::countr_zero(set)); }
/// True if `a` sorts before `b`, a set of equal size: it has the lowest card in which they differ.
inline constexpr bool earlier(Set a, Set b) { return a != b && (a & lowest(a ^ b)) != 0; }
/// Returns `set` filled up to `size` with the lowest other cards of `from`.
inline constexpr Set filledUp(Set set, Set from, std::size_t size) {
  for (from &= ~set; count(set) < size && from != 0; from &= from - 1) set |= lowest(from);
  return set;
}

}  // namespace egpu::scheduler::topology
