#include "tests/scheduler/topology/nodes.h"

#include <map>

namespace egpu::scheduler::topology::testing {
namespace {

std::vector<std::vector<int>> subsetsOf(const std::vector<int>& cards, std::size_t size) {
  if (size == 0) return {{}};
  std::vector<std::vector<int>> all;
  for (std::size_t i = 0; i + size <= cards.size(); ++i)
    for (std::vector<int> rest :
         subsetsOf({cards.begin() + static_cast<std::ptrdiff_t>(i) + 1, cards.end()}, size - 1)) {
      rest.insert(rest.begin(), cards[i]);
      all.push_back(std::move(rest));
    }
  return all;
}

std::vector<int> without(const std::vector<int>& cards, const std::vector<int>& gone) {
  std::vector<int> left;
  for (const int card : cards)
    if (std::find(gone.begin(), gone.end(), card) == gone.end()) left.push_back(card);
  return left;
}

int64_t sumOfPairs(const PairScores& scores, const std::vector<int>& cards) {
  int64_t sum = 0;
  for (const int a : cards)
    for (const int b : cards)
      if (a < b) sum += scores.at(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
  return sum;
}

using Division = std::vector<std::vector<int>>;

/// Collects every division of the cards into sets of `size`, with at most one smaller set.
void divisions(const std::vector<int>& cards, std::size_t size, Division& soFar, std::vector<Division>& all) {
  if (cards.empty()) {
    all.push_back(soFar);
    return;
  }
  const std::size_t odd = cards.size() % size;
  for (const std::size_t n : {size, odd}) {
    if (n == 0 || n > cards.size()) continue;
    for (const std::vector<int>& set : subsetsOf(cards, n)) {
      if (set.front() != cards.front()) continue;  // the first card is in some set
      soFar.push_back(set);
      divisions(without(cards, set), size, soFar, all);
      soFar.pop_back();
    }
  }
}

std::vector<int> cardsOf(Set set) {
  std::vector<int> cards;
  for (int i = 0; i < 64; ++i)
    if ((set >> i) & 1) cards.push_back(i);
  return cards;
}

}  // namespace

int64_t pick(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<v1alpha::Card> plainNode(std::size_t count, const std::string& model) {
  std::vector<v1alpha::Card> cards(count);
  for (std::size_t i = 0; i < count; ++i) {
    cards[i].uuid = "GPU-" + std::to_string(i);
    cards[i].index = static_cast<int64_t>(i);
    cards[i].model = model;
    cards[i].memory = int64_t{32} << 30;
  }
  return cards;
}

void link(std::vector<v1alpha::Card>& cards, std::size_t a, std::size_t b, const std::string& type, int64_t count) {
  cards[a].topology.links.push_back({cards[b].uuid, type, count});
  cards[b].topology.links.push_back({cards[a].uuid, type, count});
}

std::vector<v1alpha::Card> dgx1Volta() {
  std::vector<v1alpha::Card> cards = plainNode(8, "V100-SXM2-32GB");
  for (auto [a, b] : {std::pair{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}})
    link(cards, static_cast<std::size_t>(a), static_cast<std::size_t>(b), "nvlink", 2);
  for (auto [a, b] : {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}})
    link(cards, static_cast<std::size_t>(a), static_cast<std::size_t>(b), "nvlink", 1);
  return cards;
}

std::vector<v1alpha::Card> dgx1Pascal() {
  std::vector<v1alpha::Card> cards = plainNode(8, "Tesla P100-SXM2-16GB");
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = a + 1; b < 8; ++b)
      if (a / 4 == b / 4 || b == a + 4) link(cards, a, b, "nvlink", 1);
  return cards;
}

std::vector<v1alpha::Card> dgx2() {
  std::vector<v1alpha::Card> cards = plainNode(16, "V100-SXM3-32GB");
  for (std::size_t a = 0; a < 16; ++a)
    for (std::size_t b = a + 1; b < 16; ++b) link(cards, a, b, "nvswitch", 6);
  return cards;
}

std::vector<Site> sitesOf(const std::vector<v1alpha::Card>& cards) {
  std::vector<Site> sites;
  for (const v1alpha::Card& card : cards) sites.push_back(Site::of(card));
  return sites;
}

PairScores scoresOf(const std::vector<v1alpha::Card>& cards) { return pairScores(sitesOf(cards)); }

PairScores randomScores(Random& random, std::size_t cards) {
  PairScores scores(cards);
  for (std::size_t a = 0; a < cards; ++a)
    for (std::size_t b = a + 1; b < cards; ++b)
      scores.set(a, b, static_cast<int32_t>(pick(random, 1, 6) * 10 + pick(random, 0, 3) * 100));
  return scores;
}

Choice everyDivision(const PairScores& scores, const CardSetRequest& wish, const Admits& admits) {
  const std::vector<int> cards = cardsOf(wish.available & ~wish.avoided);
  Choice best;
  if (wish.size == 0 || cards.size() < wish.size) return best;
  std::vector<Division> all;
  Division soFar;
  divisions(cards, wish.size, soFar, all);
  for (const Division& division : all) {
    int64_t total = 0;
    for (const std::vector<int>& set : division) total += sumOfPairs(scores, set);
    for (const std::vector<int>& set : division) {
      Set bits = 0;
      for (const int card : set) bits |= Set{1} << card;
      if (set.size() != wish.size || (wish.required & ~bits) != 0 || (admits && !admits(bits))) continue;
      const int64_t score = sumOfPairs(scores, set);
      // Prefers the better total, then the better set, then the lexicographically first set.
      const bool first = best.cards == 0 || total > best.total || (total == best.total && score > best.score) ||
                         (total == best.total && score == best.score && set < cardsOf(best.cards));
      if (first) best = {bits, score, total, total};
    }
  }
  return best;
}

}  // namespace egpu::scheduler::topology::testing
