// Card policy spread: the emptiest cards, so that claims share a card as late as possible.
//
// Example: a node with cards of core 1000, memory 32 GiB; a request of core 300, memory 4 GiB on each of two cards.
//   0: used 100 / 8 GiB     fill 100,000 + 250,000 = 350,000   second
//   1: used 600 / 8 GiB     fill 600,000 + 250,000 = 850,000
//   2: used 200 / 4 GiB     fill 200,000 + 125,000 = 325,000   first
// Split evenly: among sets that are equally even and of equal size, the one with the most capacity. Split by fill: see
// split.h.
#pragma once

#include "controller/scheduler/card_policy/ranked.h"
#include "controller/scheduler/card_policy/windows.h"
#include "controller/scheduler/state/fill.h"

namespace egpu::scheduler::card_policy {

inline bool chooseEmptiest(const Offer& offer, Chosen& chosen) {
  return chooseRanked(offer, chosen, [](const CardCandidate& card) { return -fillOf(card.used, card.capacity); });
}

inline constexpr CardPolicy kSpread{"spread", chooseEmptiest, divideOverLargest};

}  // namespace egpu::scheduler::card_policy
