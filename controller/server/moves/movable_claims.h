// Which claims may be moved for more room, and what would have to be done for it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/moves.h"
#include "controller/scheduler/what_if.h"

namespace egpu::server {

/// A claim that may be moved, as people know it.
struct MovableClaim {
  std::string claim;              ///< "namespace/name"
  std::string device, node;       ///< what it has, and where
  std::vector<std::string> pods;  ///< "namespace/name" of those that would be evicted, in order
  bool evictable = false;         ///< one pod at most uses it, so that it can be moved as it is: `annotate` says how
  /// Uid of its device, which its annotation elasticgpu.io/move has to name before its pod goes. Empty: it was stamped for its pod
  /// and ends with it, so that the eviction is all it takes.
  std::string annotate;
};

struct MovableClaims {
  scheduler::Movers movers;                                ///< by device uid
  std::map<std::string, MovableClaim, std::less<>> known;  ///< likewise
};

/// Those that reconcile::movableClaim() names and that could be decided anew as they are, as their classes are ready. A claim moves with its pods,
/// which somebody must make anew: none if one of them has no controller or uses another claim besides, or is of a
/// DaemonSet, which brings it back. `pause` is called now and then, and may throw.
/// onlyEvictable: none but those that are.
MovableClaims movableClaims(const cache::Stores& stores, bool onlyEvictable = false,
                            const scheduler::Pause& pause = {});

/// Of those, who would not get again what it has goes from the list: it is over a quota that was lowered since. The others move
/// only to cards that the quotas of their namespaces leave to them, each by itself. now: with what quotas count; as before when this
/// returns.
void holdToQuotas(MovableClaims& claims, scheduler::Situation& now);
/// None of them moves to these nodes.
void closeNodes(MovableClaims& claims, const std::set<std::string, std::less<>>& nodes);

}  // namespace egpu::server
