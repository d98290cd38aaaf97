// The smallest changes after which a request fits. Internal to scheduler/; explain.h has the values.
#pragma once

#include <vector>

#include "controller/scheduler/explain.h"

namespace egpu::scheduler {

/// What would make the request fit, smallest first: the largest request of the same kind that fits now, and the least
/// that must be released on one node (least by the sum of the shares of the cards). If neither exists, the cards that
/// would have to be added. Empty if it fits already, or if no change of these kinds helps: a pinned card that is gone,
/// or room enough on nodes that `suits` excludes.
std::vector<Remedy> findRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                                 const Pause& pause = {});

}  // namespace egpu::scheduler
