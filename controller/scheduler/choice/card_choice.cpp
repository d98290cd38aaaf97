#include "controller/scheduler/choice/card_choice.h"

#include <algorithm>
#include <numeric>

namespace egpu::scheduler {

CardChoice::CardChoice(const Cluster::State& state, const Request& request, const CardPolicy& policy, Needs& needs)
    : state_(state), request_(request), policy_(policy), needs_(needs) {
  if (divides(request)) total_.emplace(request);
}

bool CardChoice::canHold(CardId id) {
  const CardRecord& card = state_.cards[id];
  const Need& need = needs_.of(card.type);
  return need.possible() && scheduler::canHold(card, need, request_) && isAllowedByPin(state_, request_, id);
}

void CardChoice::collect(const NodeRecord& node) {
  candidates_.clear();
  candidates_.reserve(node.cards.size());
  for (uint32_t place = 0; place < node.cards.size(); ++place)
    if (const CardId id = node.cards[place]; canHold(id))
      candidates_.push_back({id, place, state_.usedOf(id), state_.capacityOf(id)});
}

v1alpha::Slots CardChoice::slotsOn(const CardRecord& card) {
  const auto& profiles = state_.types[card.type].mig;
  const auto slots =
      mig::chooseSlots(profiles, *needs_.of(card.type).profile, request_.mig.instances, card.left.used());
  return slots.value_or(v1alpha::Slots{});
}

void CardChoice::keepLeastLoss() {
  if (candidates_.size() < 2) return;
  std::vector<int64_t> losses;
  losses.reserve(candidates_.size());
  for (const CardCandidate& candidate : candidates_) {
    const CardRecord& card = state_.cards[candidate.card];
    losses.push_back(mig::placementLoss(state_.types[card.type].mig, card.left.used(), slotsOn(card)));
  }
  const int64_t least = *std::min_element(losses.begin(), losses.end());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (losses[i] == least) candidates_[kept++] = candidates_[i];
  candidates_.resize(kept);
}

bool CardChoice::applyPolicy(const NodeRecord& node, Chosen& chosen) {
  const auto wanted = static_cast<std::size_t>(request_.cards);
  if (candidates_.size() < wanted) return false;
  required_.clear();
  if (!request_.pinnedCards.empty() && !isLimitedToPinned(request_)) {
    for (uint32_t i = 0; i < candidates_.size(); ++i)
      if (isPinned(state_, request_, candidates_[i].card)) required_.push_back(i);
    if (required_.size() != request_.pinnedCards.size()) return false;
  }
  return policy_.choose({node, candidates_, wanted, request_.memoryWeight, required_}, chosen);
}

std::vector<int64_t> CardChoice::capacities() {
  std::vector<int64_t> capacities;
  std::erase_if(candidates_, [&](const CardCandidate& candidate) {
    const CardRecord& card = state_.cards[candidate.card];
    const int64_t capacity = total_->capacityOn(state_.types[card.type], card.free());
    if (capacity > 0) capacities.push_back(capacity);
    return capacity == 0;
  });
  return capacities;
}

bool CardChoice::applyPolicyToTotal(const NodeRecord& node, const Division& division, Chosen& chosen) const {
  if (!request_.pinnedCards.empty()) {  // exactly the pinned cards
    chosen.cards = division.byCapacity();
    Chosen all;
    return chosen.cards.size() == request_.pinnedCards.size() && division.qualityOf(chosen.cards).cards > 0 &&
           policy_.choose({node, candidates_, chosen.cards.size(), request_.memoryWeight, {}}, all);
  }
  return division.possible() && policy_.divide({node, candidates_, 0, request_.memoryWeight, {}}, division, chosen);
}

bool CardChoice::fits(const NodeRecord& node) {
  if (request_.cards == 0) return true;
  if (!total_ && policy_.takesAny && request_.pinnedCards.empty()) {
    int64_t count = 0;
    for (CardId id : node.cards)
      if (canHold(id) && ++count >= request_.cards) return true;
    return false;
  }
  collect(node);
  Chosen chosen;
  if (!total_) return applyPolicy(node, chosen);
  std::vector<int64_t> capacity = capacities();
  const bool enough =
      std::accumulate(capacity.begin(), capacity.end(), int64_t{0}) >= total_->steps() && !capacity.empty();
  const bool allCount = capacity.size() <= SplitTotal::kMaxCards && policy_.takesAny && request_.pinnedCards.empty();
  if (!enough || allCount) return enough;
  return applyPolicyToTotal(node, Division(request_.split, total_->steps(), std::move(capacity)), chosen);
}

bool CardChoice::pick(const NodeRecord& node, std::vector<Pick>& picks) {
  int64_t linkGap = 0;
  return pickInto(node, picks, linkGap);
}

bool CardChoice::pickInto(const NodeRecord& node, std::vector<Pick>& picks, int64_t& linkGap) {
  picks.clear();
  if (request_.cards == 0) return true;
  collect(node);
  if (policy_.byPlacementLoss && !request_.mig.profile.empty()) keepLeastLoss();
  chosen_.cards.clear();
  chosen_.linkGap = 0;
  std::vector<Amount> granted;
  if (total_) {
    const Division division(request_.split, total_->steps(), capacities());
    if (!applyPolicyToTotal(node, division, chosen_)) return false;
    std::vector<const CardType*> types;
    for (uint32_t at : chosen_.cards) types.push_back(&state_.types[state_.cards[candidates_[at].card].type]);
    granted = total_->amounts(types, division.parts(chosen_.cards));
  } else if (!applyPolicy(node, chosen_)) {
    return false;
  }
  linkGap = chosen_.linkGap;
  for (std::size_t i = 0; i < chosen_.cards.size(); ++i) {
    const CardId id = candidates_[chosen_.cards[i]].card;
    if (total_) {
      picks.push_back({id, granted[i], chargedFor(granted[i], request_)});
    } else {
      const CardRecord& card = state_.cards[id];
      const Need& need = needs_.of(card.type);
      picks.push_back({id, need.granted, need.charged});
      if (need.profile != nullptr) picks.back().granted.slots = picks.back().charged.slots = slotsOn(card);
    }
  }
  return true;
}

MigInstances CardChoice::instancesOn(CardId id) {
  const auto* profile = needs_.of(state_.cards[id].type).profile;
  return profile == nullptr ? MigInstances{} : MigInstances{profile->name, request_.mig.instances};
}

Decision CardChoice::choose(const NodeRecord& node) {
  Decision decision;
  decision.fits = true;
  decision.node = node.name;
  std::vector<Pick> picks;
  pickInto(node, picks, decision.linkGap);
  decision.placements.reserve(picks.size());
  for (const Pick& pick : picks)
    decision.placements.push_back({std::string(state_.cardName(pick.card)), std::string(state_.cardUuid(pick.card)),
                                   pick.granted, pick.charged, pick.card,
                                   isolationOf(state_.cards[pick.card], request_), instancesOn(pick.card)});
  return decision;
}

}  // namespace egpu::scheduler
