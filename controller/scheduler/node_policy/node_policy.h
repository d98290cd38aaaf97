// The node tier: in which order the nodes that can hold a request are preferred.
// A node's fill (fill.h) counts its healthy cards only: what is quarantined is neither used nor on offer. Equal fill:
// lower name first. The index keeps all nodes in the order of their fill, so a policy over fill is a direction to walk
// in.
#pragma once

#include <string_view>
#include <vector>

namespace egpu::scheduler {

enum class Walk { fullestFirst, emptiestFirst };

struct NodePolicy {
  std::string_view name;
  Walk walk;
};

/// Null if there is no such policy.
const NodePolicy* findNodePolicy(std::string_view name);
/// All names, sorted.
std::vector<std::string_view> nodePolicyNames();

}  // namespace egpu::scheduler
