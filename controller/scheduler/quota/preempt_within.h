// Preemption within quotas: the smallest set of holders whose release gives a request both the cards and the quota that
// it lacks.
//
// Two nodes of one card each, a quota of 100Gi, a request of 60Gi and of a whole card's compute:
//
//   n0: a 40Gi, priority 0   n1: b 50Gi, priority 5    lacks 50Gi of the quota and a card    b: one victim gives both
//   n0: a 50Gi of another namespace   n1: b 80Gi       lacks 40Gi of the quota, and a card    b
//   n0: a 10Gi, b 30Gi       n1: c of another one      lacks nothing of the quota on n1       c, if it is lower
//
// Victims that give back quota may be on any node; those that give back cards are on the request's own. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/preempt.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// The claim that is to fit. References must outlive the call.
struct QuotaPreemptor {
  const QuotaClaim& claim;
  const Request& request;                  ///< request as the claim states it, not cut by the quotas
  const std::vector<QuotaAsked>& besides;  ///< claims that are decided with it, and what they have been given
};

/// As preempt(), and the claim is within its quotas once the victims are gone; holders in the book are devices. The
/// same order of sets: fewest, lowest, youngest, smallest. Sets that give back quota are tried in that order, each with
/// the cheapest set that gives back cards beside it. After kMostQuotaSets of them, the largest holders are taken one
/// after the other, and `exact` is false.
inline constexpr int64_t kMostQuotaSets = 100'000;
Preemption preemptWithin(const Cluster& cluster, const QuotaBook& book, const QuotaPreemptor& preemptor,
                         const NodePredicate& suits = {}, const MayGo& mayGo = {}, const StandingOf& standing = {},
                         const Enough& enough = {});

/// As preemptIn(): on the cluster and the book themselves, which are as before when this returns.
Preemption preemptWithinIn(Cluster& cluster, QuotaBook& book, const QuotaPreemptor& preemptor, const Among& among,
                           const NodePredicate& suits, const MayGo& mayGo, int64_t& left, const StandingOf& standing,
                           const Enough& enough);

}  // namespace egpu::scheduler
