#include "controller/scheduler/topology/best_effort.h"

#include "controller/scheduler/topology/bounded.h"
#include "controller/scheduler/topology/subsets.h"

namespace egpu::scheduler::topology {
namespace {

/// Calls `visit` with every set of `size` cards of `from` joined to `partial`.
template <class Visit>
void eachSet(Set from, std::size_t size, Set partial, const Visit& visit) {
  if (size == 0) {
    visit(partial);
    return;
  }
  for (; count(from) >= size; from &= from - 1) eachSet(from & (from - 1), size - 1, partial | lowest(from), visit);
}

class Exact {
 public:
  Exact(const PairScores& scores, Set available, Set required, std::size_t size, const Admits& admits)
      : order_(inOrder(available, required)),
        size_(size),
        required_(firstOf(count(required))),
        admits_(admits),
        scores_(scores, order_),
        divisions_(scores_, size) {}

  Choice run() {
    const Set all = firstOf(order_.size());
    if (required_ == 0 && !admits_) {
      const Divisions::SubsetDivision best = divisions_.divide(static_cast<uint32_t>(all));
      return {original(best.set), best.score, best.total, best.total};
    }
    Choice best;
    Set bestSet = 0;
    eachSet(all & ~required_, size_ - count(required_), required_, [&](Set set) {
      if (admits_ && !admits_(original(set))) return;
      const int64_t score = scores_.of(static_cast<uint32_t>(set));
      const int64_t total = score + divisions_.divide(static_cast<uint32_t>(all ^ set)).total;
      if (bestSet != 0 && !isBetter({total, score, set}, {best.total, best.score, bestSet})) return;
      bestSet = set;
      best = {original(set), score, total, total};
    });
    return best;
  }

 private:
  /// Puts required cards first: then every set with them contains the lowest card, so few subsets are evaluated. Among
  /// sets with all required cards, the order of sets does not change.
  static SubsetScores::Cards inOrder(Set available, Set required) {
    SubsetScores::Cards order;
    for (Set part : {required, available & ~required})
      for (; part != 0; part &= part - 1) order.push_back(static_cast<uint8_t>(lowestCard(part)));
    return order;
  }
  Set original(Set set) const {
    Set cards = 0;
    for (; set != 0; set &= set - 1) cards |= only(order_[lowestCard(set)]);
    return cards;
  }

  SubsetScores::Cards order_;
  std::size_t size_;
  Set required_;
  const Admits& admits_;
  SubsetScores scores_;
  Divisions divisions_;
};

}  // namespace

int64_t scoreOf(const PairScores& scores, Set cards) {
  int64_t sum = 0;
  for (; cards != 0; cards &= cards - 1)
    for (Set others = cards & (cards - 1); others != 0; others &= others - 1)
      sum += scores.at(lowestCard(cards), lowestCard(others));
  return sum;
}

Set lowestCards(const CardSetRequest& wish) {
  const Set available = wish.available & ~wish.avoided;
  if (wish.size == 0 || count(available) < wish.size || count(wish.required) > wish.size) return 0;
  if ((wish.required & ~available) != 0) return 0;
  return filledUp(wish.required, available, wish.size);
}

Choice bestEffort(const PairScores& scores, const CardSetRequest& wish, const Admits& admits) {
  const Set available = wish.available & ~wish.avoided & firstOf(scores.cards());
  if (lowestCards({available, wish.size, wish.required, 0}) == 0) return {};
  if (wish.size == 1) {  // no pairs: all divisions are equal
    for (Set left = wish.required != 0 ? wish.required : available; left != 0; left &= left - 1)
      if (!admits || admits(lowest(left))) return {lowest(left), 0, 0, 0};
    return {};
  }
  if (count(available) > kExact) return bounded(scores, available, wish, admits);
  return Exact(scores, available, wish.required, wish.size, admits).run();
}

}  // namespace egpu::scheduler::topology
