// Who would have to go so that several requests get in, all or none: the members of a gang, each where it may go, or the claims of
// one pod. As preempt() for one, but that holders on several nodes may have to go.
//
// A gang of two, each for one whole card, on nodes of two cards that are all taken, by holders of one card each:
//
//   n0: a (may go), b (may not)   n1: c, d (may go)                 two of a, c, d: who stands lowest
//   that, both in one rack: n0 is in x, n1 in y                    c and d
//   that, and d may not go either                                  nobody: one member alone would be helped
//
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/preempt.h"

namespace egpu::scheduler {

struct PreemptionTogether {
  /// What decideGang() would decide once the victims are gone. `lacking`: they don't all fit, whoever goes.
  GangDecision after;
  std::vector<Victim> victims;  ///< by uid; empty if all fit as it is, or nobody's going helps
  bool exact = true;  ///< none of them can be spared; false: the search was cut short, or not all groups were tried
};

/// First each member has those go that preempt() names beside those before it; if it can't be helped so, all go who may. Then each
/// stays that can be spared, those who hold least first, of these who stand higher. So no victim is for nothing, though fewer others might do. Of several
/// groups (`within`, as in decideGang()) the one where fewest go, then the lowest, the youngest, those who hold least.
/// Of many victims and members each member stays on its node while victims are spared (nominated_rooms.h), so that the
/// cost is linear in victims; then the answer is not exact.
///
/// Quota that a victim gives back counts, so victims may be on nodes that no member goes to. At most some `limit` decisions to find
/// who goes, and as many to find who stays, then what was found is the answer, if anything was; likewise once it is `enough`. A
/// group whose cards could not hold them all, were all gone who may, costs none. One copy of the cluster.
PreemptionTogether preemptTogether(const Cluster& cluster, const std::vector<GangMember>& members,
                                   const std::vector<TopologyGroup>* within = nullptr, const QuotaBook& book = {},
                                   const MayGo& mayGo = {}, const StandingOf& standing = {},
                                   int64_t limit = kMostPreemptions, const Enough& enough = {});

}  // namespace egpu::scheduler
