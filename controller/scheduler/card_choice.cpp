#include "controller/scheduler/card_choice.h"

#include <algorithm>
#include <numeric>

namespace egpu::scheduler {

CardChoice::CardChoice(const Cluster::State& state, const Request& request, const CardPolicy& policy, Needs& needs)
    : state_(state), request_(request), policy_(policy), needs_(needs) {
  if (divides(request)) total_.emplace(request);
}

bool CardChoice::pinned(CardId id) const {
  const auto& names = request_.pinnedCards;
  return names.empty() || std::find(names.begin(), names.end(), state_.cardName(id)) != names.end();
}

bool CardChoice::cardFits(CardId id) {
  const CardRecord& card = state_.cards[id];
  const Need& need = needs_.of(card.type);
  return need.possible() && scheduler::cardFits(card, need, request_) && pinned(id);
}

void CardChoice::collect(const NodeRecord& node) {
  candidates_.clear();
  candidates_.reserve(node.cards.size());
  for (uint32_t place = 0; place < node.cards.size(); ++place)
    if (const CardId id = node.cards[place]; cardFits(id))
      candidates_.push_back({id, place, state_.usedOf(id), state_.capacityOf(id)});
}

std::vector<int64_t> CardChoice::rooms() {
  std::vector<int64_t> rooms;
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    const CardRecord& card = state_.cards[candidate.card];
    const int64_t room = total_->roomOn(state_.types[card.type], card.free());
    if (room > 0) rooms.push_back(room);
    return room == 0;
  });
  return rooms;
}

bool CardChoice::divided(const NodeRecord& node, const Division& division, Chosen& chosen) const {
  if (!request_.pinnedCards.empty()) {  // exactly these
    chosen.cards = division.byRoom();
    Chosen all;
    return chosen.cards.size() == request_.pinnedCards.size() && division.qualityOf(chosen.cards).cards > 0 &&
           policy_.choose({node, candidates_, chosen.cards.size()}, all);
  }
  return division.possible() && policy_.divide({node, candidates_, 0}, division, chosen);
}

bool CardChoice::fits(const NodeRecord& node) {
  if (request_.cards == 0) return true;
  if (!total_ && policy_.takesAny) {
    int64_t count = 0;
    for (CardId id : node.cards)
      if (cardFits(id)) ++count;
    return count >= request_.cards;
  }
  collect(node);
  Chosen chosen;
  if (!total_)
    return static_cast<int64_t>(candidates_.size()) >= request_.cards &&
           policy_.choose({node, candidates_, static_cast<std::size_t>(request_.cards)}, chosen);
  std::vector<int64_t> room = rooms();
  const bool enough = std::accumulate(room.begin(), room.end(), int64_t{0}) >= total_->steps() && !room.empty();
  const bool allCount = room.size() <= SplitTotal::kMostCards && policy_.takesAny && request_.pinnedCards.empty();
  if (!enough || allCount) return enough;
  return divided(node, Division(request_.split, total_->steps(), std::move(room)), chosen);
}

Decision CardChoice::choose(const NodeRecord& node) {
  Decision decision;
  decision.fits = true;
  decision.node = node.name;
  if (request_.cards == 0) return decision;
  collect(node);
  Chosen chosen;
  std::vector<Amount> granted;
  if (total_) {
    const Division division(request_.split, total_->steps(), rooms());
    divided(node, division, chosen);
    std::vector<const CardType*> types;
    for (uint32_t at : chosen.cards) types.push_back(&state_.types[state_.cards[candidates_[at].card].type]);
    granted = total_->amounts(types, division.parts(chosen.cards));
  } else {
    policy_.choose({node, candidates_, static_cast<std::size_t>(request_.cards)}, chosen);
  }
  decision.linkGap = chosen.linkGap;
  decision.placements.reserve(chosen.cards.size());
  for (std::size_t i = 0; i < chosen.cards.size(); ++i) {
    const CardId id = candidates_[chosen.cards[i]].card;
    Placement placement{std::string(state_.cardName(id)), std::string(state_.cardUuid(id)), {}, {}};
    if (total_) {
      placement.granted = granted[i];
      placement.charged = chargedFor(granted[i], request_);
    } else {
      const Need& need = needs_.of(state_.cards[id].type);
      placement.granted = need.granted;
      placement.charged = need.charged;
    }
    decision.placements.push_back(std::move(placement));
  }
  return decision;
}

}  // namespace egpu::scheduler
