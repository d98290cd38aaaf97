// Places where holders may be evicted for a request, in the order of what at least is lost there. Internal to
// scheduler/.
#pragma once

#include <set>
#include <vector>

#include "controller/scheduler/choice/victim_cost.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/ids.h"

namespace egpu::scheduler {

/// One card, or all of a node's.
struct VictimPlace {
  VictimCost bound;  ///< no set here costs less
  NodeId node = kNone;
  CardId card = kNone;  ///< kNone: anywhere on the node
};

/// Places of one request, kept for further searches for the same request on the same cluster. A search evaluates only
/// nodes that changed again. It asks itself whether a node suits.
struct VictimPlaces {
  Request request{};
  std::vector<VictimPlace> all{};
  bool known = false;          ///< `all` holds the places of `request`
  std::set<NodeId> changed{};  ///< since then
};

}  // namespace egpu::scheduler
