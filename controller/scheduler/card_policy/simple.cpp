#include "controller/scheduler/card_policy/simple.h"

namespace egpu::scheduler::card_policy {

bool chooseLowest(const Offer& offer, Chosen& chosen) {
  chosen.cards.assign(offer.required.begin(), offer.required.end());
  for (uint32_t i = 0; chosen.cards.size() < offer.wanted; ++i)
    if (!isRequired(offer, i)) chosen.cards.push_back(i);
  return true;
}

bool divideOverLowest(const Offer& offer, const Division& division, Chosen& chosen) {
  // Takes each card in turn if the largest cards after it can provide the missing cards with the best quality. No other
  // completion is more even, so if it does not reach that quality, none does.
  const std::size_t cards = division.best().cards;
  std::vector<bool> taken(offer.cards.size());
  std::size_t count = 0;
  std::vector<uint32_t> set;
  for (uint32_t i = 0; i < offer.cards.size() && count < cards; ++i) {
    std::size_t missing = cards - count - 1;
    set.clear();
    for (const uint32_t card : division.byCapacity()) {
      const bool makesUp = card > i && missing > 0;
      if (makesUp) --missing;
      if (taken[card] || card == i || makesUp) set.push_back(card);
    }
    if (division.qualityOf(set) != division.best()) continue;
    taken[i] = true;
    ++count;
  }
  for (const uint32_t card : division.byCapacity())
    if (taken[card]) chosen.cards.push_back(card);
  return true;
}

}  // namespace egpu::scheduler::card_policy
