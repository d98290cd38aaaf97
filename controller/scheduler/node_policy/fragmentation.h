// Node policy fragmentation: prefers the node that loses the least worth for the expected requests. The expected demand
// is learned from recent requests (state/demand.h). fragmentation/README.md describes the prices of free cards, and
// fragmentation/node_scoring.h the score of a node. Ties: the lower name. Best combined with card policy binpack. Until
// the cluster has observed a request with this policy, it is equal to binpack.
//
// Example: nodes of two cards each (core 1000); the expected requests are halves of cards. A request of core 300.
//   a: free 500 and 500    worth two halves before, one half after      loses a half
//   b: free 800 and 800    worth two halves before and after (800 and 500 hold one each)   loses nothing; chosen
//   c: free 1000 and 1000  worth four halves before, three after        loses a half
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kFragmentation{"fragmentation", Walk::fullestFirst, NodeOrder::fragmentation};
}  // namespace egpu::scheduler::node_policy
