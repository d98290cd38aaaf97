// Decisions within quotas: cards that would lead over one are left out, and what was chosen is counted before it is
// taken. Pure.
#pragma once

#include <vector>

#include "controller/scheduler/choice/together.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// decideTogether() for claims of one namespace, each request its claim's. If nothing is decided and the quotas are why,
/// `excess` says so: no card that could serve is within them, or those that are have no room.
/// The book may change in a pause, too: what is decided is within it as it is when this returns.
Together decideWithin(Cluster& cluster, const QuotaBook& book, const std::vector<QuotaClaim>& claims,
                      std::vector<Request> requests, const NodePredicate& suits = {}, const Pause& pause = {});

/// What a decision's cards count as.
std::vector<QuotaPart> partsOf(const Cluster& cluster, const Decision& decision);

}  // namespace egpu::scheduler
