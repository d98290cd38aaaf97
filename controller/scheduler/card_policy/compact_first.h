// Card policy compact-first: the most loaded cards, by their load score (load_score.h).
//
// Example: a node with cards of core 1000, memory 32 GiB; a request of core 300, memory 4 GiB on one card.
//   0: used 500 /  8 GiB     score 33 (32.5)
//   1: used 200 / 16 GiB     score 41           chosen: memory weighs more
// Split: as binpack.
#pragma once

#include "controller/scheduler/card_policy/ranked.h"
#include "controller/scheduler/card_policy/windows.h"
#include "controller/scheduler/choice/load_score.h"

namespace egpu::scheduler::card_policy {

inline bool chooseHighestLoad(const Offer& offer, Chosen& chosen) {
  return chooseRanked(offer, chosen, [&](const CardCandidate& card) {
    return loadScoreOf(card.used, card.capacity, offer.memoryWeight).used;
  });
}

inline constexpr CardPolicy kCompactFirst{
    .name = "compact-first", .choose = chooseHighestLoad, .divide = divideOverTightest, .byLoad = true};

}  // namespace egpu::scheduler::card_policy
