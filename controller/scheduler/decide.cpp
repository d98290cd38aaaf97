#include "controller/scheduler/decide.h"

#include <algorithm>
#include <limits>

#include "controller/scheduler/card_choice.h"
#include "controller/scheduler/fit.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state.h"

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
    if (!node.offered() || !nodeBelowLimit(node, request_) || !nodeHasRoom(node, request_)) return false;
    return cards_.fits(node) && (!suits_ || suits_(node.name));
  }

  NodeId best(const NodePolicy& policy) {
    if (policy.order == NodeOrder::fill) return bestNode(policy);
    if (policy.order != NodeOrder::fragmentation) return bestByScore(policy);
    return state_.outlook.prices() != nullptr ? state_.outlook.best(state_, request_, cards_, cardPolicy_, suits_)
                                              : bestNode(policy);
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
    int64_t total = std::numeric_limits<int64_t>::max();  // core of a divided request, were it all on cards of one type
    for (TypeId type : shape.types) {
      const Need& need = needs_.of(type);
      if (!need.possible()) continue;
      possible = true;
      if (divides(request_)) total = std::min(total, totalCoreOn(state_.types[type]));
      least = {std::min(least.core, need.charged.core), std::min(least.memory, need.charged.memory)};
    }
    if (!possible) return false;
    if (divides(request_)) t.require(Summary::kFreeCore, chargedFor(total, request_.coreOvercommit));
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

  /// No more than what a divided request takes of cards of this type together.
  int64_t totalCoreOn(const CardType& type) const {
    if (request_.tflopsPerCard == 0) return request_.perCard.core;
    return static_cast<int64_t>(static_cast<__int128>(request_.tflopsPerCard) * type.core / type.tflops);
  }

  /// The node with the highest score; the index's bounds spare most others.
  NodeId bestByScore(const NodePolicy& policy) {
    const NodeIndex& index = state_.index;
    const std::size_t number = policy.order == NodeOrder::usedScore ? Summary::kUsedScore : Summary::kAvailableScore;
    const bool ascending = policy.walk == Walk::emptiestFirst;
    NodeId best = kNone;
    int16_t highest = -1;
    for (const NodeIndex::Shape& shape : index.shapes()) {
      Threshold t;
      if (!thresholdFor(shape, t)) continue;
      // Of equal scores the first on the walk is met first: only more than the highest is looked at.
      NodeId here = kNone;
      int16_t above = static_cast<int16_t>(highest - 1);  // in a further shape, an equal one may come first
      index.eachAbove(shape, t, ascending, number, above, [&](NodeId id, int16_t score) {
        if (!fits(id)) return;
        here = id;
        above = score;
      });
      if (here == kNone) continue;
      const int64_t fill = index.keyOf(here).fill;
      if (!ascending) {  // downhill, equal nodes come in the wrong order: the first of them by name is wanted
        here = index.ascendFrom(shape, t, fill, [&](NodeId id) {
          if (index.keyOf(id).fill != fill) return NodeIndex::Answer::stop;
          const bool equal = index.summaryOf(id).at[number] == above && fits(id);
          return equal ? NodeIndex::Answer::yes : NodeIndex::Answer::no;
        });
      }
      const bool first = best == kNone || above > highest || comesFirst(here, best, ascending);
      if (!first) continue;
      best = here;
      highest = above;
    }
    return best;
  }

  bool comesFirst(NodeId a, NodeId b, bool ascending) const {
    const NodeIndex::Key &x = state_.index.keyOf(a), &y = state_.index.keyOf(b);
    if (x.fill != y.fill) return ascending ? x.fill < y.fill : x.fill > y.fill;
    return x.label < y.label;
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
  // An unknown policy is refused when the request is made; here it can only mean that nothing fits.
  if (!nodePolicy || !cardPolicy || request.cards < 0) return {};
  return Deciding(cluster.state(), request, suits, *cardPolicy).run(*nodePolicy);
}

}  // namespace egpu::scheduler
