// The best-effort choice for more cards than can be divided exactly: greedy sets, then swaps of two cards while they
// increase the sum, within a fixed number of tries. Internal to topology/.
#pragma once

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

/// `available` has more than one card; wish.size is at least 2 and possible. Bound: no card shares a set with more than
/// size − 1 others, so the sum over each card's best size − 1 peers, halved, cannot be exceeded (cards of the smaller
/// set have fewer peers; the bound assumes those cards that lose least by it). With `admits`, the division found may
/// contain no admitted set; then the result is empty.
Choice bounded(const PairScores& scores, Set available, const CardSetRequest& wish, const Admits& admits);

}  // namespace egpu::scheduler::topology
