// Preemption within quotas: finds the smallest set of victims that frees both the cards and the quota that a request
// lacks. Pure.
//
// Two nodes of one card each, a quota of 100Gi, a request of 60Gi and a whole card's compute:
//
//   n0: a 40Gi, priority 0   n1: b 50Gi, priority 5    lacks 50Gi of quota, and a card    b: one victim frees both
//   n0: a 50Gi of another namespace   n1: b 80Gi       lacks 40Gi of quota, and a card    b
//   n0: a 10Gi, b 30Gi       n1: c of another one      lacks no quota, but a card on n1   c, if its priority is lower
//
// Victims that free quota can be on any node; victims that free cards are on the request's node.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/preempt.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// The claim to place. References must outlive the call.
struct QuotaPreemptor {
  const QuotaClaim& claim;
  const Request& request;                  ///< the claim's request, not reduced by the quotas
  const std::vector<QuotaAsked>& besides;  ///< claims that are decided together with it, with their cards
};

/// Like preempt(), with the additional condition that the claim is within its quotas after the evictions. Holders in
/// the book are devices. Sets have the same order: fewest, lowest priority, youngest, smallest. Sets that free quota
/// are tried in that order, each with the cheapest set that frees cards. After kMaxQuotaSets sets, the largest holders
/// are taken one after the other, and `exact` is false.
inline constexpr int64_t kMaxQuotaSets = 100'000;
Preemption preemptWithin(const Cluster& cluster, const QuotaBook& book, const QuotaPreemptor& preemptor,
                         const NodePredicate& suits = {}, const IsEvictable& isEvictable = {},
                         const EvictionRankOf& standing = {}, const StopCondition& enough = {});

/// Like preemptIn(): works on the given cluster and book, which are unchanged on return.
Preemption preemptWithinIn(Cluster& cluster, QuotaBook& book, const QuotaPreemptor& preemptor, const SearchScope& among,
                           const NodePredicate& suits, const IsEvictable& isEvictable, int64_t& left,
                           const EvictionRankOf& standing, const StopCondition& enough);

}  // namespace egpu::scheduler
