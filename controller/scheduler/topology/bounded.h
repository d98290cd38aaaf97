// The best-effort choice for more cards than can be divided exactly: greedy sets, then swaps of two cards while they
// increase the sum, within a fixed number of tries. Internal to topology/.
#pragma once

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology {

/// Returns the best division that greedy sets and swaps find; empty if `admits` accepts no set of that division. Needs
/// more than one available card, and a possible wish with a size of at least 2. Choice::bound is half the sum, over all
/// cards, of each card's links to its best size − 1 peers. No card has more peers in its set, so no division exceeds
/// it. In the smaller set of a division with a rest, cards have fewer peers; the bound assumes the cards that lose
/// least.
Choice bounded(const PairScores& scores, Set available, const CardSetRequest& wish, const Admits& admits);

}  // namespace egpu::scheduler::topology
