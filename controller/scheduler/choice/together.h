// Several requests on one node, all or none: the claims of one pod.
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
  std::vector<Decision> decisions;  ///< one per request; empty: no node holds them all
  /// If there is no such node: whether each request would fit on some node by itself. Once one is known to fit nowhere,
  /// the others may be given the benefit of the doubt.
  std::vector<bool> alone;
  std::optional<QuotaExcess> excess{};  ///< nothing was decided because of a quota
};

/// First the node that the first request likes best. If that can't hold them all: a look at the index tells whether a
/// request fits nowhere at all; else every node that suits is tried once, and of those that hold all of them the one is
/// taken that the first request's node policy prefers (fragmentation: by fill). `pause` is called during that, and the
/// cluster may change in it. What is tried is taken of the cluster and given back: it is as before when this returns,
/// and in every pause.
/// On a node the requests are placed in their order, or, if that fails, the largest first.
Together decideTogether(Cluster& cluster, const std::vector<Request>& requests, const NodePredicate& suits = {},
                        const Pause& pause = {});

/// All of them on that node, as decideTogether() places them there; empty if it can't hold them all. The cluster is as
/// before when this returns.
std::vector<Decision> togetherOn(Cluster& cluster, const std::vector<Request>& requests, std::string_view node);

/// That node, its cards and what is held of them by who has cards, to another cluster, instead of what that knows of them; what
/// else is held there stays. Nothing if it isn't there.
void copyNode(const Cluster& from, std::string_view node, Cluster& to);

}  // namespace egpu::scheduler
