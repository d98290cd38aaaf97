// Admission by the stock kubelet of a pod that is assigned to its node, by a scheduler or by spec.nodeName.
#pragma once

#include <optional>
#include <string>

#include "controller/standalone/sim/pod_scheduler.h"

namespace egpu::sim {

/// status.reason and status.message of a pod that its kubelet refuses.
struct Rejection {
  std::string reason;  ///< "NodeAffinity", "TaintToleration", or "OutOf" and a resource
  std::string message;
};

/// Returns nullopt if the kubelet admits the pod. used: requests of the pods that it has admitted. offered: the node's
/// extended resources. Resources that the node does not offer are not counted, as in the stock kubelet. Static pods and
/// pods of the system priority classes always have capacity, because the kubelet evicts other pods for them. Pure.
std::optional<Rejection> rejectionOf(const core::Pod& pod, const core::Node& node, const NodeUse& used,
                                     const ResourceAmounts& offered);

/// True for a mirror pod, by which a kubelet shows a static pod.
bool isMirror(const core::Pod& pod);

}  // namespace egpu::sim
