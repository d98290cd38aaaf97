#include "controller/scheduler/simulate.h"

#include <algorithm>
#include <set>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/quota/preempt_within.h"
#include "controller/scheduler/state/fill.h"
#include "controller/scheduler/state/state.h"
#include "controller/scheduler/topology/wiring.h"

namespace egpu::scheduler {
namespace {

int64_t percentOf(int64_t fill) { return (fill * 100 + 1'000'000) / 2'000'000; }

PolicyScores scoresOf(const Amount& used, const Amount& capacity, int64_t memoryWeight) {
  const int64_t full = percentOf(fillOf(used, capacity));
  const LoadScore load = loadScoreOf(used, capacity, memoryWeight);
  return {{"binpack", full}, {"spread", 100 - full}, {"compact-first", load.used}, {"low-load-first", load.available}};
}

/// Scores of a node: from its fill and the mean load scores of its healthy cards.
PolicyScores scoresOf(int64_t fill, const std::vector<RankedCard>& cards) {
  PolicyScores scores = {{"binpack", percentOf(fill)}, {"spread", 100 - percentOf(fill)}};
  NodeLoad load;
  for (const RankedCard& card : cards)
    if (card.healthy) load.add({card.scores.find("compact-first")->second, card.scores.find("low-load-first")->second});
  scores["compact-first"] = NodeLoad::inPoints(load.used());
  scores["low-load-first"] = NodeLoad::inPoints(load.available());
  return scores;
}

/// Scores each card by its links to the other given cards.
void scoreLinks(const Cluster& cluster, const std::string& node, std::vector<RankedCard>& cards) {
  const Cluster::State& state = cluster.state();
  const NodeRecord& record = state.nodes[state.findNode(node)];
  std::vector<int64_t> links(cards.size(), 0);
  const auto placeOf = [&](const RankedCard& card) {
    const CardId id = state.findCard(card.card);
    std::size_t place = 0;
    while (record.cards[place] != id) ++place;
    return place;
  };
  if (record.topology)
    for (std::size_t a = 0; a < cards.size(); ++a)
      for (std::size_t b = 0; b < cards.size(); ++b)
        if (a != b && cards[b].given) links[a] += record.topology->scores().at(placeOf(cards[a]), placeOf(cards[b]));
  const int64_t max = links.empty() ? 0 : *std::max_element(links.begin(), links.end());
  for (std::size_t i = 0; i < cards.size(); ++i)
    cards[i].scores["topology"] = cards[i].scores["static"] = max > 0 ? links[i] * 100 / max : 0;
}

RankedNode describe(const Cluster& cluster, const Request& request, Decision decision) {
  RankedNode node;
  Amount used, usedAfter, capacity;
  std::vector<RankedCard> given(decision.placements.size()), others;
  for (const std::string& name : cluster.cardsOf(decision.node)) {
    const CardView view = cluster.findCard(name);
    const Amount whole = view.capacity;
    Amount after = view.used;
    RankedCard card{name,
                    view.index,
                    view.healthy,
                    false,
                    fillOf(view.used, whole),
                    0,
                    scoresOf(view.used, whole, request.memoryWeight)};
    card.scores["simple"] = std::clamp<int64_t>(100 - view.index, 0, 100);
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
  scoreLinks(cluster, decision.node, node.cards);
  node.scores = scoresOf(node.fill, node.cards);
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
    ranking.push_back(describe(cluster, request, std::move(decision)));
  }
  return ranking;
}

Simulation simulate(const Cluster& cluster, const Request& request, const NodePredicate& suits,
                    const SimulationLimits& limits, const IsEvictable& isEvictable, const SimulatedQuotas* quotas) {
  Simulation simulation;
  simulation.filter = explain(cluster, request, suits, limits.names, limits.pause, limits.whyUnsuited);
  simulation.decision = decide(cluster, request, suits);
  simulation.ranking = rank(cluster, request, suits, limits.top, limits.pause);
  if (simulation.decision.fits) return simulation;
  const StopCondition pauses = [&limits] {
    if (limits.pause) limits.pause();
    return false;
  };
  simulation.preemption =
      quotas == nullptr
          ? preempt(cluster, request, suits, isEvictable, kMaxPreemptions, limits.pause)
          : preemptWithin(cluster, quotas->book, {quotas->claim, quotas->request, {}}, suits, isEvictable, {}, pauses);
  return simulation;
}

}  // namespace egpu::scheduler
