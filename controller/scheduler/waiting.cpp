#include "controller/scheduler/waiting.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/split.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

/// When a node may have room for a request: in so many seconds, if each holder stays as long again as it has been there.
class Expecting {
 public:
  Expecting(const Cluster::State& state, const Request& request, int64_t now, const HeldSince& heldSince)
      : state_(state), request_(request), needs_(state, request), now_(now), heldSince_(heldSince) {
    const CardPolicy* policy = findCardPolicy(request.cardPolicy);
    inOnePiece_ = divides(request) || !policy || !policy->takesAny;
  }

  /// Nothing: never, as far as is known.
  std::optional<int64_t> on(NodeId id) {
    const NodeRecord& node = state_.nodes[id];
    const auto wanted = static_cast<std::size_t>(request_.cards);
    if (!node.offered() || node.cards.size() < wanted) return std::nullopt;
    std::vector<int64_t> cards;
    for (const CardId card : node.cards)
      if (mayServe(card)) cards.push_back(cardFree(card));
    if (cards.size() < wanted) return std::nullopt;
    int64_t in = 0;
    if (wanted > 0) {
      std::sort(cards.begin(), cards.end());
      // Which cards a divided total or a fixed set gets is not known beforehand: all of them are waited for.
      in = inOnePiece_ ? cards.back() : cards[wanted - 1];
    }
    const std::optional<int64_t> rest = nodeFree(id);
    return rest ? std::optional(std::max(in, *rest)) : std::nullopt;
  }

 private:
  bool mayServe(CardId id) {
    const CardRecord& card = state_.cards[id];
    const auto& names = request_.pinnedCards;
    return card.healthy && needs_.of(card.type).possible() &&
           (names.empty() || std::find(names.begin(), names.end(), state_.cardName(id)) != names.end());
  }

  int64_t ageOf(std::string_view device) const { return std::max<int64_t>(0, now_ - heldSince_(device)); }

  int64_t cardFree(CardId id) {
    const CardRecord& card = state_.cards[id];
    const Need& need = needs_.of(card.type);
    if (cardFits(card, need, request_)) return 0;
    if (!request_.wholeCards && !inOnePiece_) return partFree(card, id, need);
    int64_t last = 0;
    state_.eachTake(
        id, [&](std::string_view device, const Amount&, const NodeAmount&) { last = std::max(last, ageOf(device)); });
    return last;
  }

  /// The youngest holders go first, until there is room.
  int64_t partFree(const CardRecord& card, CardId id, const Need& need) const {
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

  /// The same for CPU, memory and the number of claims. Of pods without claims nobody says since when they are there:
  /// they are taken to stay.
  std::optional<int64_t> nodeFree(NodeId id) const {
    const NodeRecord& node = state_.nodes[id];
    if (nodeBelowLimit(node, request_) && nodeHasRoom(node, request_)) return 0;
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
      if (nodeBelowLimit(then, request_) && nodeHasRoom(then, request_)) return age;
    }
    return std::nullopt;
  }

  const Cluster::State& state_;
  const Request& request_;
  Needs needs_;
  const int64_t now_;
  const HeldSince& heldSince_;
  bool inOnePiece_ = false;
};

using Nodes = std::set<std::string, std::less<>>;

/// The node that is expected first, of those that are not kept already; empty: none.
std::string soonest(const Cluster& cluster, const Waiter& who, const NodePredicate& open, int64_t now,
                    const HeldSince& heldSince, std::string_view keptNow) {
  Expecting expecting(cluster.state(), *who.request, now, heldSince);
  std::string_view best;
  int64_t least = 0;
  for (const auto& [name, id] : cluster.state().nodesByName()) {
    if (!who.request->pinnedNode.empty() && name != who.request->pinnedNode) continue;
    std::optional<int64_t> in = expecting.on(id);
    if (!in || !open(name)) continue;
    if (name == keptNow) *in /= 2;
    if (!best.empty() && (*in > least || (*in == least && name != keptNow))) continue;
    best = name;
    least = *in;
  }
  return std::string(best);
}

}  // namespace

bool comesBefore(const Waiter& a, const Waiter& b) {
  return std::tie(b.priority, a.since, a.name) < std::tie(a.priority, b.since, b.name);
}

std::vector<Kept> keepNodes(const Cluster& cluster, const std::vector<Waiter>& waiting, int64_t now,
                            const HeldSince& heldSince, const std::vector<Kept>& before, const Keeping& keeping) {
  std::vector<Kept> kept;
  Nodes taken;
  const std::size_t most =
      std::min(keeping.most, std::max<std::size_t>(1, cluster.nodeCount() / std::max<std::size_t>(1, keeping.share)));
  for (const Waiter& who : waiting) {
    if (kept.size() >= most) break;
    if (now - who.since < keeping.after) continue;
    const NodePredicate open = [&](std::string_view node) {
      return taken.find(node) == taken.end() && (!who.suits || who.suits(node));
    };
    if (decide(cluster, *who.request, open).fits) continue;
    const auto own = std::find_if(before.begin(), before.end(), [&](const Kept& k) { return k.name == who.name; });
    std::string node =
        soonest(cluster, who, open, now, heldSince, own == before.end() ? std::string_view() : own->node);
    if (node.empty()) continue;
    taken.insert(node);
    kept.push_back({who.name, std::move(node)});
  }
  return kept;
}

}  // namespace egpu::scheduler
