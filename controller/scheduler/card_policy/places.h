// Converts an offer's cards to a set of their positions on the node and back. Cards after the 64th are not in sets.
#pragma once

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/topology/sets.h"

namespace egpu::scheduler::card_policy {

inline bool isIn(topology::Set set, const CardCandidate& card) {
  return card.place < topology::kMaxCards && (set & topology::only(card.place)) != 0;
}

inline topology::Set placesOf(const Offer& offer) {
  topology::Set set = 0;
  for (const CardCandidate& candidate : offer.cards)
    if (candidate.place < topology::kMaxCards) set |= topology::only(candidate.place);
  return set;
}

/// Positions of the required cards. Omits a card after the 64th; then no set contains all required cards.
inline topology::Set requiredPlacesOf(const Offer& offer) {
  topology::Set set = 0;
  for (const uint32_t position : offer.required)
    if (offer.cards[position].place < topology::kMaxCards) set |= topology::only(offer.cards[position].place);
  return set;
}

inline void choosePlaces(const Offer& offer, topology::Set set, Chosen& chosen) {
  for (uint32_t i = 0; i < offer.cards.size(); ++i)
    if (isIn(set, offer.cards[i])) chosen.cards.push_back(i);
}

/// Chooses the cards of a set in the order of their capacity. Returns false if the offer lacks one of them.
inline bool choosePlaces(const Offer& offer, const Division& division, topology::Set set, Chosen& chosen) {
  chosen.cards.clear();
  for (const uint32_t card : division.byCapacity())
    if (isIn(set, offer.cards[card])) chosen.cards.push_back(card);
  return chosen.cards.size() == topology::count(set);
}

}  // namespace egpu::scheduler::card_policy
