// Decisions within quotas: excludes cards that would exceed a quota, and checks the result before it is allocated.
// Pure.
#pragma once

#include <vector>

#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// Like decideTogether(), for claims of one namespace, one request each. Sets `excess` if only the quotas prevent a
/// decision: no suitable card is within them, or those that are have no capacity. The book can change in a pause; the
/// result is within the book as it is on return.
Together decideWithin(Cluster& cluster, const QuotaBook& book, const std::vector<QuotaClaim>& claims,
                      std::vector<Request> requests, const NodePredicate& suits = {}, const Pause& pause = {});

/// Returns the quota parts of a decision.
std::vector<QuotaPart> partsOf(const Cluster& cluster, const Decision& decision);

}  // namespace egpu::scheduler
