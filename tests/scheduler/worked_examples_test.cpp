// Recomputes the rows of controller/scheduler/README.md: each must appear there with the computed values.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "api/v1alpha/quantity.h"
#include "controller/base/files.h"
#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/fragmentation/node_scoring.h"
#include "controller/scheduler/state/fill.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

const std::string& readme() {
  static const std::string text = *base::readFile(EGPU_SOURCE_DIR "/controller/scheduler/README.md");
  return text;
}

void expectRow(const std::string& row) {
  EXPECT_NE(readme().find("\n" + row), std::string::npos) << "the README lacks: " << row;
}

/// Formats the mean of load scores as the README does.
std::string mean(int64_t sum, std::size_t cards) {
  return v1alpha::formatThousandths(sum * 1000 / static_cast<int64_t>(cards));
}

std::string grouped(int64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

const char* const kNodes[] = {"a", "b", "c"};

Cluster threeNodes() {
  Cluster cluster;
  for (const std::string node : kNodes) {
    cluster.upsertNode({node, true});
    for (int64_t c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  }
  cluster.take("a0", "x", {500, 8 * kGi});
  cluster.take("b0", "y", {200, 4 * kGi});
  cluster.take("b1", "y", {200, 4 * kGi});
  return cluster;
}

Request share(std::string_view nodePolicy, std::string_view cardPolicy) {
  Request r;
  r.perCard = {300, 4 * kGi};
  r.nodePolicy = nodePolicy;
  r.cardPolicy = cardPolicy;
  return r;
}

TEST(WorkedExamples, WhichNode) {
  const Cluster cluster = threeNodes();
  for (const std::string policy : {"binpack", "spread", "compact-first", "low-load-first"}) {
    std::string row = "| `" + policy + "` |";
    for (const char* node : kNodes) {
      Amount used, capacity;
      int64_t score = 0;
      for (const std::string& name : cluster.cardsOf(node)) {
        const CardView card = cluster.findCard(name);
        used = {used.core + card.used.core, used.memory + card.used.memory};
        capacity = {capacity.core + card.capacity.core, capacity.memory + card.capacity.memory};
        const LoadScore load = loadScoreOf(card.used, card.capacity);
        score += policy == "compact-first" ? load.used : load.available;
      }
      const bool byFill = policy == "binpack" || policy == "spread";
      row += ' ' + (byFill ? grouped(fillOf(used, capacity)) : mean(score, cluster.cardsOf(node).size())) + " |";
    }
    expectRow(row + ' ' + decide(cluster, share(policy, "binpack")).node + " |");
  }
}

TEST(WorkedExamples, WeightsOfTheLoadScores) {
  const Cluster cluster = threeNodes();
  for (const int64_t weight : {1000, 700, 0}) {
    Request request = share("compact-first", "binpack");
    request.memoryWeight = weight;
    std::string row = "| " + v1alpha::formatThousandths(weight) + " |";
    for (const char* node : kNodes) {
      int64_t score = 0;
      for (const std::string& name : cluster.cardsOf(node)) {
        const CardView card = cluster.findCard(name);
        score += loadScoreOf(card.used, card.capacity, weight).used;
      }
      row += ' ' + mean(score, cluster.cardsOf(node).size()) + " |";
    }
    expectRow(row + ' ' + decide(cluster, request).node + " |");
  }
}

TEST(WorkedExamples, WhichNodeLosesLeast) {
  Cluster cluster = threeNodes();
  Request half;
  half.perCard = {500, 4 * kGi};
  half.nodePolicy = "fragmentation";
  for (int i = 0; i < 1000; ++i) cluster.observe(half);
  const Request request = share("fragmentation", "binpack");
  const Cluster::State& state = cluster.state();
  Needs needs(state, request);
  CardChoice cards(state, request, *findCardPolicy("binpack"), needs);
  const fragmentation::Prices& prices = *state.outlook.prices();
  fragmentation::FitCounts counts(prices.shapes());
  fragmentation::NodeScorer scorer(state, request, cards, prices, counts);
  std::string row = "| `fragmentation` |";
  for (const char* node : kNodes) {
    const NodeId id = state.findNode(node);
    fragmentation::NodeState before;
    fragmentation::readNode(state, id, before);
    row += ' ' + std::to_string(scorer.score(id, fragmentation::NodeCopies(before, counts))) + " |";
  }
  expectRow(row + ' ' + decide(cluster, request).node + " |");
}

/// Returns the indexes of the decided cards, as "1 3"; "–" if nothing fits.
std::string indexes(const Cluster& cluster, const Decision& decision) {
  std::set<int64_t> all;
  for (const Placement& p : decision.placements) all.insert(cluster.findCard(p.card).index);
  std::string text;
  for (const int64_t index : all) text += (text.empty() ? "" : " ") + std::to_string(index);
  return text.empty() ? "–" : text;
}

TEST(WorkedExamples, WhichCards) {
  const Cluster nodes = threeNodes();
  Cluster dgx;
  dgx.upsertNode({"n", true});
  for (v1alpha::Card card : topology::testing::dgx1Volta()) {
    card.nodeName = "n";
    dgx.upsertCard({"c" + std::to_string(card.index), card, true});
    if (card.index % 2 == 0) dgx.take("c" + std::to_string(card.index), "x", {1000, 0});
  }
  for (const std::string policy :
       {"binpack", "spread", "simple", "topology", "static", "compact-first", "low-load-first"}) {
    Request one = share("binpack", policy), two = one;
    one.pinnedNode = "a";
    two.cards = 2;
    expectRow("| `" + policy + "` | " + indexes(nodes, decide(nodes, one)) + " | " + indexes(dgx, decide(dgx, two)) +
              " | ");
  }
}

Cluster oneNode(std::initializer_list<int64_t> used) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  int64_t index = 0;
  for (const int64_t core : used) {
    const std::string name = "c" + std::to_string(index);
    cluster.upsertCard(makeCard(name, "n", index++));
    if (core > 0) cluster.take(name, "x", {core, 0});
  }
  return cluster;
}

Request total(Split split, const char* cardPolicy) {
  Request r;
  r.perCard.core = 1200;
  r.memoryFromCore = true;
  r.split = split;
  r.cardPolicy = cardPolicy;
  return r;
}

TEST(WorkedExamples, ATotalOverSeveralCards) {
  const Cluster two = oneNode({200, 0});
  for (const auto& [name, split] : {std::pair("evenly", Split::evenly), {"fill", Split::fill}}) {
    std::map<std::string, int64_t> parts;
    for (const Placement& p : decide(two, total(split, "binpack")).placements) parts[p.card] = p.granted.core / 10;
    expectRow("| `" + std::string(name) + "` | " + std::to_string(parts["c0"]) + " | " + std::to_string(parts["c1"]) +
              " | ");
  }
  const Cluster four = oneNode({100, 0, 300, 0});
  for (const char* policy : {"binpack", "spread", "simple"}) {
    const Decision decision = decide(four, total(Split::evenly, policy));
    for (const Placement& p : decision.placements) EXPECT_EQ(p.granted.core, 600);
    expectRow("| `" + std::string(policy) + "` | " + indexes(four, decision) + " |\n");
  }
}

TEST(WorkedExamples, PoliciesOfClaims) {
  const Cluster cluster = threeNodes();
  v1alpha::ElasticGPUClass cls;
  cls.parameters["claimPolicies"] = "true";
  const auto written = [](const char* name) { return *name == 0 ? "–" : '`' + std::string(name) + '`'; };
  for (const auto& [node, card] : {std::pair("", ""), {"", "spread"}, {"spread", ""}}) {
    v1alpha::ElasticGPUClaim claim;
    claim.spec.requests = {{"elasticgpu.io/gpu-core", "30"}, {"elasticgpu.io/gpu-memory", "4Gi"}};
    if (*node != 0) claim.metadata.annotations["elasticgpu.io/node-policy"] = node;
    if (*card != 0) claim.metadata.annotations["elasticgpu.io/card-policy"] = card;
    const Decision decision = decide(cluster, std::get<Request>(makeRequest(claim, cls)));
    expectRow("| " + written(node) + " | " + written(card) + " | " + decision.node + ", card " +
              indexes(cluster, decision) + " |");
  }
}

TEST(WorkedExamples, Presets) {
  const Cluster cluster = threeNodes();
  for (const std::string_view name : presetNames()) {
    const Preset& preset = *findPreset(name);
    const Decision decision = decide(cluster, share(preset.nodePolicy, preset.cardPolicy));
    expectRow("| `" + std::string(name) + "` | `" + std::string(preset.nodePolicy) + "` | `" +
              std::string(preset.cardPolicy) + "` | " + decision.node + ", card " + indexes(cluster, decision) + " |");
  }
}

}  // namespace
}  // namespace egpu::scheduler::testing
