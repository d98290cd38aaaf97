// Card policy topology: cards that are well linked with each other, such that the remaining cards are, too. It is the
// best-effort choice of topology/best_effort.h among the fitting cards. For one card, and on nodes without known links,
// it chooses the lowest cards.
//
// Example: a DGX-1V on which the cards 0 1 2 3 fit; a request for two cards.
//   01|23: 100 + 200    02|13: 100 + 100    03|12: 200 + 200     chosen: 0 and 3
//
// Up to 16 fitting cards the choice is exact, and on nodes of up to 8 cards it is a table look-up. Above 16 the search
// is bounded, and Decision::linkGap is the maximum distance from the best division. Cards after the node's 64th are not
// used while the others are enough. Split: the best-effort choice among sets that are equally even and of equal size.
// All fitting cards count as available, however small their free capacity is.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

bool chooseWellLinked(const Offer& offer, Chosen& chosen);
bool divideOverWellLinked(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kTopology{"topology", chooseWellLinked, divideOverWellLinked, true, true};

}  // namespace egpu::scheduler::card_policy
