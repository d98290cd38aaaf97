// A claim that is not there yet, walked through every stage: what the filters drop, in which order the nodes that are
// left would be chosen, what would be decided, and, where nothing fits, who would have to go. Reserves nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/preempt.h"

namespace egpu::scheduler {

/// A card of a node that would do. Fill: fill.h, 0 … 2,000,000.
struct RankedCard {
  std::string card;
  int64_t index = 0;
  bool healthy = true;
  bool given = false;  ///< by the decision for this node
  int64_t fill = 0;
  int64_t fillAfter = 0;  ///< as fill, if it is not given
  bool operator==(const RankedCard&) const = default;
};

/// A node that would do, and what would be decided if no better one did.
struct RankedNode {
  Decision decision;
  int64_t fill = 0;  ///< of its healthy cards together
  int64_t fillAfter = 0;
  std::vector<RankedCard> cards;  ///< all of the node's: the given ones first, as they are given, then by index
  bool operator==(const RankedNode&) const = default;
};

/// The nodes that would do, best first, at most `top`: each is what decide() finds when the better ones are left out,
/// so that this is the order of whatever policies the request names.
std::vector<RankedNode> rank(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                             std::size_t top, const Pause& pause = {});

struct Simulation {
  Explanation filter;  ///< of a request that fits, too
  std::vector<RankedNode> ranking;
  Decision decision;
  Preemption preemption;  ///< if it doesn't fit
};

struct SimulationLimits {
  std::size_t names = 20;  ///< of those who fell out, per stage
  std::size_t top = 5;     ///< nodes ranked
  Pause pause{};           ///< called between decisions; may throw to give up
};

/// Costs what explain() does, and a decision per ranked node. mayGo: whom preemption may name; null = everybody.
Simulation simulate(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                    const SimulationLimits& limits = {}, const MayGo& mayGo = {});

}  // namespace egpu::scheduler
