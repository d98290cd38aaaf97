// The simulated pod scheduler's choice: which node a pod without gate goes to. Pure; sim/cluster does the writes.
// It models what the stock scheduler checks and this project depends on: cordon, taints, nodeSelector, required node
// affinity, allocatable CPU, memory and pods, and the nodes that the pod's ResourceClaims are allocated on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"

namespace egpu::sim {

/// What runs on a node already, Σ requests of its pods.
struct NodeUse {
  int64_t cpuMilli = 0;
  int64_t memoryBytes = 0;
  int64_t pods = 0;
};

/// Σ requests of a pod: containers summed, each init container alone as a floor.
NodeUse requestsOf(const core::Pod& pod);

/// Empty = the node suits the pod, else why not, in the stock scheduler's words ("node(s) had untolerated taint {k:
/// v}").
std::string unsuitable(const core::Pod& pod, const core::Node& node, const NodeUse& used);

/// True if `selector` admits the node (labels and the field metadata.name). Unknown operators admit nothing.
bool admits(const core::NodeSelector& selector, const core::Node& node);

struct PodChoice {
  std::string node;     ///< empty = none
  std::string message;  ///< why none: "0/4 nodes are available: 3 …, 1 …."
  bool otherNodeSuits =
      false;  ///< the claims' node does not suit, but another would: the stock scheduler then clears an allocation
};

/// claimNodes: the node of each allocated claim of the pod. Least pods first, ties by name.
PodChoice choose(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                 const std::map<std::string, NodeUse, std::less<>>& used, const std::vector<std::string>& claimNodes);

}  // namespace egpu::sim
