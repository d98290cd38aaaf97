#include "controller/scheduler/simulate.h"

#include <algorithm>
#include <set>

#include "controller/scheduler/fill.h"

namespace egpu::scheduler {
namespace {

RankedNode describe(const Cluster& cluster, Decision decision) {
  RankedNode node;
  Amount used, usedAfter, capacity;
  std::vector<RankedCard> given(decision.placements.size()), others;
  for (const std::string& name : cluster.cardsOf(decision.node)) {
    const CardView view = cluster.findCard(name);
    const Amount whole = view.capacity;
    Amount after = view.used;
    RankedCard card{name, view.index, view.healthy, false, fillOf(view.used, whole), 0};
    RankedCard* slot = nullptr;
    for (std::size_t i = 0; i < decision.placements.size(); ++i) {
      const Placement& placement = decision.placements[i];
      if (placement.card != name) continue;
      after.core += placement.charged.core;
      after.memory += placement.charged.memory;
      card.given = true;
      slot = &given[i];
    }
    card.fillAfter = fillOf(after, whole);
    if (view.healthy) {
      used = {used.core + view.used.core, used.memory + view.used.memory};
      usedAfter = {usedAfter.core + after.core, usedAfter.memory + after.memory};
      capacity = {capacity.core + whole.core, capacity.memory + whole.memory};
    }
    if (slot != nullptr)
      *slot = std::move(card);
    else
      others.push_back(std::move(card));
  }
  node.fill = fillOf(used, capacity);
  node.fillAfter = fillOf(usedAfter, capacity);
  node.cards = std::move(given);
  node.cards.insert(node.cards.end(), others.begin(), others.end());
  node.decision = std::move(decision);
  return node;
}

}  // namespace

std::vector<RankedNode> rank(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                             std::size_t top, const Pause& pause) {
  std::vector<RankedNode> ranking;
  std::set<std::string, std::less<>> better;
  const NodePredicate others = [&](std::string_view node) {
    return better.count(node) == 0 && (!suits || suits(node));
  };
  while (ranking.size() < top) {
    if (pause) pause();
    Decision decision = decide(cluster, request, others);
    if (!decision.fits) break;
    better.insert(decision.node);
    ranking.push_back(describe(cluster, std::move(decision)));
  }
  return ranking;
}

Simulation simulate(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                    const SimulationLimits& limits, const MayGo& mayGo) {
  Simulation simulation;
  simulation.filter = explain(cluster, request, suits, limits.names, limits.pause);
  simulation.decision = decide(cluster, request, suits);
  simulation.ranking = rank(cluster, request, suits, limits.top, limits.pause);
  if (!simulation.decision.fits)
    simulation.preemption = preempt(cluster, request, suits, mayGo, kMostPreemptions, limits.pause);
  return simulation;
}

}  // namespace egpu::scheduler
