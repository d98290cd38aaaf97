// Remedies of a request for MIG instances. Internal to scheduler/.
#pragma once

#include <vector>

#include "controller/scheduler/explain.h"

namespace egpu::scheduler {

/// As findRemedies(), for a request of MIG instances that does not fit: the largest smaller request of MIG instances
/// that fits now; and the card on which the fewest claims must be released, with the slots that they must leave.
std::vector<Remedy> findInstanceRemedies(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                                         const Pause& pause);

}  // namespace egpu::scheduler
