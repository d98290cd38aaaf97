#include "controller/scheduler/decide.h"

#include <algorithm>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/fill.h"
#include "controller/scheduler/fit.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state.h"

namespace egpu::scheduler {
namespace {

struct Candidate {
  CardId card;
  int64_t score;
};

class Deciding {
 public:
  Deciding(const Cluster::State& state, const Request& request, const NodePredicate& suits)
      : state_(state), request_(request), suits_(suits), needs_(state, request) {}

  Decision run() {
    const NodePolicy* nodePolicy = findNodePolicy(request_.nodePolicy);
    const CardPolicy* cardPolicy = findCardPolicy(request_.cardPolicy);
    // An unknown policy is refused when the request is made; here it can only mean that nothing fits.
    if (!nodePolicy || !cardPolicy || request_.cards < 1) return {};
    NodeId node = request_.pinnedNode.empty() && request_.pinnedCards.empty() ? bestNode(*nodePolicy) : pinnedNode();
    return node == kNone ? Decision{} : choose(node, *cardPolicy);
  }

 private:
  bool pinned(CardId id) const {
    const auto& names = request_.pinnedCards;
    return names.empty() || std::find(names.begin(), names.end(), state_.cards[id].facts->name) != names.end();
  }

  bool fits(NodeId id) {
    const NodeRecord& node = state_.nodes[id];
    if (!node.offered() || !nodeBelowLimit(node, request_)) return false;
    int64_t count = 0;
    for (CardId c : node.cards) {
      const CardRecord& card = state_.cards[c];
      const Need& need = needs_.of(card.type);
      if (need.possible() && cardFits(card, need, request_) && pinned(c)) ++count;
    }
    return count >= request_.cards && (!suits_ || suits_(node.name));
  }

  NodeId pinnedNode() {
    NodeId id = kNone;
    if (!request_.pinnedCards.empty()) {
      if (static_cast<int64_t>(request_.pinnedCards.size()) != request_.cards) return kNone;
      for (const std::string& name : request_.pinnedCards) {
        CardId card = state_.findCard(name);
        if (card == kNone || state_.cards[card].node == kNone) return kNone;
        if (id != kNone && state_.cards[card].node != id) return kNone;
        id = state_.cards[card].node;
      }
      if (!request_.pinnedNode.empty() && state_.nodes[id].name != request_.pinnedNode) return kNone;
    } else {
      id = state_.findNode(request_.pinnedNode);
    }
    return id != kNone && fits(id) ? id : kNone;
  }

  NodeId bestNode(const NodePolicy& policy) {
    NodeId best = kNone;
    int64_t bestFill = 0;
    for (const auto& [name, id] : state_.nodeIds) {
      Amount used, capacity;
      for (CardId c : state_.nodes[id].cards) {
        const CardRecord& card = state_.cards[c];
        if (!card.healthy) continue;
        used.core += card.used.core;
        used.memory += card.used.memory;
        capacity.core += card.capacity.core;
        capacity.memory += card.capacity.memory;
      }
      int64_t fill = fillOf(used, capacity);
      if (best != kNone && (policy.walk == Walk::fullestFirst ? fill <= bestFill : fill >= bestFill)) continue;
      if (!fits(id)) continue;
      best = id;
      bestFill = fill;
    }
    return best;
  }

  Decision choose(NodeId id, const CardPolicy& policy) {
    const NodeRecord& node = state_.nodes[id];
    std::vector<Candidate> candidates;
    candidates.reserve(node.cards.size());
    for (CardId c : node.cards) {
      const CardRecord& card = state_.cards[c];
      const Need& need = needs_.of(card.type);
      if (!need.possible() || !cardFits(card, need, request_) || !pinned(c)) continue;
      candidates.push_back({c, policy.score(fillOf(card.used, card.capacity))});
    }
    // Cards of a node are kept by index and uuid, so a stable sort breaks ties as promised.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    Decision decision;
    decision.fits = true;
    decision.node = node.name;
    for (int64_t i = 0; i < request_.cards; ++i) {
      const CardRecord& card = state_.cards[candidates[static_cast<std::size_t>(i)].card];
      const Need& need = needs_.of(card.type);
      decision.placements.push_back({card.facts->name, card.facts->card.uuid, need.granted, need.charged});
    }
    return decision;
  }

  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  Needs needs_;
};

}  // namespace

Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits) {
  return Deciding(cluster.state(), request, suits).run();
}

}  // namespace egpu::scheduler
