#include "controller/scheduler/topology/subsets.h"

#include <bit>

namespace egpu::scheduler::topology {

bool better(int64_t total, int64_t score, Set set, int64_t thanTotal, int64_t thanScore, Set thanSet) {
  if (total != thanTotal) return total > thanTotal;
  if (score != thanScore) return score > thanScore;
  return earlier(set, thanSet);
}

SubsetScores::SubsetScores(const PairScores& scores, const Cards& cards)
    : cards_(cards.size()), scores_(std::size_t{1} << cards.size()) {
  for (uint32_t m = 1; m < scores_.size(); ++m) {
    const uint32_t a = m & (~m + 1), withoutA = m ^ a;
    if (withoutA == 0) continue;
    // Pairs without a, plus pairs without b, less those without both, plus the pair itself.
    const uint32_t b = withoutA & (~withoutA + 1);
    scores_[m] = scores_[withoutA] + scores_[m ^ b] - scores_[withoutA ^ b] +
                 scores.at(cards[static_cast<std::size_t>(std::countr_zero(a))],
                           cards[static_cast<std::size_t>(std::countr_zero(b))]);
  }
}

/// The single cards of a subset.
struct Divisions::Bits {
  std::array<uint32_t, 16> bit;
  std::size_t count = 0;

  explicit Bits(uint32_t subset) {
    for (; subset != 0; subset &= subset - 1) bit[count++] = subset & (~subset + 1);
  }
};

Divisions::Divisions(const SubsetScores& scores, std::size_t size)
    : scores_(scores), size_(size), solved_(std::size_t{1} << scores.cards()) {}

const Divisions::Division& Divisions::divide(uint32_t subset) {
  Division& known = solved_[subset];
  if (known.total >= 0) return known;
  const auto cards = static_cast<std::size_t>(std::popcount(subset));
  if (cards < size_) {
    known.total = scores_.of(subset);
    return known;
  }
  Division best;
  const uint32_t low = subset & (~subset + 1);
  const Bits rest(subset ^ low);
  withFullSets(subset, rest, low, 0, size_ - 1, best);
  const std::size_t odd = cards % size_;
  if (odd == 1) {
    Division candidate = divide(subset ^ low);
    if (better(candidate.total, candidate.score, candidate.set, best.total, best.score, best.set)) best = candidate;
  } else if (odd > 1) {
    withSmallSets(subset, rest, low, 0, odd - 1, best);
  }
  return known = best;
}

void Divisions::withFullSets(uint32_t subset, const Bits& rest, uint32_t partial, std::size_t from, std::size_t missing,
                             Division& best) {
  const std::size_t end = rest.count - missing + 1;
  if (missing > 1) {
    for (std::size_t i = from; i < end; ++i)
      withFullSets(subset, rest, partial | rest.bit[i], i + 1, missing - 1, best);
    return;
  }
  for (std::size_t i = from; i < end; ++i) {
    const uint32_t set = partial | rest.bit[i];
    const int32_t score = scores_.of(set);
    const Division& others = divide(subset ^ set);
    const int32_t total = score + others.total;
    if (total < best.total) continue;
    const bool here = others.score < score || (others.score == score && earlier(set, others.set));
    const Division candidate{total, here ? score : others.score, here ? static_cast<uint16_t>(set) : others.set};
    if (better(total, candidate.score, candidate.set, best.total, best.score, best.set)) best = candidate;
  }
}

void Divisions::withSmallSets(uint32_t subset, const Bits& rest, uint32_t partial, std::size_t from,
                              std::size_t missing, Division& best) {
  const std::size_t end = rest.count - missing + 1;
  if (missing > 1) {
    for (std::size_t i = from; i < end; ++i)
      withSmallSets(subset, rest, partial | rest.bit[i], i + 1, missing - 1, best);
    return;
  }
  for (std::size_t i = from; i < end; ++i) {
    const uint32_t set = partial | rest.bit[i];
    const Division& others = divide(subset ^ set);
    const int32_t total = scores_.of(set) + others.total;
    if (total < best.total) continue;
    if (better(total, others.score, others.set, best.total, best.score, best.set))
      best = {total, others.score, others.set};
  }
}

}  // namespace egpu::scheduler::topology
