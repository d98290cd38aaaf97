// Node policies: the order in which fitting nodes are preferred. A node's fill (fill.h) counts its healthy cards only,
// because quarantined cards are neither used nor available. Ties: the lower name. The index orders all nodes by fill,
// so a policy by fill is a direction of the walk.
#pragma once

#include <string_view>
#include <vector>

namespace egpu::scheduler {

/// Order in which nodes with capacity are visited, by fill.
enum class Walk { fullestFirst, emptiestFirst };

/// The primary criterion. Ties are decided by the walk.
enum class NodeOrder {
  fill,            ///< the walk alone
  usedScore,       ///< the highest mean of the healthy cards' load scores (load_score.h)
  availableScore,  ///< highest mean of the healthy cards' scores for available capacity
  fragmentation,   ///< least loss (fragmentation/node_scoring.h), then lower name; without prices: the walk alone
};

struct NodePolicy {
  std::string_view name;
  Walk walk;
  NodeOrder order = NodeOrder::fill;
  /// True if the policy uses load scores. The class can set their weights.
  constexpr bool byLoad() const { return order == NodeOrder::usedScore || order == NodeOrder::availableScore; }
};

/// Returns null for an unknown policy.
const NodePolicy* findNodePolicy(std::string_view name);
/// All names, sorted.
std::vector<std::string_view> nodePolicyNames();

}  // namespace egpu::scheduler
