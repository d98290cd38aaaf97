#include "controller/reconcile/pod/node_fit/resources.h"

#include "api/v1alpha/quantity.h"

namespace egpu::reconcile {

std::string shortOf(const cache::PodRequests& wanted, const cache::NodeUsage::Sum& taken, const core::Node& node) {
  if (taken.pods + 1 > node.maxPods) return "at the limit of pods";
  const auto lacks = [](int64_t asked, int64_t used, int64_t all) { return asked > 0 && asked > all - used; };
  if (lacks(wanted.cpuMilli, taken.requests.cpuMilli, node.cpuMilli))
    return "short of CPU (the pod requests " + std::to_string(wanted.cpuMilli) + "m)";
  if (lacks(wanted.memoryBytes, taken.requests.memoryBytes, node.memoryBytes))
    return "short of memory (the pod requests " + v1alpha::formatBytes(wanted.memoryBytes) + ")";
  if (lacks(wanted.ephemeralBytes, taken.requests.ephemeralBytes, node.ephemeralBytes))
    return "short of ephemeral storage (the pod requests " + v1alpha::formatBytes(wanted.ephemeralBytes) + ")";
  return {};
}

}  // namespace egpu::reconcile
