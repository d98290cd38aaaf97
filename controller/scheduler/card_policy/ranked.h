// Choice for policies that score each card independently.
#pragma once

#include <algorithm>

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

/// Chooses the required cards, then those with the highest scores; ties in the node's order.
template <class Score>
bool chooseRanked(const Offer& offer, Chosen& chosen, Score score) {
  if (offer.wanted == 1) {  // the usual case, without required cards: no sort needed
    uint32_t best = 0;
    int64_t highest = score(offer.cards[0]);
    for (uint32_t i = 1; i < offer.cards.size(); ++i)
      if (const int64_t s = score(offer.cards[i]); s > highest) highest = s, best = i;
    chosen.cards.push_back(best);
    return true;
  }
  std::vector<std::pair<int64_t, uint32_t>> ranked;
  ranked.reserve(offer.cards.size());
  for (uint32_t i = 0; i < offer.cards.size(); ++i) ranked.emplace_back(-score(offer.cards[i]), i);
  std::sort(ranked.begin(), ranked.end());
  chosen.cards.assign(offer.required.begin(), offer.required.end());
  for (std::size_t i = 0; chosen.cards.size() < offer.wanted; ++i)
    if (!isRequired(offer, ranked[i].second)) chosen.cards.push_back(ranked[i].second);
  return true;
}

}  // namespace egpu::scheduler::card_policy
