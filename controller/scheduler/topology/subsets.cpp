#include "controller/scheduler/topology/subsets.h"

#include <bit>

namespace egpu::scheduler::topology {

bool isBetter(const DivisionRank& a, const DivisionRank& b) {
  if (a.total != b.total) return a.total > b.total;
  if (a.score != b.score) return a.score > b.score;
  return earlier(a.set, b.set);
}

SubsetScores::SubsetScores(const PairScores& scores, const Cards& cards)
    : cards_(cards.size()), scores_(std::size_t{1} << cards.size()) {
  for (uint32_t m = 1; m < scores_.size(); ++m) {
    const uint32_t a = m & (~m + 1), withoutA = m ^ a;
    if (withoutA == 0) continue;
    // Pairs without a, plus pairs without b, minus pairs without both, plus the pair (a, b).
    const uint32_t b = withoutA & (~withoutA + 1);
    scores_[m] = scores_[withoutA] + scores_[m ^ b] - scores_[withoutA ^ b] +
                 scores.at(cards[static_cast<std::size_t>(std::countr_zero(a))],
                           cards[static_cast<std::size_t>(std::countr_zero(b))]);
  }
}

/// Candidate sets of one size that contain a subset's lowest card.
struct Divisions::Task {
  uint32_t subset;
  bool full;                     // a set of the wanted size; false = the smaller set
  std::size_t left;              // cards outside the set
  std::array<uint32_t, 16> bit;  // the subset's other cards
  std::size_t bits = 0;

  Task(uint32_t of, bool isFull, std::size_t cardsLeft) : subset(of), full(isFull), left(cardsLeft) {
    for (uint32_t rest = of & (of - 1); rest != 0; rest &= rest - 1) bit[bits++] = rest & (~rest + 1);
  }
};

Divisions::Divisions(const SubsetScores& scores, std::size_t size)
    : scores_(scores),
      size_(size),
      totals_(std::size_t{1} << scores.cards(), -1),
      bestSets_(std::size_t{1} << scores.cards(), {-1, 0}) {}

Divisions::SubsetDivision Divisions::divide(uint32_t subset) {
  const auto cards = static_cast<std::size_t>(std::popcount(subset));
  // A single set, full or not.
  if (cards < size_) return {scores_.of(subset), -1, 0};
  if (cards == size_) return {scores_.of(subset), scores_.of(subset), static_cast<uint16_t>(subset)};
  if (totals_[subset] < 0) {
    SubsetDivision best;
    const uint32_t low = subset & (~subset + 1);
    withSets(Task(subset, true, cards - size_), low, 0, size_ - 1, best);
    if (const std::size_t odd = cards % size_; odd > 0)
      withSets(Task(subset, false, cards - odd), low, 0, odd - 1, best);
    totals_[subset] = best.total;
    bestSets_[subset] = {best.score, best.set};
  }
  return {totals_[subset], bestSets_[subset].first, bestSets_[subset].second};
}

void Divisions::withSets(const Task& task, uint32_t partial, std::size_t from, std::size_t missing,
                         SubsetDivision& best) {
  if (missing == 0) {
    consider(task, partial, best);
    return;
  }
  const std::size_t end = task.bits - missing + 1;
  if (missing > 1) {
    for (std::size_t i = from; i < end; ++i) withSets(task, partial | task.bit[i], i + 1, missing - 1, best);
    return;
  }
  for (std::size_t i = from; i < end; ++i) {
    const uint32_t set = partial | task.bit[i], rest = task.subset ^ set;
    // The rest is a single set or was probably solved before; skip the set if it cannot win.
    const int32_t known = task.left <= size_ ? scores_.of(rest) : totals_[rest];
    if (known >= 0 && scores_.of(set) + known < best.total) continue;
    consider(task, set, best);
  }
}

void Divisions::consider(const Task& task, uint32_t set, SubsetDivision& best) {
  SubsetDivision whole = divide(task.subset ^ set);
  const int32_t score = scores_.of(set);
  whole.total += score;
  if (task.full && (whole.score < score || (whole.score == score && earlier(set, whole.set)))) {
    whole.score = score;
    whole.set = static_cast<uint16_t>(set);
  }
  if (isBetter({whole.total, whole.score, whole.set}, {best.total, best.score, best.set})) best = whole;
}

}  // namespace egpu::scheduler::topology
