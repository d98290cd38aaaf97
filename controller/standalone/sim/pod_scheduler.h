// The simulated pod scheduler's choice: which node a pod without gate goes to. Pure; sim/cluster does the writes.
// It models what the stock scheduler checks and this project depends on: cordon, taints, nodeSelector, required node
// affinity, allocatable CPU, memory, storage, pods and extended resources, and the nodes that the pod's ResourceClaims
// are allocated on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "controller/cache/pod_requests.h"

namespace egpu::sim {

using cache::ResourceAmounts;

/// What runs on a node already, Σ requests of its pods.
struct NodeUse {
  int64_t cpuMilli = 0;
  int64_t memoryBytes = 0;
  int64_t pods = 0;
  int64_t ephemeralBytes = 0;
  ResourceAmounts extended{};
  NodeUse& operator+=(const NodeUse& other);
};

/// Requests of one pod, counted as kube-scheduler counts them.
NodeUse requestsOf(const core::Pod& pod);

/// A resource of which a node has less free than a pod asks for.
struct Shortage {
  std::string resource;  ///< "cpu", "memory", "ephemeral-storage", "pods", or an extended resource; empty: none
  int64_t requested = 0, used = 0, capacity = 0;
};
/// Returns the first shortage. offered: the node's extended resources.
Shortage shortageOf(const core::Pod& pod, const core::Node& node, const NodeUse& used, const ResourceAmounts& offered);

/// True if the node has the pod's nodeSelector labels and satisfies its required node affinity.
bool selects(const core::Pod& pod, const core::Node& node);
/// True if a toleration of the pod covers the taint.
bool tolerates(const core::Pod& pod, const core::Taint& taint);

/// Empty = the node suits the pod, else why not, in the stock scheduler's words ("node(s) had untolerated taint {k:
/// v}").
std::string unsuitable(const core::Pod& pod, const core::Node& node, const NodeUse& used,
                       const ResourceAmounts& offered = {});

/// True if `selector` admits the node (labels and the field metadata.name). Unknown operators admit nothing.
bool admits(const core::NodeSelector& selector, const core::Node& node);

struct PodChoice {
  std::string node;     ///< empty = none
  std::string message;  ///< why none: "0/4 nodes are available: 3 …, 1 …."
  bool otherNodeSuits =
      false;  ///< the claims' node does not suit, but another would: the stock scheduler then clears an allocation
};

/// claimNodes: the node of each allocated claim of the pod. offered: extended resources by node. Least pods first, ties
/// by name. The message names the extended resources that no node has, and the annotations that replace GPUs among
/// them.
PodChoice choose(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                 const std::map<std::string, NodeUse, std::less<>>& used, const std::vector<std::string>& claimNodes,
                 const std::map<std::string, ResourceAmounts, std::less<>>& offered = {});

/// Message for a pod of another scheduler: why it stays Pending, and the remedy.
std::string unknownScheduler(const core::Pod& pod);

}  // namespace egpu::sim
