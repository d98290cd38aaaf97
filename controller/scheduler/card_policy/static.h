// Card policy static: on DGX machines only the well-wired sets of cards (topology/dgx.h, which also describes how a
// machine is recognised). Other machines, and other numbers of cards, do not fit.
//
// Example: a DGX-1 with Volta cards; a request for two cards.
//   free 1 2 3 5 6 7     the pairs are 0-3 1-2 4-7 5-6     chosen: 1 and 2
//   free 1 3 5 7         does not fit: no pair is complete
// Split: the most even of these sets, then the one with the fewest cards, then with the lowest cards. Each of its cards
// gets at least one step. A class that names a machine (parameter static: dgx1-pascal | dgx1-volta | dgx2) uses that
// machine's sets on every node.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/topology/dgx.h"

namespace egpu::scheduler::card_policy {

bool chooseFixedSet(const Offer& offer, Chosen& chosen);
bool divideOverFixedSet(const Offer& offer, const Division& division, Chosen& chosen);
/// Uses the sets of this machine, whatever the node is recognised as. Card 0 is the node's first by index.
template <topology::Machine machine>
bool chooseSetOf(const Offer& offer, Chosen& chosen);
template <topology::Machine machine>
bool divideOverSetOf(const Offer& offer, const Division& division, Chosen& chosen);

inline constexpr CardPolicy kStatic{"static", chooseFixedSet, divideOverFixedSet, false, true};

/// Policies for the class parameter `static`, with go-gpuallocator's names. Not values of cardPolicy.
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
