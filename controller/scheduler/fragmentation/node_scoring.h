// Scores a node for a request: the loss of worth (prices.h) on the cards that the card policy chooses. Internal to
// scheduler/.
//
//   worth(node) = Σ over the priced requests of (copies that fit · worth of a copy)
//               + Σ over its cards of their rests' worth
//   loss        = worth before − worth after + Σ over the given cards of (share · pressure on their type)
//   score       = ⌊−loss ÷ 80⌋
//
// Small differences are rounded away: of nearly equal nodes the lowest name is filled first, and the others stay whole.
#pragma once

#include <limits>
#include <vector>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/fragmentation/fit_counts.h"
#include "controller/scheduler/fragmentation/prices.h"

namespace egpu::scheduler::fragmentation {

/// Score of a node; higher is better.
using Score = int32_t;
inline constexpr Score kUnfit = std::numeric_limits<Score>::min();  ///< the node cannot hold the request

/// Copies of the priced requests that a node can hold.
struct NodeCopies {
  NodeCopies(const NodeState& node, FitCounts& counts);
  Counts capacity;  ///< FitCounts::capacityOn(node)
  Counts copies;    ///< number of copies, by shape
};

class NodeScorer {
 public:
  static constexpr double kStep = 80;  ///< milli-cards of loss per point

  /// The arguments must outlive it; `counts` has the priced shapes.
  NodeScorer(const Cluster::State& state, const Request& request, CardChoice& cards, const Prices& prices,
             FitCounts& counts)
      : state_(state), request_(request), cards_(cards), prices_(prices), counts_(counts) {}

  /// `before`: copies on this node, or on a node in an equal state.
  Score score(NodeId node, const NodeCopies& before);

 private:
  int32_t restOf(const CardState& card) const;

  const Cluster::State& state_;
  const Request& request_;
  CardChoice& cards_;
  const Prices& prices_;
  FitCounts& counts_;
  std::vector<CardChoice::Pick> picks_;
  Counts capacity_;
};

}  // namespace egpu::scheduler::fragmentation
