// Node policy compact-first: prefers the node with the highest mean of its cards' load scores (load_score.h). Ties: the
// fuller node, then the lower name.
//
// Example: nodes of two cards each (core 1000, memory 32 GiB); a request of core 300, memory 4 GiB.
//   a: used 500 / 8 GiB and 0 / 0             scores 33 (70 · 8/32 + 30 · 0.5 = 32.5) and 0    16.5
//   b: used 200 / 8 GiB and 200 / 8 GiB       scores 24 (23.5) twice                           24     chosen
//   c: used 0 / 0 and 0 / 0                                                                     0
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kCompactFirst{"compact-first", Walk::fullestFirst, NodeOrder::usedScore};
}  // namespace egpu::scheduler::node_policy
