#include "controller/scheduler/resize.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/quantity.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/remedies/remedy.h"

namespace egpu::scheduler {
namespace {

/// Returns a cluster of this claim's cards only, with other holders' allocations if `others`. Nodes are schedulable and
/// cards healthy, because cordons and quarantine do not affect present claims.
Cluster cardsAlone(const Cluster& cluster, const std::vector<Holding>& holdings, bool others) {
  Cluster alone;
  for (const Holding& each : holdings) {
    const CardView view = cluster.findCard(each.card);
    alone.upsertNode({std::string(view.node), true});
    v1alpha::Card card = *cluster.describe(each.card);
    if (!others) {  // the claim can keep its amounts even if the card is smaller now
      card.core = std::max(card.core, each.charged.core);
      card.memory = std::max(card.memory, each.charged.memory);
    }
    alone.upsertCard({each.card, std::move(card), true});
    if (!others) continue;
    alone.take(each.card, "others", {view.used.core - each.charged.core, view.used.memory - each.charged.memory});
    if (view.claims == 1) alone.giveBack(each.card, "others");
    for (int64_t i = 2; i < view.claims; ++i) alone.take(each.card, "other/" + std::to_string(i), {});
  }
  return alone;
}

/// Returns the request, pinned to the claim's own cards.
Request onOwnCards(const Request& request, const std::vector<Holding>& old) {
  Request pinned = request;
  pinned.pinnedCards.clear();
  pinned.pinnedNode.clear();
  pinned.cpuMilli = pinned.podMemory = 0;  // the pod's requests do not change
  pinned.maxClaimsPerNode = 0;             // the claim is counted already
  pinned.isolation.clear();                // its cards have its mode
  // A total can be divided over any cards; here the cluster has no others.
  if (!divides(pinned))
    for (const Holding& each : old) pinned.pinnedCards.push_back(each.card);
  return pinned;
}

/// Removes limits that do not apply to shrinking, or to whether the cards could hold the amounts.
Request whateverTheyBecame(Request pinned) {
  pinned.models.clear();
  pinned.minMemory = pinned.maxClaimsPerCard = 0;
  return pinned;
}

bool hasCapacityFor(const Resizing::OfCard& card) {
  if (!card.wanted) return false;
  const Amount left = card.left();
  return (card.wanted->core <= card.old.core || left.core >= 0) &&
         (card.wanted->memory <= card.old.memory || left.memory >= 0);
}

std::string amounts(const Amount& amount) {
  return "core " + v1alpha::formatMilliCards(amount.core) + " and memory " + v1alpha::formatBytes(amount.memory);
}

/// Returns the cards that lack capacity, with the maximum that each could give.
std::string whyNot(const std::vector<Resizing::OfCard>& cards) {
  std::string text;
  for (const auto& card : cards) {
    if (hasCapacityFor(card)) continue;
    text += (text.empty() ? "card " : "; card ") + card.card;
    if (!card.wanted) {
      text += " is too small for that even if empty";
      continue;
    }
    const Amount max{std::max<int64_t>(0, card.available.core + card.old.core),
                     std::max<int64_t>(0, card.available.memory + card.old.memory)};
    text += " can provide " + amounts(max) + ", the claim would need " + amounts(*card.wanted);
  }
  return text;
}

}  // namespace

bool Resizing::grows() const {
  return std::any_of(cards.begin(), cards.end(), [](const OfCard& card) {
    return card.wanted && (card.wanted->core > card.old.core || card.wanted->memory > card.old.memory);
  });
}

Resizing resizeInPlace(const Cluster& cluster, const std::vector<Holding>& old, const Request& request) {
  Resizing result;
  for (const Holding& each : old) {
    const CardView view = cluster.findCard(each.card);
    if (!view.known) {
      result.why = "card " + each.card + " does not exist";
      return result;
    }
    result.node = std::string(view.node);
    result.cards.push_back(
        {each.card, {view.capacity.core - view.used.core, view.capacity.memory - view.used.memory}, each.charged, {}});
  }
  const auto cards = static_cast<int64_t>(old.size());
  const Request pinned = onOwnCards(request, old);
  if (!divides(pinned) && pinned.cards != cards) {
    result.why = "it has " + std::to_string(cards) + (cards == 1 ? " card" : " cards") + " and would have " +
                 std::to_string(pinned.cards) + ": the number of cards can't change, create another claim";
    return result;
  }
  const Decision there = decide(cardsAlone(cluster, old, true), pinned);
  const Decision wanted = there.fits ? there : decide(cardsAlone(cluster, old, false), whateverTheyBecame(pinned));
  for (auto& row : result.cards)
    for (const Placement& placement : wanted.placements)
      if (placement.card == row.card) {
        row.wanted = placement.charged;
        result.placements.push_back(placement);
        result.placements.back().isolation = cluster.findCard(row.card).isolation;
      }
  result.inPlace = std::all_of(result.cards.begin(), result.cards.end(), hasCapacityFor);
  if (result.inPlace) return result;
  result.placements.clear();
  const bool fewer = wanted.fits && wanted.placements.size() < old.size();
  result.why = fewer ? "it would need fewer cards, which requires a new claim" : whyNot(result.cards);
  return result;
}

std::optional<QuotaExcess> excessOf(const Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim,
                                    const Resizing& resizing) {
  Decision decision;
  decision.placements = resizing.placements;
  return book.excess({{claim, partsOf(cluster, decision)}});
}

std::string smallestChangeFor(const Cluster& cluster, const std::vector<Holding>& old, const Request& request) {
  std::string text;
  for (const Remedy& remedy : findRemedies(cardsAlone(cluster, old, true), onOwnCards(request, old), {}))
    text += (text.empty() ? "" : "; or ") + remedy.text;
  return text;
}

}  // namespace egpu::scheduler
