// How well a request goes onto a node: what it takes away from what the node is worth (prices.h), once the card policy
// has chosen its cards. Internal to scheduler/.
//
//   worth(node) = Σ over the priced requests of (copies that fit · worth of a copy)
//               + Σ over its cards of their rests' worth
//   loss        = worth before − worth after + Σ over the given cards of (share · pressure on their type)
//   score       = ⌊−loss ÷ 80⌋
//
// Small differences do not count, so that of nearly equal nodes the lowest name is filled first and others stay whole.
#pragma once

#include <limits>
#include <vector>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/fragmentation/fit_counts.h"
#include "controller/scheduler/fragmentation/prices.h"

namespace egpu::scheduler::fragmentation {

/// Higher is better.
using Score = int32_t;
inline constexpr Score kUnfit = std::numeric_limits<Score>::min();  ///< the node can't hold the request

/// What a node holds of the priced requests.
struct NodeCopies {
  NodeCopies(const NodeState& node, FitCounts& counts);
  Counts room;    ///< FitCounts::roomOn(node)
  Counts copies;  ///< that fit
};

class NodeScorer {
 public:
  static constexpr double kStep = 80;  ///< milli-cards of loss per point

  /// All of them must outlive it; `counts` are of the priced shapes.
  NodeScorer(const Cluster::State& state, const Request& request, CardChoice& cards, const Prices& prices,
             FitCounts& counts)
      : state_(state), request_(request), cards_(cards), prices_(prices), counts_(counts) {}

  /// `before`: of this node, or of one in an equal state.
  Score score(NodeId node, const NodeCopies& before);

 private:
  int32_t restOf(const CardState& card) const;

  const Cluster::State& state_;
  const Request& request_;
  CardChoice& cards_;
  const Prices& prices_;
  FitCounts& counts_;
  std::vector<CardChoice::Pick> picks_;
  Counts room_;
};

}  // namespace egpu::scheduler::fragmentation
