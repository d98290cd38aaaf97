// A forecast equals the number of claims that can really be placed until none fits.
#include "controller/scheduler/forecast.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

/// Decides and allocates until nothing fits.
Forecast reallyPlaced(Cluster cluster, const Request& request, const NodePredicate& suits) {
  Forecast real;
  for (;;) {
    const Decision decision = decide(cluster, request, suits);
    if (!decision.fits) return real;
    std::set<std::string> models;
    for (const Placement& placement : decision.placements) models.emplace(cluster.findCard(placement.card).model);
    std::string label;
    for (const std::string& model : models) label += (label.empty() ? "" : "|") + model;
    ++real.byModel[label];
    hold(cluster, "more-" + std::to_string(++real.count), decision, {request.cpuMilli, request.podMemory});
  }
}

TEST(Forecast, EqualsWhatCanReallyBePlaced) {
  int64_t fitting = 0, severalModels = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const std::string before = dump(cluster);
    for (int i = 0; i < 12; ++i) {
      const Request request = crowd.request();
      NodePredicate suits;
      if (i % 4 == 0) suits = [](std::string_view node) { return node.back() % 2 == 0; };
      const Forecast got = forecast(cluster, request, suits);
      const Forecast want = reallyPlaced(cluster, request, suits);
      ASSERT_EQ(got.count, want.count) << "seed " << seed << ", request " << i;
      ASSERT_EQ(got.byModel, want.byModel) << "seed " << seed << ", request " << i;
      ASSERT_FALSE(got.more);
      fitting += got.count > 0;
      severalModels += got.byModel.size() > 1;
    }
    ASSERT_EQ(dump(cluster), before);
  }
  EXPECT_GT(fitting, 300);
  EXPECT_GT(severalModels, 50);
}

/// Two nodes of two empty 32 GiB cards.
Cluster small() {
  Cluster cluster;
  for (const std::string node : {"a", "b"}) {
    cluster.upsertNode({node, true, 8000, 0});
    for (int64_t c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  }
  return cluster;
}

TEST(Forecast, CountsSharesByWhatRunsOutFirst) {
  Request request;
  request.perCard = {300, 4 * kGi};
  EXPECT_EQ(forecast(small(), request).count, 4 * 3);
  request.perCard.memory = 20 * kGi;
  EXPECT_EQ(forecast(small(), request).count, 4);
  request.perCard = {100, kGi};
  request.cpuMilli = 3000;
  EXPECT_EQ(forecast(small(), request).count, 2 * 2) << "the nodes' CPU";
  request.maxClaimsPerNode = 1;
  EXPECT_EQ(forecast(small(), request).count, 2);
}

TEST(Forecast, ReportsWhenItStoppedCounting) {
  Request request;
  request.cards = 2;
  request.perCard = {10, kGi / 4};
  const Forecast all = forecast(small(), request);
  EXPECT_EQ(all.count, 200);
  EXPECT_FALSE(all.more);
  const Forecast some = forecast(small(), request, {}, 50);
  EXPECT_EQ(some.count, 50);
  EXPECT_TRUE(some.more);

  request = {};
  request.perCard = {0, 0};
  EXPECT_TRUE(forecast(small(), request, {}, 50).more) << "what charges nothing fits for ever";
}

TEST(Forecast, OfPinnedCards) {
  Request request;
  request.perCard = {300, 4 * kGi};
  request.pinnedCards = {"b1"};
  EXPECT_EQ(forecast(small(), request).count, 3);
  request.pinnedCards.clear();
  request.pinnedNode = "a";
  EXPECT_EQ(forecast(small(), request).count, 6);
}

TEST(Forecast, OfNothing) {
  EXPECT_EQ(forecast(Cluster(), Request{}), Forecast{});
  Request none;
  none.cards = 0;
  EXPECT_EQ(forecast(small(), none), Forecast{});
}

}  // namespace
}  // namespace egpu::scheduler::testing
