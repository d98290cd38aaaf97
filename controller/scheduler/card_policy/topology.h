// Card policy topology: cards that are well connected with each other, such that what stays behind is well connected
// too: the best-effort choice of topology/best_effort.h among the cards that fit. Of one card, and on nodes that know
// nothing of their links, it is the lowest one.
//
// Example: a DGX-1V of which the cards 0 1 2 3 fit; a request on two cards.
//   01|23: 100 + 200    02|13: 100 + 100    03|12: 200 + 200     chosen: 0 and 3
//
// Up to 16 fitting cards the choice is the best there is; on a node of up to 8 cards it is looked up. Above 16 it is
// searched within bounds, and Decision::linkGap says how far off the division may be. A node's cards beyond the 64th
// are left out while the others suffice. Divided: the best-effort choice among the sets that are equally even and of
// equally many cards. All fitting cards count as available, however little they could give.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

bool chooseWellLinked(const Offer& offer, Chosen& chosen);
bool divideOverWellLinked(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kTopology{"topology", chooseWellLinked, divideOverWellLinked, true, true};

}  // namespace egpu::scheduler::card_policy
