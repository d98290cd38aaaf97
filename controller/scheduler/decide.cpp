#include "controller/scheduler/decide.h"

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/choice/node_load.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {
namespace {

class Deciding {
 public:
  Deciding(const Cluster::State& state, const Request& request, const NodePredicate& suits, const CardPolicy& policy)
      : state_(state),
        request_(request),
        suits_(suits),
        needs_(state, request),
        cardPolicy_(policy),
        cards_(state, request, policy, needs_) {}

  Decision run(const NodePolicy& policy) {
    NodeId node = kNone;
    if (!request_.pinnedNode.empty() || !request_.pinnedCards.empty()) {
      node = pinnedNode();
    } else {
      node = best(policy);
    }
    return node == kNone ? Decision{} : cards_.choose(state_.nodes[node]);
  }

 private:
  bool fits(NodeId id) {
    const NodeRecord& node = state_.nodes[id];
    if (!node.offered() || !isBelowClaimLimit(node, request_) || !nodeHasCapacity(node, request_)) return false;
    return cards_.fits(node) && (!suits_ || suits_(node.name));
  }

  NodeId best(const NodePolicy& policy) {
    if (policy.order == NodeOrder::fill) return bestNode(policy);
    if (policy.byLoad())
      return request_.memoryWeight == kUsualMemoryWeight ? bestByScore(policy) : bestByWeights(policy);
    return state_.outlook.prices() != nullptr ? state_.outlook.best(state_, request_, cards_, cardPolicy_, suits_)
                                              : bestNode(policy);
  }

  NodeId pinnedNode() {
    NodeId id = kNone;
    if (!request_.pinnedCards.empty()) {
      if (static_cast<int64_t>(request_.pinnedCards.size()) > request_.cards) return kNone;
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
    using Acceptance = NodeIndex::Acceptance;
    const NodeIndex& index = state_.index;
    NodeIndex::FoundNode best;
    auto accept = [&](NodeId id, int64_t fill) {
      // Strictly worse than the best node of another mix: not even a tie.
      if (best.node != kNone && (policy.walk == Walk::fullestFirst ? fill < best.fill : fill > best.fill))
        return Acceptance::stop;
      return fits(id) ? Acceptance::yes : Acceptance::no;
    };
    for (const NodeIndex::CardMix& mix : index.mixes()) {
      Summary least;
      if (mix.root == kNone || !leastOn(mix, request_, needs_, least)) continue;
      const NodeIndex::FoundNode found =
          policy.walk == Walk::emptiestFirst ? index.emptiest(mix, least, accept) : index.fullest(mix, least, accept);
      if (found.node == kNone) continue;
      if (best.node == kNone || found.fill != best.fill || index.namedBefore(found.node, best.node)) best = found;
    }
    return best.node;
  }

  /// Returns the node with the highest score. The index's bounds exclude most other nodes.
  NodeId bestByScore(const NodePolicy& policy) {
    using Acceptance = NodeIndex::Acceptance;
    const NodeIndex& index = state_.index;
    const std::size_t number = policy.order == NodeOrder::usedScore ? Summary::kUsedScore : Summary::kAvailableScore;
    const bool ascending = policy.walk == Walk::emptiestFirst;
    NodeIndex::FoundNode best;
    int32_t highest = -1;
    for (const NodeIndex::CardMix& mix : index.mixes()) {
      Summary least;
      if (!leastOn(mix, request_, needs_, least)) continue;
      // Among nodes of equal score the first visited one counts, so later ones must have a higher score.
      NodeIndex::FoundNode here;
      int32_t above = highest - 1;  // in a further mix, an equal node can come first
      index.eachAbove(mix, least, ascending, number, above, [&](NodeId id, int64_t fill, int32_t score) {
        if (!fits(id)) return;
        here = {id, fill};
        above = score;
      });
      if (here.node == kNone) continue;
      if (!ascending) {  // the walk meets equal nodes in reverse order of names; find the first name
        const int64_t fill = here.fill;
        auto equal = [&](NodeId id, int64_t itsFill) {
          if (itsFill != fill) return Acceptance::stop;
          return index.summaryOf(id).wide(number) == above && fits(id) ? Acceptance::yes : Acceptance::no;
        };
        here = index.emptiest(mix, least, equal, fill);
      }
      if (best.node != kNone && above <= highest && !comesFirst(here, best, ascending)) continue;
      best = here;
      highest = above;
    }
    return best.node;
  }

  /// As bestByScore(), for weights without scores in the index: evaluates every node that the index does not exclude.
  NodeId bestByWeights(const NodePolicy& policy) {
    const bool ascending = policy.walk == Walk::emptiestFirst;
    NodeIndex::FoundNode best;
    int64_t highest = -1;
    const int32_t all = -1;
    for (const NodeIndex::CardMix& mix : state_.index.mixes()) {
      Summary least;
      if (!leastOn(mix, request_, needs_, least)) continue;
      state_.index.eachAbove(mix, least, ascending, Summary::kUsedScore, all, [&](NodeId id, int64_t fill, int32_t) {
        const int64_t load = loadOf(state_, id, policy, request_.memoryWeight);
        const NodeIndex::FoundNode here{id, fill};
        if (load < highest || (load == highest && !comesFirst(here, best, ascending)) || !fits(id)) return;
        best = here;
        highest = load;
      });
    }
    return best.node;
  }

  bool comesFirst(const NodeIndex::FoundNode& a, const NodeIndex::FoundNode& b, bool ascending) const {
    if (a.fill != b.fill) return ascending ? a.fill < b.fill : a.fill > b.fill;
    return state_.index.namedBefore(a.node, b.node);
  }

  const Cluster::State& state_;
  const Request& request_;
  const NodePredicate& suits_;
  Needs needs_;
  const CardPolicy& cardPolicy_;
  CardChoice cards_;
};

}  // namespace

Decision decide(const Cluster& cluster, const Request& request, const NodePredicate& suits) {
  const NodePolicy* nodePolicy = findNodePolicy(request.nodePolicy);
  const CardPolicy* cardPolicy = findCardPolicy(request.cardPolicy);
  // makeRequest() rejects unknown policies, so nothing fits here.
  if (!nodePolicy || !cardPolicy || request.cards < 0) return {};
  return Deciding(cluster.state(), request, suits, *cardPolicy).run(*nodePolicy);
}

}  // namespace egpu::scheduler
