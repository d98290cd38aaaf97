#include "controller/scheduler/card_policy/static.h"

#include "controller/scheduler/card_policy/places.h"
#include "controller/scheduler/topology/dgx.h"

namespace egpu::scheduler::card_policy {

bool chooseFixedSet(const Offer& offer, Chosen& chosen) {
  const topology::Set set = topology::firstFixedSet(offer.node.machine, {placesOf(offer), offer.wanted, 0, 0});
  if (set == 0) return false;
  choosePlaces(offer, set, chosen);
  return true;
}

bool divideOverFixedSet(const Offer& offer, const Division& division, Chosen& chosen) {
  Division::Quality best;
  Chosen tried;
  for (std::size_t size = 1; size <= SplitTotal::kMostCards; ++size) {
    for (const topology::Set set : topology::fixedSets(offer.node.machine, size)) {
      if (!choosePlaces(offer, division, set, tried)) continue;
      const Division::Quality quality = division.qualityOf(tried.cards);
      if (quality.cards == 0 || (best.cards != 0 && quality >= best)) continue;
      best = quality;
      chosen.cards = tried.cards;
    }
  }
  return best.cards != 0;
}

}  // namespace egpu::scheduler::card_policy
