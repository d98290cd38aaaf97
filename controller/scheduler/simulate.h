// A claim that is not there yet, walked through every stage: what the filters drop, in which order the nodes that are
// left would be chosen, what would be decided, and, where nothing fits, who would have to go. Reserves nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/preempt.h"
#include "controller/scheduler/quota/book.h"

namespace egpu::scheduler {

/// What each policy makes of something, 0 … 100, higher is better: by the policy's name.
///
///   binpack, spread                 how full it is, how empty (core and memory in equal parts)
///   compact-first, low-load-first   its load, what is left of it (load_score.h); of a node the mean of its cards
///   simple                          of a card: lower indexes first
///   topology, static                of a card: its links to the other given cards, the best linked of the node
///                                   being 100
///
/// A node is scored as it is before the request, unhealthy cards left out. `fragmentation` has no such number: its loss
/// depends on what else is expected.
using PolicyScores = std::map<std::string, int64_t, std::less<>>;

/// A card of a node that would do. Fill: fill.h, 0 … 2,000,000.
struct RankedCard {
  std::string card;
  int64_t index = 0;
  bool healthy = true;
  bool given = false;  ///< by the decision for this node
  int64_t fill = 0;
  int64_t fillAfter = 0;  ///< as fill, if it is not given
  PolicyScores scores;
  bool operator==(const RankedCard&) const = default;
};

/// A node that would do, and what would be decided if no better one did.
struct RankedNode {
  Decision decision;
  int64_t fill = 0;  ///< of its healthy cards together
  int64_t fillAfter = 0;
  PolicyScores scores;
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
  WhyUnsuited whyUnsuited{};
};

/// Quotas that a simulated claim is held to. References must outlive the call.
struct SimulatedQuotas {
  const QuotaBook& book;
  const QuotaClaim& claim;
  const Request& request;  ///< request as the claim states it, not cut by the quotas
};

/// Costs what explain() does, and a decision per ranked node. mayGo: holders that preemption may name; null = all.
/// quotas: preemption counts the amounts that holders give back to them; null = there are none.
Simulation simulate(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                    const SimulationLimits& limits = {}, const MayGo& mayGo = {},
                    const SimulatedQuotas* quotas = nullptr);

}  // namespace egpu::scheduler
