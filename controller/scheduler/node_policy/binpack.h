// Node policy binpack: prefers the fullest node that fits, so that other nodes stay empty for large requests.
//
// Example: three nodes of one card each (core 1000, memory 32 GiB); a request of core 300, memory 4 GiB.
//   a: used 800 /  8 GiB   fill 800,000 + 250,000 = 1,050,000   does not fit: 200 milli-cards free
//   b: used 500 / 16 GiB   fill 500,000 + 500,000 = 1,000,000   chosen
//   c: used   0 /  0       fill         0
#pragma once

#include "controller/scheduler/node_policy/node_policy.h"

namespace egpu::scheduler::node_policy {
inline constexpr NodePolicy kBinpack{"binpack", Walk::fullestFirst};
}  // namespace egpu::scheduler::node_policy
