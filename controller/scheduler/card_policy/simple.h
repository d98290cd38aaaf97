// Card policy simple: the cards with the lowest indexes, whatever their load. For nodes with equal cards, and for users
// who want to predict the next card.
//
// Example: a node with cards of core 1000; a request of core 300 on each of two cards.
//   0: used 800     does not fit
//   1: used   0     first
//   2: used 600     second
//   3: used   0
// Split: among sets that are equally even and of equal size, the one with the lowest indexes.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

bool chooseLowest(const Offer& offer, Chosen& chosen);
bool divideOverLowest(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kSimple{"simple", chooseLowest, divideOverLowest};

}  // namespace egpu::scheduler::card_policy
