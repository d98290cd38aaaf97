// Finds the victims for several requests, all or none: the members of a gang, or the claims of one pod. Like preempt()
// for one request, but victims can be on several nodes. Pure.
//
// A gang of two, each for one whole card, on nodes of two full cards with one holder per card:
//
//   n0: a (evictable), b (not)   n1: c, d (evictable)              two of a, c, d: the lowest ranks
//   as before, within one rack; n0 is in x, n1 in y                c and d
//   as before, d is not evictable either                           none: only one member would fit
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/preempt.h"

namespace egpu::scheduler {

struct PreemptionTogether {
  /// Decision of decideGang() after the evictions. `lacking`: they do not all fit, whatever the victims.
  GangDecision after;
  std::vector<Victim> victims;  ///< by uid; empty if all fit already, or if no evictions help
  bool exact = true;  ///< no victim can be spared; false: the search was cut short, or not all groups were tried
};

/// Finds few victims. First, each member takes the victims of preempt() beside the members before it; if that fails,
/// all evictable holders are taken. Then each victim that is not needed is spared, the smallest amount first, then the
/// higher rank. So every victim is needed, although a smaller set might exist. With several groups (`within`, as in
/// decideGang()) takes the group with the fewest victims, then the lowest priorities, the youngest, the smallest
/// amounts. With many victims and members, each member stays on its node while victims are spared
/// (nominated_capacity.h), so that the cost is linear in the victims; then the answer is not exact.
///
/// Quota that victims release counts, so victims can be on nodes without members. Makes at most about `limit` decisions
/// to find victims and `limit` more to spare them; then, or once `enough` is true, it returns the best result so far. A
/// group whose cards could not hold all members without any evictable holder costs no decision. Makes one copy of the
/// cluster.
PreemptionTogether preemptTogether(const Cluster& cluster, const std::vector<GangMember>& members,
                                   const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                                   const IsEvictable& isEvictable = {}, const EvictionRankOf& standing = {},
                                   int64_t limit = kMaxPreemptions, const StopCondition& enough = {});

}  // namespace egpu::scheduler
