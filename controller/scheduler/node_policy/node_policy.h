// The node tier: in which order the nodes that can hold a request are preferred.
// A node's fill (fill.h) counts its healthy cards only: what is quarantined is neither used nor on offer. Equal fill:
// lower name first. The index keeps all nodes in the order of their fill, so a policy over fill is a direction to walk
// in.
#pragma once

#include <string_view>
#include <vector>

namespace egpu::scheduler {

enum class Walk { fullestFirst, emptiestFirst };

/// What decides; of equal nodes, the one that comes first on the walk.
enum class NodeOrder {
  fill,            ///< the walk alone
  usedScore,       ///< the highest mean of the healthy cards' load scores (load_score.h)
  availableScore,  ///< likewise of what is available
  fragmentation,   ///< the least loss (fragmentation/node_scoring.h), then the lower name; unpriced: the walk alone
};

struct NodePolicy {
  std::string_view name;
  Walk walk;
  NodeOrder order = NodeOrder::fill;
  /// It goes by load scores, whose weights the class may set.
  constexpr bool byLoad() const { return order == NodeOrder::usedScore || order == NodeOrder::availableScore; }
};

/// Null if there is no such policy.
const NodePolicy* findNodePolicy(std::string_view name);
/// All names, sorted.
std::vector<std::string_view> nodePolicyNames();

}  // namespace egpu::scheduler
