// A simulation shows the effects of filters and policies, and its decision equals that of decide().
#include "controller/scheduler/simulate.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

TEST(Simulate, TheRankingIsTheOrderInWhichNodesAreChosen) {
  int64_t ranked = 0, unfit = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const std::string before = dump(cluster);
    for (int i = 0; i < 6; ++i) {
      const Request request = crowd.request();
      NodePredicate suits;
      if (i % 3 == 0) suits = [](std::string_view node) { return node.back() != '1'; };
      const Simulation got = simulate(cluster, request, suits, {3, 100});
      ASSERT_EQ(got.decision, decide(cluster, request, suits));
      ASSERT_EQ(got.filter, explain(cluster, request, suits, 3));
      ASSERT_EQ(got.decision.fits, !got.ranking.empty());
      // Removes the ranked nodes one by one: each next one is then decided; at the end nothing fits.
      Cluster rest = cluster;
      for (const RankedNode& node : got.ranking) {
        ASSERT_EQ(decide(rest, request, suits), node.decision) << "seed " << seed << ", request " << i;
        rest.upsertNode({node.decision.node, false});
        ++ranked;
      }
      ASSERT_FALSE(decide(rest, request, suits).fits);
      if (!got.ranking.empty()) {
        ASSERT_EQ(simulate(cluster, request, suits, {0, 1}).ranking.size(), 1u);
      } else {
        ++unfit;
        ASSERT_EQ(got.preemption, preempt(cluster, request, suits));
      }
    }
    ASSERT_EQ(dump(cluster), before);
  }
  EXPECT_GT(ranked, 200);
  EXPECT_GT(unfit, 20);
}

TEST(Simulate, CardsAreShownBeforeAndAfter) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int64_t i = 0; i < 3; ++i) cluster.upsertCard(makeCard("c" + std::to_string(i), "n", i));
  CardInfo ill = makeCard("c3", "n", 3);
  ill.healthy = false;
  cluster.upsertCard(ill);
  cluster.take("c1", "a", {500, 8 * kGi});
  Request request;
  request.perCard = {250, 8 * kGi};
  const auto ranking = rank(cluster, request, {}, 5);
  ASSERT_EQ(ranking.size(), 1u);
  EXPECT_EQ(ranking[0].fill, 166'666 + 83'333);
  EXPECT_EQ(ranking[0].fillAfter, 250'000 + 166'666);
  auto cards = ranking[0].cards;
  EXPECT_EQ(cards[0].scores.at("compact-first"), 33);  // 0.7 · 25 % of its memory + 0.3 · 50 % of its core
  for (auto& card : cards) card.scores.clear();
  EXPECT_EQ(cards, (std::vector<RankedCard>{{"c1", 1, true, true, 750'000, 1'250'000, {}},
                                            {"c0", 0, true, false, 0, 0, {}},
                                            {"c2", 2, true, false, 0, 0, {}},
                                            {"c3", 3, false, false, 0, 0, {}}}));
}

TEST(Simulate, WhatDoesNotFitReportsWhoWouldHaveToGo) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(makeCard("c0", "n", 0));
  cluster.take("c0", "a", {900, kGi});
  Request request;
  request.perCard = {200, kGi};
  const Simulation got = simulate(cluster, request);
  EXPECT_FALSE(got.decision.fits);
  EXPECT_EQ(got.filter.smallestChange, "gpu-core 10 would fit now (node n); or free 10% of card c0 (node n)");
  ASSERT_EQ(got.preemption.victims.size(), 1u);
  EXPECT_EQ(got.preemption.victims[0].device, "a");
  const Simulation closed = simulate(cluster, request, {}, {}, [](std::string_view) { return false; });
  EXPECT_FALSE(closed.preemption.possible);
}

}  // namespace
}  // namespace egpu::scheduler::testing
