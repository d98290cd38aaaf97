// The nodes to keep for those that need their room at the same time: the pods of a gang, or the claims of one pod. As keepNodes() for
// one, but that nodes where they have room already are kept, too, or the next to come would take it before the others have theirs.
//
// A gang of three, each for two whole cards, has waited for long; nodes of two cards, held since so many seconds:
//
//   n0: free   n1: 100 and 200   n2: 50 and 400   n3: 300          n0, n1, n3: the last is expected in 300 seconds
//   that, and n1 and n2 were kept until now                        n0, n1, n2: in 400; n3 would have to come in half of that
//   that, and no more than two nodes may be kept                   none: two would be of no use
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/scheduler/gang.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/waiting.h"

namespace egpu::scheduler {

/// A node, for the first of the members (by position) that is to have room there.
struct KeptForMember {
  std::size_t member = 0;
  std::string node;
  bool operator==(const KeptForMember&) const = default;
};

/// What was kept until now.
struct KeptBefore {
  std::vector<std::string> nodes;
  int moves = 0;  ///< how often others were before that
};

/// Enough nodes for all members (as decideGang() has them, which found no room) once those that are not free enough have become empty:
/// the soonest first, as keepNodes() expects it. One pod's members are on one node. A node that was kept before stays unless another
/// one is expected in half the time, and so on, as there. Of several groups (`within`) the one where the last of its nodes is expected
/// first, one that has all that were kept likewise.
///
/// Holders of which `lasts` is true stay where they are. It is asked only about nodes that would be chosen, as it may be
/// expensive.
///
/// None: more than `most` would be needed, no nodes ever hold all, quotas would not let them have it, or the pods ask for more than
/// eight different things.
/// Costs a scan of the cluster for each thing that they ask for.
std::vector<KeptForMember> keepTogether(const Cluster& cluster, const std::vector<GangMember>& members,
                                        const std::vector<TopologyGroup>* within, const QuotaBook& book, int64_t now,
                                        const HeldSince& heldSince, const KeptBefore& before, std::size_t most,
                                        const HolderLasts& lasts = {});

}  // namespace egpu::scheduler
