#include "controller/scheduler/topology/wiring.h"

#include <algorithm>
#include <utility>

#include "controller/scheduler/topology/subsets.h"

namespace egpu::scheduler::topology {
namespace {

std::vector<uint8_t> allAnswers(const PairScores& scores) {
  constexpr std::size_t kRow = Wiring::kTabled + 1;
  const std::size_t cards = scores.cards();
  SubsetScores::Cards order;
  for (std::size_t i = 0; i < cards; ++i) order.push_back(static_cast<uint8_t>(i));
  const SubsetScores subsets(scores, order);
  std::vector<uint8_t> table((std::size_t{1} << Wiring::kTabled) * kRow);
  for (std::size_t size = 1; size <= cards; ++size) {
    Divisions divisions(subsets, std::max<std::size_t>(size, 2));
    for (Set available = 0; available < only(cards); ++available) {
      if (count(available) < size) continue;
      table[available * kRow + size] =
          static_cast<uint8_t>(size == 1 ? lowest(available) : divisions.divide(static_cast<uint32_t>(available)).set);
    }
  }
  return table;
}

bool silent(const Site& card) { return card.topology->links.empty() && card.topology->numa < 0; }

}  // namespace

Wiring::Wiring(PairScores scores) : scores_(std::move(scores)), flat_(scores_.flat()) {
  if (scores_.cards() <= kTabled) table_ = allAnswers(scores_);
}

Choice Wiring::choose(const CardSetRequest& wish, const Admits& admits) const {
  if (!flat_ || admits) return bestEffort(scores_, wish, admits);
  // All divisions are equal.
  CardSetRequest known = wish;
  known.available &= firstOf(scores_.cards());
  const Set cards = lowestCards(known);
  if (cards == 0) return {};
  const auto pairs = [](std::size_t n) { return static_cast<int64_t>(n * (n - 1) / 2); };
  const std::size_t all = count(known.available & ~known.avoided);
  const int64_t each = scores_.cards() > 1 ? scores_.at(0, 1) : 0;
  const std::size_t odd = all % wish.size;
  const int64_t total = each * (static_cast<int64_t>(all / wish.size) * pairs(wish.size) + (odd > 0 ? pairs(odd) : 0));
  return {cards, each * pairs(wish.size), total, total};
}

std::shared_ptr<const Wiring> Wirings::of(std::span<const Site> cards) {
  if (cards.size() < 2 || cards.size() > kMaxCards) return nullptr;
  if (std::all_of(cards.begin(), cards.end(), [](const Site& card) { return silent(card); })) return nullptr;
  PairScores scores = pairScores(cards);
  auto it = wirings_.find(scores);
  if (it == wirings_.end()) {
    if (wirings_.size() >= kMaxUnused)
      std::erase_if(wirings_, [](const auto& entry) { return entry.second.use_count() == 1; });
    auto wiring = std::make_shared<const Wiring>(scores);
    it = wirings_.emplace(std::move(scores), std::move(wiring)).first;
  }
  return it->second;
}

}  // namespace egpu::scheduler::topology
