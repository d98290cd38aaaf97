#include "controller/scheduler/choice/expected_availability.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/split.h"

namespace egpu::scheduler {

ExpectedAvailability::ExpectedAvailability(const Cluster::State& state, const Request& request, int64_t now,
                                           const HeldSince& heldSince)
    : state_(state), request_(request), needs_(state, request), now_(now), heldSince_(heldSince) {
  const CardPolicy* policy = findCardPolicy(request.cardPolicy);
  inOnePiece_ = divides(request) || !policy || !policy->takesAny;
}

std::optional<int64_t> ExpectedAvailability::on(NodeId id) {
  const NodeRecord& node = state_.nodes[id];
  const auto wanted = static_cast<std::size_t>(request_.cards);
  if (!node.offered() || node.cards.size() < wanted) return std::nullopt;
  std::vector<int64_t> cards;
  for (const CardId card : node.cards)
    if (mayServe(card)) cards.push_back(secondsUntilCardFits(card));
  if (cards.size() < wanted) return std::nullopt;
  int64_t in = 0;
  for (const CardId card : node.cards)
    if (isPinned(state_, request_, card)) in = std::max(in, mayServe(card) ? secondsUntilCardFits(card) : 0);
  if (wanted > 0) {
    std::sort(cards.begin(), cards.end());
    // The cards of a divided total or a fixed set are not known yet, so all cards must become free.
    in = inOnePiece_ ? cards.back() : cards[wanted - 1];
  }
  const std::optional<int64_t> rest = secondsUntilNodeFits(id);
  return rest ? std::optional(std::max(in, *rest)) : std::nullopt;
}

bool ExpectedAvailability::mayServe(CardId id) {
  const CardRecord& card = state_.cards[id];
  const Need& need = needs_.of(card.type);
  return card.healthy && need.possible() && offersMode(card, need.mode) && isAllowedByPin(state_, request_, id);
}

int64_t ExpectedAvailability::ageOf(std::string_view device) const {
  return std::max<int64_t>(0, now_ - heldSince_(device));
}

int64_t ExpectedAvailability::secondsUntilCardFits(CardId id) {
  const CardRecord& card = state_.cards[id];
  const Need& need = needs_.of(card.type);
  if (canHold(card, need, request_)) return 0;
  if (!request_.wholeCards && !inOnePiece_ && !hasOtherMode(card, need.mode))
    return secondsUntilShareFits(card, id, need);
  int64_t last = 0;
  state_.eachTake(
      id, [&](std::string_view device, const Amount&, const NodeAmount&) { last = std::max(last, ageOf(device)); });
  return last;
}

int64_t ExpectedAvailability::secondsUntilShareFits(const CardRecord& card, CardId id, const Need& need) const {
  std::vector<std::pair<int64_t, Amount>> holders;
  state_.eachTake(id, [&](std::string_view device, const Amount& charged, const NodeAmount&) {
    holders.emplace_back(ageOf(device), charged);
  });
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Amount free = card.free();
  auto left = static_cast<int64_t>(holders.size());
  for (const auto& [age, charged] : holders) {
    free.core += charged.core;
    free.memory += charged.memory;
    --left;
    const bool counted = request_.maxClaimsPerCard <= 0 || left < request_.maxClaimsPerCard;
    if (counted && free.core >= need.charged.core && free.memory >= need.charged.memory) return age;
  }
  return holders.empty() ? 0 : holders.back().first;
}

std::optional<int64_t> ExpectedAvailability::secondsUntilNodeFits(NodeId id) const {
  const NodeRecord& node = state_.nodes[id];
  if (isBelowClaimLimit(node, request_) && nodeHasCapacity(node, request_)) return 0;
  std::map<std::string_view, NodeAmount> claims;
  for (const CardId card : node.cards)
    state_.eachTake(card, [&](std::string_view device, const Amount&, const NodeAmount& amount) {
      NodeAmount& of = claims[device];
      of.cpuMilli += amount.cpuMilli;
      of.memory += amount.memory;
    });
  std::vector<std::pair<int64_t, NodeAmount>> leaving;
  leaving.reserve(claims.size());
  for (const auto& [device, amount] : claims) leaving.emplace_back(ageOf(device), amount);
  std::stable_sort(leaving.begin(), leaving.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  NodeRecord then = node;
  for (const auto& [age, amount] : leaving) {
    then.use(amount, -1);
    --then.claims;
    if (isBelowClaimLimit(then, request_) && nodeHasCapacity(then, request_)) return age;
  }
  return std::nullopt;
}

}  // namespace egpu::scheduler
