// Decisions within quotas on a copy of the cluster, for questions: results are counted as they are allocated there.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "controller/scheduler/forecast.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// Returns the claim with its name ("namespace/name") as its id in the book.
QuotaClaim quotaClaim(const std::string& name, const std::string& className);

/// Like decide(), within the quotas of the claim's namespace; sets `excess` if only they prevent a decision.
Decision decideWithin(Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim, const Request& request,
                      const NodePredicate& suits = {}, const Pause& pause = {});

/// Adds the parts of these cards to the book for a holder.
void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const std::vector<Holding>& holdings);
void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const Decision& decision);

/// Returns the quota that a new claim in place of this one would exceed with the same cards, or nullopt. The book is
/// unchanged on return.
std::optional<QuotaExcess> excessAnew(QuotaBook& book, const Cluster& cluster, const std::string& holder,
                                      const QuotaClaim& claim, const std::vector<Holding>& holdings);

/// Like forecast(), for new claims of that namespace and class within its quotas. excess: the quota that limits the
/// number; nullopt: capacity limits it. Makes at most `limit` decisions.
Forecast forecastWithin(Cluster cluster, QuotaBook book, const QuotaClaim& like, const Request& request,
                        std::optional<QuotaExcess>& excess, const NodePredicate& suits = {}, int64_t limit = 1'000'000,
                        const Pause& pause = {});

}  // namespace egpu::scheduler
