// Card policy low-load-first: the cards with the most available capacity, by their load score (load_score.h).
//
// Example: a node with cards of core 1000, memory 32 GiB; a request of core 300, memory 4 GiB on one card.
//   0: used 500 /  8 GiB     score 68 (67.5)    chosen: memory weighs more
//   1: used 200 / 16 GiB     score 59
// Split: as spread.
#pragma once

#include "controller/scheduler/card_policy/ranked.h"
#include "controller/scheduler/card_policy/windows.h"
#include "controller/scheduler/choice/load_score.h"

namespace egpu::scheduler::card_policy {

inline bool chooseLeastLoaded(const Offer& offer, Chosen& chosen) {
  return chooseRanked(offer, chosen, [&](const CardCandidate& card) {
    return loadScoreOf(card.used, card.capacity, offer.memoryWeight).available;
  });
}

inline constexpr CardPolicy kLowLoadFirst{
    .name = "low-load-first", .choose = chooseLeastLoaded, .divide = divideOverLargest, .byLoad = true};

}  // namespace egpu::scheduler::card_policy
