// Places where holders can be evicted for a request, ordered by a lower bound of their cost. Internal to scheduler/.
#pragma once

#include <set>
#include <vector>

#include "controller/scheduler/choice/victim_cost.h"
#include "controller/scheduler/request.h"
#include "controller/scheduler/state/ids.h"

namespace egpu::scheduler {

/// One card, or all cards of a node.
struct VictimPlace {
  VictimCost bound;  ///< lower bound of the cost of all victim sets here
  NodeId node = kNone;
  CardId card = kNone;  ///< kNone = anywhere on the node
};

/// Places of one request, reused by further searches for the same request on the same cluster. A search evaluates only
/// changed nodes again, and calls the node predicate itself.
struct VictimPlaces {
  Request request{};
  std::vector<VictimPlace> all{};
  bool known = false;          ///< `all` has the places of `request`
  std::set<NodeId> changed{};  ///< nodes changed since then
};

}  // namespace egpu::scheduler
