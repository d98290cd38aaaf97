// The best-effort choice for more cards than can be divided exactly: greedy sets, then swaps of two cards while a swap
// raises the sum, within a fixed number of tries. Internal to topology/.
#pragma once

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

/// `available` has more than one card, wish.size is 2 or more and possible. The bound: no card is in a set with more
/// than size − 1 others, so half the sum of what each card has with its best size − 1 peers can't be exceeded (those of
/// the smaller set count fewer peers, and are taken to be those that lose least by it).
/// With `admits` there may be a set that it admits but none in the division found: then nothing is returned.
Choice bounded(const PairScores& scores, Set available, const Wish& wish, const Admits& admits);

}  // namespace egpu::scheduler::topology
