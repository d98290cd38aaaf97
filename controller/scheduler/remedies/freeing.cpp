#include "controller/scheduler/remedies/freeing.h"

#include <algorithm>

#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/topology/dgx.h"

namespace egpu::scheduler {

Freeing::Freeing(const Cluster::State& state, const Request& request, Needs& needs)
    : state_(state), request_(request), needs_(needs) {
  if (divides(request)) total_.emplace(request);
  const CardPolicy* policy = findCardPolicy(request.cardPolicy);
  fixedSets_ = policy && !policy->takesAny;
}

bool Freeing::couldServe(CardId id) {
  const CardRecord& card = state_.cards[id];
  const auto& names = request_.pinnedCards;
  return card.healthy && needs_.of(card.type).possible() &&
         (names.empty() || std::find(names.begin(), names.end(), state_.cardName(id)) != names.end());
}

std::pair<int64_t, Remedy::CardRoom> Freeing::missing(CardId id, const Amount& charged) const {
  const CardRecord& card = state_.cards[id];
  Remedy::CardRoom room{std::string(state_.cardName(id)), {}, 0};
  if (request_.wholeCards) {
    room.amount = state_.usedOf(id);
    room.claims = card.claims();
  } else {
    const Amount free = card.free();
    room.amount = {std::max<int64_t>(0, charged.core - free.core), std::max<int64_t>(0, charged.memory - free.memory)};
  }
  if (request_.maxClaimsPerCard > 0) room.claims = std::max(room.claims, card.claims() - request_.maxClaimsPerCard + 1);
  room.claims = std::max<int64_t>(room.claims, 0);
  return {fillOf(room.amount, state_.capacityOf(id)) + room.claims, std::move(room)};
}

void Freeing::add(Freed& freed, const std::pair<int64_t, Remedy::CardRoom>& missing) const {
  const auto& [cost, room] = missing;
  freed.cost += cost;
  if (room.amount != Amount{} || room.claims > 0) freed.rooms.push_back(room);
}

std::optional<Freeing::Freed> Freeing::each(const Cards& cards) {
  std::vector<std::pair<int64_t, Remedy::CardRoom>> costs;
  for (const CardId id : cards) costs.push_back(missing(id, needs_.of(state_.cards[id].type).charged));
  const auto wanted = static_cast<std::size_t>(request_.cards);
  if (costs.size() < wanted) return std::nullopt;
  std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Freed freed;
  for (std::size_t i = 0; i < wanted; ++i) add(freed, costs[i]);
  return freed;
}

/// `all`: every one of the cards gets a part.
std::optional<Freeing::Freed> Freeing::divided(const Cards& cards, bool all) {
  struct Candidate {
    CardId card;
    int64_t now = 0, empty = 0, part = 0;  // steps: that it could hold now, and empty; and that it must hold
    int64_t gain = 0, cost = 0;            // of freeing what would be needed most
  };
  const int64_t total = total_->steps();
  std::vector<Candidate> rooms;
  for (const CardId id : cards) {
    const CardRecord& card = state_.cards[id];
    const CardType& type = state_.types[card.type];
    const bool full = request_.maxClaimsPerCard > 0 && card.claims() >= request_.maxClaimsPerCard;
    Candidate room{id};
    room.empty = total_->roomOn(type, state_.capacityOf(id));
    room.now = room.part = full ? 0 : total_->roomOn(type, card.free());
    if (room.empty > 0) rooms.push_back(room);
  }
  if (all && (rooms.size() < cards.size() || static_cast<int64_t>(rooms.size()) > total)) return std::nullopt;
  std::stable_sort(rooms.begin(), rooms.end(),
                   [](const Candidate& a, const Candidate& b) { return a.empty > b.empty; });
  if (rooms.size() > SplitTotal::kMostCards) {
    if (all) return std::nullopt;
    rooms.resize(SplitTotal::kMostCards);
  }
  int64_t lacking = total;
  for (Candidate& room : rooms) {
    if (all) room.part = std::max<int64_t>(room.part, 1);
    lacking -= room.part;
  }
  auto costOf = [&](const Candidate& room, int64_t part) {
    const CardType& type = state_.types[state_.cards[room.card].type];
    return missing(room.card, chargedFor(total_->atMost(type, part), request_));
  };
  for (Candidate& room : rooms) {
    room.gain = std::min(room.empty - room.part, std::max<int64_t>(lacking, 0));
    if (room.gain > 0) room.cost = costOf(room, room.part + room.gain).first;
  }
  std::stable_sort(rooms.begin(), rooms.end(), [](const Candidate& a, const Candidate& b) {
    return static_cast<__int128>(a.cost) * b.gain < static_cast<__int128>(b.cost) * a.gain;
  });
  Freed freed;
  for (Candidate& room : rooms) {
    const int64_t more = std::min(room.gain, std::max<int64_t>(lacking, 0));
    room.part += more;
    lacking -= more;
    if (room.part > room.now) add(freed, costOf(room, room.part));
  }
  return lacking > 0 ? std::nullopt : std::optional(std::move(freed));
}

std::optional<Freeing::Freed> Freeing::on(const NodeRecord& node) {
  const bool pinned = !request_.pinnedCards.empty();
  auto forCards = [&](const Cards& cards, bool all) { return total_ ? divided(cards, all) : each(cards); };
  if (!fixedSets_) {
    Cards cards;
    for (const CardId id : node.cards)
      if (couldServe(id)) cards.push_back(id);
    return forCards(cards, pinned);
  }
  std::optional<Freed> best;
  for (std::size_t size = 1; size <= SplitTotal::kMostCards; ++size) {
    if (!total_ && static_cast<int64_t>(size) != request_.cards) continue;
    if (pinned && size != request_.pinnedCards.size()) continue;
    for (topology::Set set : topology::fixedSets(node.machine, size)) {
      Cards cards;
      for (; set != 0; set &= set - 1)
        if (const CardId id = node.cards[topology::lowestCard(set)]; couldServe(id)) cards.push_back(id);
      if (cards.size() < size) continue;
      std::optional<Freed> freed = forCards(cards, true);
      if (freed && (!best || freed->cost < best->cost)) best = std::move(freed);
    }
  }
  return best;
}

}  // namespace egpu::scheduler
