#include "controller/scheduler/remedies/freeing.h"

#include <algorithm>

#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/topology/dgx.h"

namespace egpu::scheduler {

Freeing::Freeing(const Cluster::State& state, const Request& request, Needs& needs)
    : state_(state),
      request_(request),
      needs_(needs),
      mode_(modeOf(state, request)),
      policy_(findCardPolicy(request.cardPolicy)) {
  if (divides(request)) total_.emplace(request);
}

bool Freeing::couldServe(CardId id) {
  const CardRecord& card = state_.cards[id];
  const Need& need = needs_.of(card.type);
  return card.healthy && need.possible() && offersMode(card, mode_) && isAllowedByPin(state_, request_, id);
}

std::pair<int64_t, Remedy::CardCapacity> Freeing::missing(CardId id, const Amount& charged) const {
  const CardRecord& card = state_.cards[id];
  Remedy::CardCapacity shortage{std::string(state_.cardName(id)), {}, 0};
  if (request_.wholeCards || isBlocked(id)) {
    shortage.amount = state_.usedOf(id);
    shortage.claims = card.claims();
    if (isBlocked(id)) shortage.isolation = state_.modes.nameOf(static_cast<ModeId>(card.mode));
  } else {
    const Amount free = card.free();
    shortage.amount = {std::max<int64_t>(0, charged.core - free.core),
                       std::max<int64_t>(0, charged.memory - free.memory)};
  }
  if (request_.maxClaimsPerCard > 0)
    shortage.claims = std::max(shortage.claims, card.claims() - request_.maxClaimsPerCard + 1);
  shortage.claims = std::max<int64_t>(shortage.claims, 0);
  return {fillOf(shortage.amount, state_.capacityOf(id)) + shortage.claims, std::move(shortage)};
}

void Freeing::add(Freed& freed, const std::pair<int64_t, Remedy::CardCapacity>& missing) const {
  const auto& [cost, shortage] = missing;
  freed.cost += cost;
  if (shortage.amount != Amount{} || shortage.claims > 0) freed.shortages.push_back(shortage);
}

std::optional<Freeing::Freed> Freeing::each(const Cards& cards) {
  std::vector<std::pair<int64_t, Remedy::CardCapacity>> costs;
  for (const CardId id : cards) costs.push_back(missing(id, needs_.of(state_.cards[id].type).charged));
  const auto wanted = static_cast<std::size_t>(request_.cards);
  if (costs.size() < wanted) return std::nullopt;
  const auto pinned = [&](const auto& cost) {
    const auto& names = request_.pinnedCards;
    return std::find(names.begin(), names.end(), cost.second.card) != names.end();
  };
  // Pinned cards first, because they are always given; then the cheapest.
  std::stable_sort(costs.begin(), costs.end(), [&](const auto& a, const auto& b) {
    return std::pair(!pinned(a), a.first) < std::pair(!pinned(b), b.first);
  });
  if (!isLimitedToPinned(request_) && !request_.pinnedCards.empty() && !pinned(costs[request_.pinnedCards.size() - 1]))
    return std::nullopt;
  Freed freed;
  for (std::size_t i = 0; i < wanted; ++i) add(freed, costs[i]);
  return freed;
}

std::optional<std::vector<Freeing::CardPart>> Freeing::sharesOf(const Cards& cards, bool all) const {
  std::vector<CardPart> shares;
  for (const CardId id : cards) {
    const CardRecord& card = state_.cards[id];
    const CardType& type = state_.types[card.type];
    CardPart share{id};
    const bool full = request_.maxClaimsPerCard > 0 && card.claims() >= request_.maxClaimsPerCard;
    share.empty = total_->capacityOn(type, state_.capacityOf(id));
    share.free = isBlocked(id) ? 0 : total_->capacityOn(type, card.free());
    share.now = share.part = full ? 0 : share.free;
    if (share.empty > 0) shares.push_back(share);
  }
  if (all && (shares.size() < cards.size() || static_cast<int64_t>(shares.size()) > total_->steps()))
    return std::nullopt;
  std::stable_sort(shares.begin(), shares.end(),
                   [](const CardPart& a, const CardPart& b) { return a.empty > b.empty; });
  if (shares.size() > SplitTotal::kMaxCards) {
    if (all) return std::nullopt;
    shares.resize(SplitTotal::kMaxCards);
  }
  return shares;
}

std::pair<int64_t, Remedy::CardCapacity> Freeing::missing(const CardPart& share, int64_t part) const {
  const CardType& type = state_.types[state_.cards[share.card].type];
  return missing(share.card, chargedFor(total_->maxAmount(type, part), request_));
}

void Freeing::trim(std::vector<CardPart>& shares, int64_t lacking, bool all) const {
  for (auto share = shares.rbegin(); share != shares.rend(); ++share) {
    if (share->part <= share->now) continue;
    // A card at its limit of claims offers all its free capacity after the first released claim. It is skipped, or
    // keeps that capacity.
    const bool spared = !all && share->part - share->now <= -lacking;
    const int64_t least = spared ? share->now : std::max({share->now, share->free, int64_t{all ? 1 : 0}});
    const int64_t less = std::clamp<int64_t>(-lacking, 0, share->part - least);
    share->part -= less;
    lacking += less;
  }
}

/// `all`: every card gets a part.
std::optional<Freeing::Freed> Freeing::divided(const Cards& cards, bool all) {
  auto found = sharesOf(cards, all);
  if (!found) return std::nullopt;
  std::vector<CardPart>& shares = *found;
  int64_t lacking = total_->steps();
  for (CardPart& share : shares) {
    if (all) share.part = std::max<int64_t>(share.part, 1);
    lacking -= share.part;
  }
  for (CardPart& share : shares) {
    share.gain = std::min(share.empty - share.part, std::max<int64_t>(lacking, 0));
    if (share.gain > 0) share.cost = missing(share, share.part + share.gain).first;
  }
  std::stable_sort(shares.begin(), shares.end(), [](const CardPart& a, const CardPart& b) {
    if (a.gain == 0 || b.gain == 0) return a.gain > b.gain;
    return static_cast<__int128>(a.cost) * b.gain < static_cast<__int128>(b.cost) * a.gain;
  });
  for (CardPart& share : shares) {
    int64_t more = std::min(share.gain, std::max<int64_t>(lacking, 0));
    if (share.part + more > share.now) more = std::max(more, share.free - share.part);
    share.part += more;
    lacking -= more;
  }
  if (lacking > 0) return std::nullopt;
  trim(shares, lacking, all);
  Freed freed;
  for (const CardPart& share : shares)
    if (share.part > share.now) add(freed, missing(share, share.part));
  return freed;
}

std::optional<Freeing::Freed> Freeing::on(const NodeRecord& node) {
  const bool pinned = !request_.pinnedCards.empty();
  auto forCards = [&](const Cards& cards, bool all) { return total_ ? divided(cards, all) : each(cards); };
  if (policy_ == nullptr || policy_->takesAny) {
    Cards cards;
    for (const CardId id : node.cards)
      if (couldServe(id)) cards.push_back(id);
    return forCards(cards, pinned);
  }
  std::optional<Freed> best;
  for (std::size_t size = 1; size <= SplitTotal::kMaxCards; ++size) {
    if (!total_ && static_cast<int64_t>(size) != request_.cards) continue;
    if (pinned && size < request_.pinnedCards.size()) continue;
    for (topology::Set set : topology::fixedSets(policy_->machineOf(node), size)) {
      Cards cards;
      for (; set != 0; set &= set - 1) {
        const std::size_t place = topology::lowestCard(set);  // the class's machine can have more cards than the node
        if (place < node.cards.size() && couldServe(node.cards[place])) cards.push_back(node.cards[place]);
      }
      if (cards.size() < size) continue;
      std::optional<Freed> freed = forCards(cards, true);
      if (freed && (!best || freed->cost < best->cost)) best = std::move(freed);
    }
  }
  return best;
}

}  // namespace egpu::scheduler
