// Chooses the node of a pod without scheduling gates for the simulated pod scheduler. Pure; sim/cluster does the
// writes. Models the checks of the stock scheduler on which this project depends: cordon, taints, nodeSelector,
// required node affinity, allocatable CPU, memory, storage, pods and extended resources, and the nodes of the pod's
// allocated ResourceClaims.
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

/// Sum of the requests of the pods on a node.
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

/// A resource of which a node has less free capacity than a pod requests.
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

/// Returns why the node does not suit the pod, in the stock scheduler's words ("node(s) had untolerated taint {k: v}").
/// Empty = it suits.
std::string unsuitable(const core::Pod& pod, const core::Node& node, const NodeUse& used,
                       const ResourceAmounts& offered = {});

/// True if `selector` admits the node (labels and the field metadata.name). Unknown operators admit nothing.
bool admits(const core::NodeSelector& selector, const core::Node& node);

struct PodChoice {
  std::string node;     ///< empty = no node suits
  std::string message;  ///< if no node suits: "0/4 nodes are available: 3 …, 1 …."
  bool otherNodeSuits =
      false;  ///< the claims' node does not suit, but another one does: the stock scheduler then clears an allocation
};

/// Chooses the suitable node with the fewest pods; ties are broken by name. claimNodes: the node of each allocated
/// claim of the pod. offered: extended resources by node. The message names the extended resources that no node has
/// and, for GPUs, the annotations that replace them.
PodChoice choose(const core::Pod& pod, const std::vector<const core::Node*>& nodes,
                 const std::map<std::string, NodeUse, std::less<>>& used, const std::vector<std::string>& claimNodes,
                 const std::map<std::string, ResourceAmounts, std::less<>>& offered = {});

/// Returns a message for a pod of another scheduler that says why it stays Pending, and the remedy.
std::string unknownScheduler(const core::Pod& pod);

}  // namespace egpu::sim
