// Quotas on a copy of the cluster, for questions: decisions within them, counted as they are taken there. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "controller/scheduler/forecast.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// name: "namespace/name" of a claim; it stands for itself in the book.
QuotaClaim quotaClaim(const std::string& name, const std::string& className);

/// decide(), within the quotas of the claim's namespace: `excess` says if they are why nothing is decided.
Decision decideWithin(Cluster& cluster, const QuotaBook& book, const QuotaClaim& claim, const Request& request,
                      const NodePredicate& suits = {}, const Pause& pause = {});

/// The book counts what a holder has, or was given, of these cards.
void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const std::vector<Holding>& holdings);
void count(QuotaBook& book, const Cluster& cluster, const std::string& holder, const QuotaClaim& claim,
           const Decision& decision);

/// Why the quotas would not let a claim made in its place have the same again; nothing: they would. The book is as before when this returns.
std::optional<QuotaExcess> excessAnew(QuotaBook& book, const Cluster& cluster, const std::string& holder,
                                      const QuotaClaim& claim, const std::vector<Holding>& holdings);

/// forecast() of new claims of that namespace and class: no more than its quotas leave. excess: why there are no more; nothing:
/// it is for want of room. At most `limit` decisions.
Forecast forecastWithin(Cluster cluster, QuotaBook book, const QuotaClaim& like, const Request& request,
                        std::optional<QuotaExcess>& excess, const NodePredicate& suits = {}, int64_t limit = 1'000'000,
                        const Pause& pause = {});

}  // namespace egpu::scheduler
