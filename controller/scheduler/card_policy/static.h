// Card policy static: on DGX machines only the sets of cards that their wiring makes good (topology/dgx.h, which also
// says how a machine is recognised); elsewhere, and for other numbers of cards, nothing.
//
// Example: a DGX-1 with Volta cards; a request on two cards.
//   free 1 2 3 5 6 7     the pairs are 0-3 1-2 4-7 5-6     chosen: 1 and 2
//   free 1 3 5 7         does not fit: no pair is whole
// Divided: of all these sets the most even one, then the one of the fewest cards, then the one with the lowest cards;
// each card of it gets a step at least.
// A class that names a machine (parameter static: dgx1-pascal | dgx1-volta | dgx2) gets that one's sets on every node.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/topology/dgx.h"

namespace egpu::scheduler::card_policy {

bool chooseFixedSet(const Offer& offer, Chosen& chosen);
bool divideOverFixedSet(const Offer& offer, const Division& division, Chosen& chosen);
/// The sets of this machine, whatever the node is recognised as: card 0 is the node's first by index.
template <topology::Machine machine>
bool chooseSetOf(const Offer& offer, Chosen& chosen);
template <topology::Machine machine>
bool divideOverSetOf(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kStatic{"static", chooseFixedSet, divideOverFixedSet, false, true};

/// The class parameter `static` in the words of go-gpuallocator. Policies of their own, not values of cardPolicy.
template <topology::Machine machine>
inline constexpr CardPolicy kStaticOf{"", chooseSetOf<machine>, divideOverSetOf<machine>, false, true, false, machine};
constexpr CardPolicy named(CardPolicy policy, std::string_view name) {
  policy.name = name;
  return policy;
}
inline constexpr std::string_view kStaticPrefix = "static ";
inline constexpr CardPolicy kStaticMachines[] = {named(kStaticOf<topology::Machine::dgx1Pascal>, "static dgx1-pascal"),
                                                 named(kStaticOf<topology::Machine::dgx1Volta>, "static dgx1-volta"),
                                                 named(kStaticOf<topology::Machine::dgx2>, "static dgx2")};

}  // namespace egpu::scheduler::card_policy
