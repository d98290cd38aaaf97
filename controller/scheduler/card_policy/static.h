// Card policy static: on DGX machines only the sets of cards that their wiring makes good (topology/dgx.h, which also
// says how a machine is recognised); elsewhere, and for other numbers of cards, nothing.
//
// Example: a DGX-1 with Volta cards; a request on two cards.
//   free 1 2 3 5 6 7     the pairs are 0-3 1-2 4-7 5-6     chosen: 1 and 2
//   free 1 3 5 7         does not fit: no pair is whole
// Divided: of all these sets the most even one, then the one of the fewest cards, then the one with the lowest cards;
// each card of it gets a step at least.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"

namespace egpu::scheduler::card_policy {

bool chooseFixedSet(const Offer& offer, Chosen& chosen);
bool divideOverFixedSet(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kStatic{"static", chooseFixedSet, divideOverFixedSet, false, true};

}  // namespace egpu::scheduler::card_policy
