#include "controller/scheduler/card_policy/topology.h"

#include "controller/scheduler/card_policy/places.h"
#include "controller/scheduler/card_policy/simple.h"
#include "controller/scheduler/card_policy/windows.h"
#include "controller/scheduler/topology/wiring.h"

namespace egpu::scheduler::card_policy {
namespace {

topology::Set bestSet(const topology::Wiring& wiring, topology::Set available, std::size_t size, topology::Set required,
                      Chosen& chosen) {
  if (required == 0 && wiring.scores().cards() <= topology::Wiring::kTabled) return wiring.best(available, size);
  const topology::Choice choice = wiring.choose({available, size, required, 0});
  chosen.linkGap = choice.gap();
  return choice.cards;
}

}  // namespace

bool chooseWellLinked(const Offer& offer, Chosen& chosen) {
  if (!offer.node.topology || offer.wanted == 1) return chooseLowest(offer, chosen);
  const topology::Set required = requiredPlacesOf(offer);
  // More cards than have a position in a set are wanted, or a required card has none.
  if (topology::count(required) != offer.required.size()) return chooseLowest(offer, chosen);
  const topology::Set set = bestSet(*offer.node.topology, placesOf(offer), offer.wanted, required, chosen);
  if (set == 0) return chooseLowest(offer, chosen);
  choosePlaces(offer, set, chosen);
  return true;
}

bool divideOverWellLinked(const Offer& offer, const Division& division, Chosen& chosen) {
  const std::size_t cards = division.best().cards;
  if (!offer.node.topology || cards == 1) return divideOverLowest(offer, division, chosen);
  const topology::Wiring& wiring = *offer.node.topology;
  const std::span<const uint32_t> byCapacity = division.byCapacity();
  topology::Set set = 0;
  if (division.qualityOf(byCapacity.last(cards)) ==
      division.best()) {  // if the smallest cards are enough, any cards are
    set = bestSet(wiring, placesOf(offer), cards, 0, chosen);
  } else {
    Chosen tried;
    const topology::Choice choice = wiring.choose({placesOf(offer), cards, 0, 0}, [&](topology::Set candidate) {
      return choosePlaces(offer, division, candidate, tried) && division.qualityOf(tried.cards) == division.best();
    });
    set = choice.cards;
    chosen.linkGap = choice.gap();
  }
  // 0: more than 64 cards, or a bounded search that met no such set.
  return set == 0 ? divideOverLowest(offer, division, chosen) : choosePlaces(offer, division, set, chosen);
}

}  // namespace egpu::scheduler::card_policy
