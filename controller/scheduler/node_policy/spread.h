// Node policy spread: prefers the emptiest node that fits, so that claims disturb each other least.
//
// Example: three nodes of one card each (core 1000, memory 32 GiB); a request of core 300, memory 4 GiB.
//   a: used 800 /  8 GiB   fill 800,000 + 250,000 = 1,050,000
//   b: used 100 / 16 GiB   fill 100,000 + 500,000 =   600,000
//   c: used 400 /  4 GiB   fill 400,000 + 125,000 =   525,000   chosen: b has more core,
//                                                            but less of everything together
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kSpread{"spread", Walk::emptiestFirst};
}  // namespace egpu::scheduler::node_policy
