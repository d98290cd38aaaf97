// Presets: the load score including rounding of halves, and the node and card that each preset chooses.
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/choice/preset.h"
#include "controller/scheduler/simulate.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

TEST(LoadScore, IsExactAndRoundsHalvesUp) {
  const Amount card{1000, 32 * kGi};
  struct PresetRow {
    Amount used;
    int64_t wantUsed, wantAvailable;
  };
  const PresetRow rows[] = {
      {{0, 0}, 0, 100},          {{1000, 32 * kGi}, 100, 0},
      {{300, 16 * kGi}, 44, 56}, {{500, 8 * kGi}, 33, 68},  // 32.5 and 67.5
      {{50, 0}, 2, 99},                                     // 1.5 and 98.5
      {{10, 0}, 0, 100},                                    // 0.3
      {{0, 1}, 0, 100},          {{1000, 0}, 30, 70},
      {{0, 32 * kGi}, 70, 30},   {{2000, 64 * kGi}, 100, 0},  // overdrawn
  };
  for (const PresetRow& row : rows) {
    EXPECT_EQ(loadScoreOf(row.used, card).used, row.wantUsed) << row.used.core << ", " << row.used.memory;
    EXPECT_EQ(loadScoreOf(row.used, card).available, row.wantAvailable) << row.used.core << ", " << row.used.memory;
  }
  EXPECT_EQ(loadScoreOf({0, 0}, {0, 0}).used, 100) << "nothing to hand out";
  // Sizes whose products need more than 64 bits.
  const int64_t huge = int64_t{1} << 49;
  EXPECT_EQ(loadScoreOf({500, huge / 2}, {1000, huge}).used, 50);
  EXPECT_EQ(loadScoreOf({500, huge / 4}, {1000, huge}).used, 33);
}

TEST(LoadScore, HasTheWeightsThatTheClassGives) {
  const Amount card{1000, 32 * kGi}, used{300, 16 * kGi};  // V 50, T 30
  EXPECT_EQ(loadScoreOf(used, card, 250).used, 35);
  EXPECT_EQ(loadScoreOf(used, card, 250).available, 65);
  EXPECT_EQ(loadScoreOf(used, card, 0).used, 30);
  EXPECT_EQ(loadScoreOf(used, card, 1000).used, 50);
  EXPECT_EQ(loadScoreOf(used, card, 1).used, 30) << "30.02";
  EXPECT_EQ(loadScoreOf(used, card, 125).used, 33) << "32.5";
  EXPECT_EQ(loadScoreOf(used, card, 125).available, 68) << "67.5";
  // The largest values that are computed in 64 bits, and beyond.
  for (const int64_t memory : {(int64_t{1} << 43) - 1, int64_t{1} << 43, int64_t{1} << 49})
    for (const int64_t weight : {0, 1, 500, 1000}) {
      EXPECT_EQ(loadScoreOf({1023, memory}, {1023, memory}, weight).used, 100) << memory << ", " << weight;
      EXPECT_EQ(loadScoreOf({0, 0}, {1023, memory}, weight).available, 100) << memory << ", " << weight;
    }
}

