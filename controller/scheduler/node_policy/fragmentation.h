// Node policy fragmentation: the node that loses least of what it is worth for the requests that are expected. What is
// expected is learned from recent requests (state/demand.h); fragmentation/README.md tells what that makes of free
// cards, fragmentation/node_scoring.h how a node is scored by it. Equal scores: the lower name. It goes best with the
// card policy binpack. Until the cluster has observed a request for it: as binpack.
//
// Example: nodes of two cards each (core 1000); what is asked for is halves of cards. A request of core 300.
//   a: free 500 and 500    worth two halves before, one half after      loses a half
//   b: free 800 and 800    likewise: 800 holds one half, and so does 500; loses nothing   chosen
//   c: free 1000 and 1000  worth four halves before, three after        loses a half
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kFragmentation{"fragmentation", Walk::fullestFirst, NodeOrder::fragmentation};
}  // namespace egpu::scheduler::node_policy
