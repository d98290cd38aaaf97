// Card policy binpack: the fullest cards that fit, so that other cards stay whole.
//
// Example: a node with cards of core 1000, memory 32 GiB; a request of core 300, memory 4 GiB on one card.
//   0: used   0 / 0         fill 0
//   1: used 600 / 8 GiB     fill 600,000 + 250,000 = 850,000   chosen
//   2: used 800 / 8 GiB     does not fit: 200 milli-cards free
// MIG instances: the fullest of the cards on which they make the fewest other placements impossible.
// Split evenly: among sets that are equally even and of equal size, the one with the least capacity. Split by fill: see
// split.h.
#pragma once

#include "controller/scheduler/card_policy/ranked.h"
#include "controller/scheduler/card_policy/windows.h"
#include "controller/scheduler/state/fill.h"

namespace egpu::scheduler::card_policy {

inline bool chooseFullest(const Offer& offer, Chosen& chosen) {
  return chooseRanked(offer, chosen, [](const CardCandidate& card) { return fillOf(card.used, card.capacity); });
}

inline constexpr CardPolicy kBinpack{
    .name = "binpack", .choose = chooseFullest, .divide = divideOverTightest, .byPlacementLoss = true};

}  // namespace egpu::scheduler::card_policy
