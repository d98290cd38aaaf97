// Finds the claims that may be moved to gain capacity, and the actions that a move takes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/what_if.h"

namespace egpu::whatif {

/// A claim that may be moved, in terms of user-visible names.
struct MovableClaim {
  std::string claim;              ///< "namespace/name"
  std::string device, node;       ///< its device, and the node of that
  std::vector<std::string> pods;  ///< "namespace/name" of the pods that would be evicted, sorted
  bool evictable = false;  ///< at most one pod uses the claim, so that it can be moved as described at `moveAnnotation`
  /// Uid of the claim's device: the claim's annotation elasticgpu.io/move must name it before the pod is evicted.
  /// Empty: the claim was stamped for its pod and ends with it, so that the eviction suffices.
  std::string moveAnnotation;
};

struct MovableClaims {
  scheduler::Movers movers;                                ///< by device uid
  std::map<std::string, MovableClaim, std::less<>> known;  ///< by device uid
};

/// Returns the claims that reconcile::movableClaim() names, that could be decided again as they are, and that have a
/// ready class. A claim moves with its pods, which a controller must recreate. So a claim is left out if one of its
/// pods has no controller, uses another claim, or belongs to a DaemonSet, which would recreate it on the same node.
/// `pause` is called regularly, and may throw. onlyEvictable: return only claims with `evictable`.
MovableClaims movableClaims(const cache::Stores& stores, bool onlyEvictable = false,
                            const scheduler::Pause& pause = {});

/// Removes claims that would not get their amounts again because their quota was lowered. The other claims move only to
/// cards that the quotas of their namespaces allow, each checked by itself. now: includes the amounts that quotas
/// count; unchanged on return.
void holdToQuotas(MovableClaims& claims, scheduler::Situation& now);
/// Excludes these nodes as destinations of all claims.
void closeNodes(MovableClaims& claims, const std::set<std::string, std::less<>>& nodes);

}  // namespace egpu::whatif
