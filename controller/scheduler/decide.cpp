#include "controller/scheduler/decide.h"

#include <algorithm>
#include <limits>

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
    if (!nodePolicy || !cardPolicy || request_.cards < 0) return {};
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
    if (!node.offered() || !nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_)) return false;
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

  /// What a node of this shape must at least have. False: no node of it can ever hold the request.
  bool thresholdFor(const NodeIndex::Shape& shape, Threshold& t) {
    if (request_.cpuMilli > 0) t.require(Summary::kNodeCpu, request_.cpuMilli / Summary::kCpuUnit);
    if (request_.podMemory > 0) t.require(Summary::kNodeMemory, request_.podMemory / Summary::kNodeMemoryUnit);
    if (request_.maxClaimsPerNode > 0) t.require(Summary::kNodeClaims, Summary::kMax - request_.maxClaimsPerNode + 1);
    if (request_.cards == 0) return true;
    Amount least{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
    bool possible = false;
    for (TypeId type : shape.types) {
      const Need& need = needs_.of(type);
      if (!need.possible()) continue;
      possible = true;
      least = {std::min(least.core, need.charged.core), std::min(least.memory, need.charged.memory)};
    }
    if (!possible) return false;
    const int64_t cards = request_.cards;
    if (request_.wholeCards) {
      t.require(Summary::kEmpty, cards);
    } else {
      const int64_t memory = least.memory >> shape.scale.shift;
      auto step = [](int64_t n, std::size_t steps) { return std::min(static_cast<std::size_t>(n), steps - 1); };
      t.require(Summary::kCoreAt + step(memory >> shape.scale.step, Summary::kMemorySteps), least.core);
      t.require(Summary::kMemoryAt + step(least.core / Summary::kCoreStep, Summary::kCoreSteps), memory);
      // The last card that is needed is at least as good as the one of the next power of two below.
      std::size_t rank = 0;
      while (rank < 4 && (int64_t{2} << rank) <= cards) ++rank;
      if (rank > 0) {
        t.require(Summary::kCoreRanks + rank - 1, least.core);
        t.require(Summary::kMemoryRanks + rank - 1, memory);
      }
    }
    if (request_.maxClaimsPerCard > 0) t.require(Summary::kCardClaims, Summary::kMax - request_.maxClaimsPerCard + 1);
    return true;
  }

  NodeId bestNode(const NodePolicy& policy) {
    using Answer = NodeIndex::Answer;
    const NodeIndex& index = state_.index;
    NodeId best = kNone;
    auto worse = [&](NodeId id) {  // strictly: it can't even tie
      const int64_t fill = index.keyOf(id).fill, bestFill = index.keyOf(best).fill;
      return policy.walk == Walk::fullestFirst ? fill < bestFill : fill > bestFill;
    };
    auto accept = [&](NodeId id) {
      if (best != kNone && worse(id)) return Answer::stop;
      return fits(id) ? Answer::yes : Answer::no;
    };
    for (const NodeIndex::Shape& shape : index.shapes()) {
      Threshold t;
      if (shape.root == kNone || !thresholdFor(shape, t)) continue;
      NodeId found;
      if (policy.walk == Walk::emptiestFirst) {
        found = index.ascend(shape, t, accept);
      } else {
        found = index.descend(shape, t, accept);
        // Downhill, equal nodes come in the wrong order: the first of them by name is wanted.
        if (found != kNone) found = index.ascendFrom(shape, t, index.keyOf(found).fill, accept);
      }
      if (found == kNone) continue;
      if (best == kNone || index.keyOf(found).fill != index.keyOf(best).fill ||
          index.keyOf(found).label < index.keyOf(best).label)
        best = found;
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
