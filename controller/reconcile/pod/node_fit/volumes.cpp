#include "controller/reconcile/pod/node_fit/volumes.h"

#include <algorithm>

#include "controller/reconcile/pod/node_fit/affinity.h"

namespace egpu::reconcile {

bool reachable(const std::vector<core::NodeSelector>& volumes, const core::Node& node) {
  return std::all_of(volumes.begin(), volumes.end(), [&](const auto& volume) { return matches(volume, node); });
}

}  // namespace egpu::reconcile
