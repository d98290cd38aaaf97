#include "controller/scheduler/topology/bounded.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace egpu::scheduler::topology {
namespace {

/// Maximum number of evaluated swaps: some milliseconds.
constexpr int64_t kTries = 400'000;

class Dividing {
 public:
  Dividing(const PairScores& scores, Set available, std::size_t size, Set required)
      : scores_(scores), size_(size), required_(required) {
    for (Set left = available; left != 0; left &= left - 1) cards_.push_back(lowestCard(left));
    greedySets(available);
  }

  void improve() {
    int64_t tries = kTries;
    for (bool again = true; again && tries > 0;) {
      again = false;
      for (std::size_t i = 0; i < cards_.size(); ++i)
        for (std::size_t j = i + 1; j < cards_.size(); ++j, --tries)
          again = swapIfBetter(cards_[i], cards_[j]) || again;
    }
  }

  int64_t total() const {
    return std::accumulate(sets_.begin(), sets_.end(), int64_t{0},
                           [this](int64_t sum, Set set) { return sum + scoreOf(scores_, set); });
  }

  const std::vector<Set>& sets() const { return sets_; }

  int64_t bound() const {
    const std::size_t odd = cards_.size() % size_;
    int64_t twice = 0;
    std::vector<int64_t> losses;
    for (const std::size_t card : cards_) {
      std::vector<int64_t> peers;
      for (const std::size_t other : cards_)
        if (other != card) peers.push_back(scores_.at(card, other));
      std::sort(peers.begin(), peers.end(), std::greater<>());
      auto best = [&](std::size_t n) {
        return std::accumulate(peers.begin(), peers.begin() + static_cast<std::ptrdiff_t>(n), int64_t{0});
      };
      const int64_t inFullSet = best(size_ - 1);
      twice += inFullSet;
      if (odd > 0) losses.push_back(inFullSet - best(odd - 1));
    }
    std::sort(losses.begin(), losses.end());
    for (std::size_t i = 0; i < odd; ++i) twice -= losses[i];
    return twice / 2;
  }

 private:
  int64_t with(std::size_t card, Set set) const {
    int64_t sum = 0;
    for (set &= ~only(card); set != 0; set &= set - 1) sum += scores_.at(card, lowestCard(set));
    return sum;
  }

  /// Starts with the required cards or the best remaining pair, then adds the card with the largest gain.
  void greedySets(Set left) {
    for (Set start = required_; left != 0; start = 0) {
      Set set = start != 0 ? start : bestPair(left);
      const std::size_t size = std::min(size_, count(left));
      if (count(set) > size) set = lowest(left);
      while (count(set) < size) {
        std::size_t best = kMaxCards;
        int64_t max = -1;
        for (Set rest = left & ~set; rest != 0; rest &= rest - 1) {
          const std::size_t card = lowestCard(rest);
          if (const int64_t gain = with(card, set); gain > max) max = gain, best = card;
        }
        set |= only(best);
      }
      sets_.push_back(set);
      left &= ~set;
    }
  }

  Set bestPair(Set left) const {
    Set best = lowest(left);
    int64_t max = -1;
    for (Set a = left; a != 0; a &= a - 1)
      for (Set b = a & (a - 1); b != 0; b &= b - 1)
        if (const int64_t score = scores_.at(lowestCard(a), lowestCard(b)); score > max)
          max = score, best = lowest(a) | lowest(b);
    return best;
  }

  Set& setOf(std::size_t card) {
    return *std::find_if(sets_.begin(), sets_.end(), [card](Set set) { return (set & only(card)) != 0; });
  }

  bool swapIfBetter(std::size_t a, std::size_t b) {
    if (((only(a) | only(b)) & required_) != 0) return false;
    Set &ofA = setOf(a), &ofB = setOf(b);
    if (&ofA == &ofB) return false;
    const int64_t gain = with(a, ofB & ~only(b)) + with(b, ofA & ~only(a)) - with(a, ofA) - with(b, ofB);
    if (gain <= 0) return false;
    ofA ^= only(a) | only(b);
    ofB ^= only(a) | only(b);
    return true;
  }

  const PairScores& scores_;
  std::size_t size_;
  Set required_;
  std::vector<std::size_t> cards_;
  std::vector<Set> sets_;
};

}  // namespace

Choice bounded(const PairScores& scores, Set available, const CardSetRequest& wish, const Admits& admits) {
  Dividing dividing(scores, available, wish.size, wish.required);
  dividing.improve();
  Choice choice;
  for (const Set set : dividing.sets()) {
    if (count(set) != wish.size || (set & wish.required) != wish.required || (admits && !admits(set))) continue;
    const int64_t score = scoreOf(scores, set);
    if (choice.cards != 0 && (score < choice.score || (score == choice.score && !earlier(set, choice.cards)))) continue;
    choice.cards = set;
    choice.score = score;
  }
  if (choice.cards == 0) return {};
  choice.total = dividing.total();
  choice.bound = dividing.bound();
  return choice;
}

}  // namespace egpu::scheduler::topology
