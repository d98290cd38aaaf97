// Node policy low-load-first: prefers the node with the highest mean of its cards' scores for available capacity
// (load_score.h). Ties: the emptier node, then the lower name.
//
// Example: nodes of two cards each (core 1000, memory 32 GiB); a request of core 300, memory 4 GiB.
//   a: used 500 / 8 GiB and 0 / 0             scores 68 (67.5) and 100    84   chosen
//   b: used 200 / 8 GiB and 200 / 8 GiB       scores 77 (76.5) twice      77
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kLowLoadFirst{"low-load-first", Walk::emptiestFirst, NodeOrder::availableScore};
}  // namespace egpu::scheduler::node_policy
