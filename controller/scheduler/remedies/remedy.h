// Finds the smallest changes after which a request fits. Internal to scheduler/; explain.h declares the values.
#pragma once

#include <vector>

#include "controller/scheduler/explain.h"

namespace egpu::scheduler {

/// Returns the changes, smallest first: the largest request of the same kind that fits now, and the least capacity to
/// release on one node (by the sum of the shares of the cards). If neither exists, the cards to add. Empty if the
/// request fits, or if no such change helps: a pinned card does not exist, or only nodes that `suits` excludes have
/// capacity.
std::vector<Remedy> findRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                                 const Pause& pause = {});

}  // namespace egpu::scheduler
