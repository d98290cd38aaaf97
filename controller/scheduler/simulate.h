// Simulates a claim that does not exist: exclusions per stage, the ranking of the nodes, the decision and, if nothing
// fits, the victims. Reserves nothing.
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

/// Scores of a card or node by policy name, 0 … 100, higher is better.
///
///   binpack, spread                 fill, and its complement (core and memory in equal parts)
///   compact-first, low-load-first   used load and available load (load_score.h); for a node the mean of its cards
///   simple                          cards only: lower indexes first
///   topology, static                cards only: links to the other given cards, relative to the best linked card of
///                                   the node, which has 100
///
/// Scores are computed before the request is placed, for a node over its healthy cards. `fragmentation` has no such
/// score: its loss depends on the expected demand.
using PolicyScores = std::map<std::string, int64_t, std::less<>>;

/// A card of a suitable node. Fill: 0 … 2,000,000 (fill.h).
struct RankedCard {
  std::string card;
  int64_t index = 0;
  bool healthy = true;
  bool given = false;  ///< chosen by the decision for this node
  int64_t fill = 0;
  int64_t fillAfter = 0;  ///< equals fill if the card is not given
  PolicyScores scores;
  bool operator==(const RankedCard&) const = default;
};

/// A suitable node, with the decision that is made if no better node fits.
struct RankedNode {
  Decision decision;
  int64_t fill = 0;  ///< fill of its healthy cards together
  int64_t fillAfter = 0;
  PolicyScores scores;
  std::vector<RankedCard> cards;  ///< all cards: the given ones in the decision's order, then the others by index
  bool operator==(const RankedNode&) const = default;
};

/// Returns at most `top` suitable nodes, best first. Each is the result of decide() without the better nodes, so the
/// order is right for every policy.
std::vector<RankedNode> rank(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                             std::size_t top, const Pause& pause = {});

struct Simulation {
  Explanation filter;  ///< also set if the request fits
  std::vector<RankedNode> ranking;
  Decision decision;
  Preemption preemption;  ///< set if the request does not fit
};

struct SimulationLimits {
  std::size_t names = 20;  ///< number of excluded items listed per stage
  std::size_t top = 5;     ///< number of ranked nodes
  Pause pause{};           ///< called between decisions; can throw to abort
  WhyUnsuited whyUnsuited{};
};

/// Quotas for the simulated claim. References must outlive the call.
struct SimulatedQuotas {
  const QuotaBook& book;
  const QuotaClaim& claim;
  const Request& request;  ///< the claim's request, not reduced by the quotas
};

/// Costs one explain(), and a decision per ranked node. isEvictable: possible victims; null = all. quotas: preemption
/// counts the quota that victims release; null = no quotas.
Simulation simulate(const Cluster& cluster, const Request& request, const NodePredicate& suits = {},
                    const SimulationLimits& limits = {}, const IsEvictable& isEvictable = {},
                    const SimulatedQuotas* quotas = nullptr);

}  // namespace egpu::scheduler
