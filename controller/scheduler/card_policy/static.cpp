#include "controller/scheduler/card_policy/static.h"

#include "controller/scheduler/card_policy/places.h"

namespace egpu::scheduler::card_policy {
namespace {

using topology::Machine;

bool chooseSet(Machine machine, const Offer& offer, Chosen& chosen) {
  const topology::Set required = requiredPlacesOf(offer);
  if (topology::count(required) != offer.required.size()) return false;
  const topology::Set set = topology::firstFixedSet(machine, {placesOf(offer), offer.wanted, required, 0});
  if (set == 0) return false;
  choosePlaces(offer, set, chosen);
  return true;
}

bool divideOverSet(Machine machine, const Offer& offer, const Division& division, Chosen& chosen) {
  Division::Quality best;
  Chosen tried;
  for (std::size_t size = 1; size <= SplitTotal::kMaxCards; ++size) {
    for (const topology::Set set : topology::fixedSets(machine, size)) {
      if (!choosePlaces(offer, division, set, tried)) continue;
      const Division::Quality quality = division.qualityOf(tried.cards);
      if (quality.cards == 0 || (best.cards != 0 && quality >= best)) continue;
      best = quality;
      chosen.cards = tried.cards;
    }
  }
  return best.cards != 0;
}

}  // namespace

bool chooseFixedSet(const Offer& offer, Chosen& chosen) { return chooseSet(offer.node.machine, offer, chosen); }

bool divideOverFixedSet(const Offer& offer, const Division& division, Chosen& chosen) {
  return divideOverSet(offer.node.machine, offer, division, chosen);
}

template <Machine machine>
bool chooseSetOf(const Offer& offer, Chosen& chosen) {
  return chooseSet(machine, offer, chosen);
}

template <Machine machine>
bool divideOverSetOf(const Offer& offer, const Division& division, Chosen& chosen) {
  return divideOverSet(machine, offer, division, chosen);
}

#define EGPU_STATIC_MACHINE(machine)                                  \
  template bool chooseSetOf<Machine::machine>(const Offer&, Chosen&); \
  template bool divideOverSetOf<Machine::machine>(const Offer&, const Division&, Chosen&)
EGPU_STATIC_MACHINE(dgx1Pascal);
EGPU_STATIC_MACHINE(dgx1Volta);
EGPU_STATIC_MACHINE(dgx2);
#undef EGPU_STATIC_MACHINE

}  // namespace egpu::scheduler::card_policy
