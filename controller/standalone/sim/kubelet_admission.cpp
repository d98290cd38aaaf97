#include "controller/standalone/sim/kubelet_admission.h"

#include <algorithm>

namespace egpu::sim {

namespace {

constexpr int64_t kSystemCritical = 2'000'000'000;  ///< from this priority on, the kubelet evicts other pods

Rejection rejection(const std::string& reason, const std::string& why) { return {reason, "Pod was rejected: " + why}; }

}  // namespace

bool isMirror(const core::Pod& pod) { return pod.metadata.annotations.contains("kubernetes.io/config.mirror"); }

std::optional<Rejection> rejectionOf(const core::Pod& pod, const core::Node& node, const NodeUse& used,
                                     const ResourceAmounts& offered) {
  if (!selects(pod, node))
    return rejection("NodeAffinity",
                     "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector");
  const bool evicts = std::any_of(node.taints.begin(), node.taints.end(), [&](const core::Taint& taint) {
    return taint.effect == "NoExecute" && !tolerates(pod, taint);
  });
  if (evicts && !isMirror(pod))
    return rejection("TaintToleration",
                     "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate");
  if (isMirror(pod) || pod.priority >= kSystemCritical) return std::nullopt;
  // The kubelet ignores extended resources that the node does not offer, also those that other pods request.
  ResourceAmounts known = offered;
  for (const auto& [resource, amount] : cache::extendedRequestsOf(pod))
    if (known[resource] == 0) {
      const auto others = used.extended.find(resource);
      known[resource] = amount + (others == used.extended.end() ? 0 : others->second);
    }
  const auto shortage = shortageOf(pod, node, used, known);
  if (shortage.resource.empty()) return std::nullopt;
  return rejection("OutOf" + shortage.resource, "Node didn't have enough resource: " + shortage.resource +
                                                    ", requested: " + std::to_string(shortage.requested) +
                                                    ", used: " + std::to_string(shortage.used) +
                                                    ", capacity: " + std::to_string(shortage.capacity));
}

}  // namespace egpu::sim