/// The examples of node_policy/compact_first.h and low_load_first.h.
Cluster threeNodes() {
  Cluster cluster;
  for (const char* node : {"a", "b", "c"}) {
    cluster.upsertNode({node, true});
    for (int64_t c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  }
  cluster.take("a0", "x", {500, 8 * kGi});
  cluster.take("b0", "y", {200, 8 * kGi});
  cluster.take("b1", "y", {200, 8 * kGi});
  return cluster;
}

std::string where(const Cluster& cluster, const char* preset) {
  Request r;
  r.perCard = {300, 4 * kGi};
  r.nodePolicy = findPreset(preset)->nodePolicy;
  r.cardPolicy = findPreset(preset)->cardPolicy;
  return decide(cluster, r).placements.at(0).card;
}

TEST(Presets, TheWorkedExamplesHold) {
  Cluster cluster = threeNodes();
  EXPECT_EQ(where(cluster, "compact-first"), "b0");
  EXPECT_EQ(where(cluster, "low-load-first"), "c0");
  EXPECT_EQ(where(cluster, "node-compact-gpu-low-load"), "b0") << "equally loaded: the lower index";
  cluster.upsertNode({"c", false});
  EXPECT_EQ(where(cluster, "low-load-first"), "a1") << "84 against 77";
  cluster.take("b0", "z", {0, 8 * kGi});
  EXPECT_EQ(where(cluster, "compact-first"), "b0");
  EXPECT_EQ(where(cluster, "node-compact-gpu-low-load"), "b1");
}

// The number of cards does not affect a node's score.
TEST(Presets, NodesOfUnlikeSizeAreComparedByTheMean) {
  for (const int64_t weight : {kUsualMemoryWeight, int64_t{250}}) {
    Cluster cluster;
    cluster.upsertNode({"large", true});
    for (int64_t c = 0; c < 8; ++c) {
      cluster.upsertCard(makeCard("l" + std::to_string(c), "large", c));
      cluster.take("l" + std::to_string(c), "x", {500, 16 * kGi});
    }
    cluster.upsertNode({"small", true});
    for (int64_t c = 0; c < 2; ++c) cluster.upsertCard(makeCard("s" + std::to_string(c), "small", c));
    Request r;
    r.perCard = {100, kGi};
    r.memoryWeight = weight;
    r.nodePolicy = "low-load-first";
    EXPECT_EQ(decide(cluster, r).node, "small") << "100 against 50";
    const auto ranking = rank(cluster, r, {}, 2);
    ASSERT_EQ(ranking.size(), 2u);
    EXPECT_EQ(ranking[0].scores.at("low-load-first"), 100);
    EXPECT_EQ(ranking[1].scores.at("low-load-first"), 50);
    r.nodePolicy = "compact-first";
    cluster.take("s0", "y", {800, 24 * kGi});
    cluster.take("s1", "y", {600, 20 * kGi});
    EXPECT_EQ(decide(cluster, r).node, "small") << "the mean of 77 and 62 against 50";
  }
}

TEST(Presets, WeightsDecideTheChoice) {
  Cluster cluster;
  for (const char* node : {"a", "b"}) {
    cluster.upsertNode({node, true});
    for (int64_t c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  }
  cluster.take("a0", "x", {600, 4 * kGi});   // V 12.5, T 60
  cluster.take("b0", "y", {100, 16 * kGi});  // V 50, T 10
  Request r;
  r.perCard = {100, kGi};
  r.nodePolicy = "compact-first";
  const auto nodeOf = [&](int64_t weight) {
    r.memoryWeight = weight;
    return decide(cluster, r).node;
  };
  EXPECT_EQ(nodeOf(700), "b") << "13.5 against 19";
  EXPECT_EQ(nodeOf(600), "b") << "16 (15.75) against 17";
  EXPECT_EQ(nodeOf(500), "a") << "18 against 15";
  cluster.take("a1", "z", {100, 16 * kGi});  // as b0
  r.pinnedNode = "a";
  for (const auto& [policy, memory, compute] :
       {std::tuple("compact-first", "a1", "a0"), {"low-load-first", "a0", "a1"}}) {
    r.cardPolicy = policy;
    r.memoryWeight = 1000;
    EXPECT_EQ(decide(cluster, r).placements.at(0).card, memory) << policy;
    r.memoryWeight = 0;
    EXPECT_EQ(decide(cluster, r).placements.at(0).card, compute) << policy;
  }
}

TEST(Presets, AreUnknownByOtherNames) {
  EXPECT_EQ(findPreset("binpack"), nullptr);
  EXPECT_EQ(presetNames(),
            (std::vector<std::string_view>{"compact-first", "low-load-first", "node-compact-gpu-low-load"}));
}

// Many nodes of several shapes and loads: the index's bounds must not hide the best node, nor the first of equal ones.
TEST(Presets, TheIndexFindsWhatAScanFinds) {
  Random random(7);
  for (int round = 0; round < 6; ++round) {
    Cluster cluster;
    World world;
    for (int64_t n = 0; n < 400; ++n) {
      const std::string node = "n" + std::to_string(n);
      cluster.upsertNode({node, true});
      world.upsertNode({node, true});
      const int64_t kind = pick(random, 0, 2);
      for (int64_t c = 0; c < 1 + kind * 2; ++c) {
        const CardInfo info =
            makeCard(node + "-" + std::to_string(c), node, c, (16 + 16 * kind) * kGi, kind == 1 ? "T4" : "V100");
        cluster.upsertCard(info);
        world.upsertCard(info);
        if (pick(random, 0, round) == 0) continue;
        const Amount used{pick(random, 0, 5) * 200, pick(random, 0, 3) * 4 * kGi};
        cluster.take(info.name, "d", used);
        world.take(info.name, "d", used);
      }
    }
    ASSERT_EQ(cluster.state().check(), "");
    for (int i = 0; i < 40; ++i) {
      Request r;
      r.nodePolicy = pick(random, 0, 1) == 0 ? "compact-first" : "low-load-first";
      r.cardPolicy = "compact-first";
      if (pick(random, 0, 1) == 0) r.memoryWeight = std::array{0, 250, 500, 999, 1000}[pick(random, 0, 4) % 5u];
      r.cards = pick(random, 1, 3);
      r.perCard = {pick(random, 0, 10) * 100, pick(random, 1, 16) * kGi};
      if (pick(random, 0, 2) == 0) {
        r.split = Split::evenly;
        r.cards = 1;
        r.perCard = {pick(random, 1, 500) * 10, pick(random, 1, 64) * kGi};
      }
      ASSERT_EQ(decide(cluster, r), world.decide(r)) << "request " << i;
    }
  }
}

}  // namespace
}  // namespace egpu::scheduler::testing
