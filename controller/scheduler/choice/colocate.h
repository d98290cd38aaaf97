// Decides several requests on one node, all or none: the claims of one pod.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "controller/scheduler/cluster.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/request.h"

namespace egpu::scheduler {

struct Together {
  std::vector<Decision> decisions;  ///< one per request; empty = no node can hold them all
  /// Without such a node: whether each request fits on some node alone. Once one request fits nowhere, the values of
  /// the others may be too optimistic.
  std::vector<bool> alone;
  std::optional<QuotaExcess> excess{};  ///< set if a quota prevents the decision
};

/// Tries the best node of the first request first. If it cannot hold all requests, the index shows whether some request
/// fits nowhere. Otherwise every suitable node is tried once, and the first request's node policy chooses among those
/// that can hold all (fragmentation: by fill). `pause` is called during that scan, and the cluster can change in it.
/// Trial allocations are released in every pause and before the call returns. On a node, the requests are placed in
/// their order or, if that fails, the largest first.
Together decideTogether(Cluster& cluster, const std::vector<Request>& requests, const NodePredicate& suits = {},
                        const Pause& pause = {});

/// Places all requests on that node, as decideTogether() does; empty if it cannot hold them all. The cluster is
/// unchanged on return.
std::vector<Decision> togetherOn(Cluster& cluster, const std::vector<Request>& requests, std::string_view node);

/// Copies a node with its cards and their allocations to another cluster, and replaces earlier data of the node there.
/// Other allocations there stay. Does nothing without a Node object of that name.
void copyNode(const Cluster& from, std::string_view node, Cluster& to);

}  // namespace egpu::scheduler
