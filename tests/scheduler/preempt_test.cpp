// Compares the choice of victims with trying every set of holders.
#include "controller/scheduler/preempt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "controller/scheduler/state/fill.h"
#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

using Cost = std::tuple<int64_t, int64_t, std::string>;  ///< holders, millionths, node

int64_t shareOfHoldings(const Cluster& cluster, const std::vector<Holding>& holdings) {
  int64_t sum = 0;
  for (const Holding& each : holdings) sum += fillOf(each.charged, cluster.findCard(each.card).capacity);
  return sum;
}

/// Returns the cheapest of all sets of holders of one node.
std::optional<Cost> cheapest(const Cluster& cluster, const Request& request, const IsEvictable& isEvictable) {
  std::optional<Cost> best;
  for (const std::string& node : cluster.nodes()) {
    std::vector<std::pair<std::string, std::vector<Holding>>> holders;
    for (auto& [device, holdings] : holdingsOn(cluster, node))
      if (!isEvictable || isEvictable(device)) holders.emplace_back(device, holdings);
    Request here = request;
    here.pinnedNode = node;
    for (std::size_t set = 0; set < std::size_t{1} << holders.size(); ++set) {
      Cluster copy = cluster;
      Cost cost{0, 0, node};
      for (std::size_t i = 0; i < holders.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        release(copy, holders[i].first, holders[i].second);
        std::get<0>(cost) += 1;
        std::get<1>(cost) += shareOfHoldings(cluster, holders[i].second);
      }
      if ((!best || cost < *best) && decide(copy, here).fits) best = cost;
    }
  }
  return best;
}

TEST(Preempt, EqualsTheCheapestOfAllSets) {
  int64_t needed = 0, several = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.nodes = 3;
    shape.cardsPerNode = 3;
    shape.claims = 14;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const std::string before = dump(cluster);
    for (int i = 0; i < 6; ++i) {
      const Request request = crowd.request();
      IsEvictable isEvictable;
      if (i % 3 == 0) isEvictable = [](std::string_view device) { return device.back() % 2 == 0; };
      const Preemption got = preempt(cluster, request, {}, isEvictable);
      const std::optional<Cost> want = cheapest(cluster, request, isEvictable);
      ASSERT_EQ(got.possible, want.has_value()) << "seed " << seed << ", request " << i;
      if (!want) {
        ++impossible;
        continue;
      }
      if (decide(cluster, request).fits) {
        ASSERT_TRUE(got.victims.empty());
        ASSERT_EQ(got.decision, decide(cluster, request));
        continue;
      }
      ++needed;
      several += got.victims.size() > 1;
      Cost cost{static_cast<int64_t>(got.victims.size()), 0, got.node};
      Cluster without = cluster;
      for (const Victim& victim : got.victims) {
        std::get<1>(cost) += shareOfHoldings(cluster, victim.holdings);
        release(without, victim.device, victim.holdings);
      }
      ASSERT_EQ(cost, *want) << "seed " << seed << ", request " << i;
      ASSERT_TRUE(got.exact);
      Request here = request;
      here.pinnedNode = got.node;
      ASSERT_EQ(got.decision, decide(without, here));
    }
    ASSERT_EQ(dump(cluster), before);
  }
  EXPECT_GT(needed, 60);
  EXPECT_GT(several, 15);
  EXPECT_GT(impossible, 20);
}

/// Cost with standings: holders, Σ priorities, −Σ since, millionths, node.
using RankedCost = std::tuple<int64_t, int64_t, int64_t, int64_t, std::string>;

/// Derives the standing from the uid. It has few values, so that ties occur.
EvictionRank standingOf(std::string_view device) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : device) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return {static_cast<int64_t>(hash % 4) * 100 - 100, static_cast<int64_t>(hash / 4 % 3) * 1000};
}

/// Cost of the set of holders with these bits.
RankedCost costOf(const Cluster& cluster, const std::string& node, const Holdings& holdings, std::size_t set) {
  RankedCost cost{0, 0, 0, 0, node};
  std::size_t i = 0;
  for (const auto& [device, of] : holdings) {
    if ((set >> i++ & 1) == 0) continue;
    std::get<0>(cost) += 1;
    std::get<1>(cost) += standingOf(device).priority;
    std::get<2>(cost) -= standingOf(device).since;
    std::get<3>(cost) += shareOfHoldings(cluster, of);
  }
  return cost;
}

/// Returns the cost of the first set of holders of one node, all of lower priority, in cost order.
std::optional<RankedCost> firstOfAll(const Cluster& cluster, const Request& request, int64_t priority) {
  std::optional<RankedCost> best;
  for (const std::string& node : cluster.nodes()) {
    Holdings holdings = holdingsOn(cluster, node);
    std::erase_if(holdings, [&](const auto& each) { return standingOf(each.first).priority >= priority; });
    Request here = request;
    here.pinnedNode = node;
    for (std::size_t set = 0; set < std::size_t{1} << holdings.size(); ++set) {
      const RankedCost cost = costOf(cluster, node, holdings, set);
      if (best && *best <= cost) continue;
      Cluster copy = cluster;
      std::size_t i = 0;
      for (const auto& [device, of] : holdings)
        if (set >> i++ & 1) release(copy, device, of);
      if (decide(copy, here).fits) best = cost;
    }
  }
  return best;
}

TEST(Preempt, FewestThenLowestThenYoungestAndNeverOneOfItsPriority) {
  int64_t needed = 0, several = 0, spared = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CrowdShape shape;
    shape.nodes = 3;
    shape.cardsPerNode = 2;
    shape.claims = 14;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    for (int i = 0; i < 6; ++i) {
      const Request request = crowd.request();
      const int64_t priority = i % 4 * 100 - 50;
      const auto lower = [&](std::string_view device) { return standingOf(device).priority < priority; };
      const Preemption got = preempt(cluster, request, {}, lower, kMaxPreemptions, {}, {}, standingOf);
      const auto want = firstOfAll(cluster, request, priority);
      ASSERT_EQ(got.possible, want.has_value()) << "seed " << seed << ", request " << i;
      if (!want) {
        spared += preempt(cluster, request).possible;
        continue;
      }
      if (decide(cluster, request).fits) {
        ASSERT_TRUE(got.victims.empty()) << "never one for nothing";
        continue;
      }
      ++needed;
      several += got.victims.size() > 1;
      RankedCost cost{static_cast<int64_t>(got.victims.size()), 0, 0, 0, got.node};
      for (const Victim& victim : got.victims) {
        ASSERT_LT(standingOf(victim.device).priority, priority);
        std::get<1>(cost) += standingOf(victim.device).priority;
        std::get<2>(cost) -= standingOf(victim.device).since;
        std::get<3>(cost) += shareOfHoldings(cluster, victim.holdings);
      }
      ASSERT_EQ(cost, *want) << "seed " << seed << ", request " << i;
    }
  }
  EXPECT_GT(needed, 30);
  EXPECT_GT(several, 5);
  EXPECT_GT(spared, 10);
}

TEST(Preempt, TheExampleOfTheHeader) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(makeCard("c0", "n", 0));
  cluster.upsertCard(makeCard("c1", "n", 1));
  cluster.take("c0", "a", {500, 0});
  cluster.take("c0", "b", {400, 0});
  cluster.take("c1", "c", {900, 0});
  Request request;
  request.perCard = {700, 0};
  const Preemption p = preempt(cluster, request);
  ASSERT_TRUE(p.possible);
  ASSERT_EQ(p.victims.size(), 1u);
  EXPECT_EQ(p.victims[0].device, "c");
  EXPECT_EQ(p.decision.placements.at(0).card, "c1");
}

/// Standings of holders are known before any node is tried, so that one node suffices if the first is as good as any.
TEST(Preempt, NotEachOfManyPlacesIsTried) {
  Cluster cluster;
  for (int n = 0; n < 50; ++n) {
    const auto node = "n" + std::to_string(100 + n);
    cluster.upsertNode({node, true});
    for (int c = 0; c < 4; ++c) {
      const auto card = node + "-" + std::to_string(c);
      cluster.upsertCard(makeCard(card, node, c));
      cluster.take(card, "of-" + card, {1000, 32 * kGi});
    }
  }
  const EvictionRankOf standing = [](std::string_view device) {
    return EvictionRank{device == "of-n131-2" ? 1 : device == "of-n140-0" ? 2 : 5, 0};
  };
  for (const int64_t cards : {1, 4}) {
    int tried = 0;
    const auto found = preempt(
        cluster, whole(cards), {}, {}, kMaxPreemptions, [&tried] { ++tried; }, {}, standing);
    ASSERT_TRUE(found.possible && found.exact);
    EXPECT_EQ(found.node, "n131");
    EXPECT_EQ(found.victims.size(), static_cast<std::size_t>(cards));
    EXPECT_LE(tried, 4) << "of " << cards << " cards";
  }
}

TEST(Preempt, ManySmallHoldersAreNotTriedInEverySet) {
  Cluster cluster;
  for (const std::string node : {"a", "b"}) {
    cluster.upsertNode({node, true});
    cluster.upsertCard(makeCard(node + "0", node, 0));
    for (int i = 0; i < 100; ++i) cluster.take(node + "0", node + std::to_string(i), {10, kGi / 4});
  }
  Request request;
  request.perCard = {500, kGi};
  const Preemption p = preempt(cluster, request);
  ASSERT_TRUE(p.possible);
  EXPECT_EQ(p.node, "a");
  EXPECT_EQ(p.victims.size(), 50u);
  EXPECT_TRUE(p.exact) << "all are alike, so the lower bound is reached";

  // A large holder beside many small ones is chosen although not every set was tried.
  cluster.giveBack("b0", "b1");
  for (int i = 10; i < 60; ++i) cluster.giveBack("b0", "b" + std::to_string(i));
  cluster.take("b0", "big", {510, kGi});
  const Preemption big = preempt(cluster, request, {}, {}, 20);
  ASSERT_EQ(big.victims.size(), 1u);
  EXPECT_EQ(big.victims[0].device, "big");
}

TEST(Preempt, ThatNobodyWillDoIsExactOnlyIfEverySetWasTried) {
  const auto nobody = [](int holders, int64_t limit) {
    Cluster cluster;
    cluster.upsertNode({"n", true});
    cluster.upsertCard(makeCard("c0", "n", 0));
    for (int i = 0; i < holders; ++i) cluster.take("c0", "h" + std::to_string(i), {1000 / holders, 0});
    Request request;
    request.perCard = {500, 0};
    const AcceptVictims never = [](Cluster&, const Decision&, const std::vector<Victim>&) { return false; };
    const Preemption p = preempt(cluster, request, {}, {}, limit, {}, never);
    EXPECT_FALSE(p.possible);
    return p.exact;
  };
  EXPECT_FALSE(nobody(100, 20)) << "one set of 50 was tried";
  EXPECT_TRUE(nobody(4, 100));
}

TEST(Preempt, NobodyMayGo) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  cluster.upsertCard(makeCard("c0", "n", 0));
  cluster.take("c0", "a", {500, 0});
  Request request;
  request.perCard = {700, 0};
  EXPECT_FALSE(preempt(cluster, request, {}, [](std::string_view) { return false; }).possible);
  EXPECT_FALSE(preempt(cluster, request, [](std::string_view) { return false; }).possible) << "no node suits";
  request.models = {"none"};
  EXPECT_FALSE(preempt(cluster, request).possible);
}

/// A search limited to some nodes, on the cluster itself, gives the same result and leaves the cluster unchanged.
TEST(Preempt, AmongSomeNodesIsAsIfNoOtherSuited) {
  int needed = 0, asItIs = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.nodes = 4;
    shape.claims = 16;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    Cluster& cluster = crowd.situation.cluster;
    const std::string before = dump(cluster);
    const std::vector<std::string> some{"node-1", "node-3", "none"};
    const NodePredicate suits = [&some](std::string_view node) {
      return std::find(some.begin(), some.end(), node) != some.end();
    };
    for (int i = 0; i < 6; ++i) {
      const Request request = crowd.request();
      IsEvictable isEvictable;
      if (i % 3 == 0) isEvictable = [](std::string_view device) { return device.back() % 2 == 0; };
      int64_t left = kMaxPreemptions;
      const Preemption got = preemptIn(cluster, request, {&some, {}}, {}, isEvictable, left, {}, {});
      ASSERT_EQ(got, preempt(cluster, request, suits, isEvictable)) << "seed " << seed << ", request " << i;
      ASSERT_EQ(dump(cluster), before);
      ASSERT_LT(left, kMaxPreemptions);
      ++(!got.possible ? impossible : got.victims.empty() ? asItIs : needed);
    }
  }
  EXPECT_GT(needed, 60);
  EXPECT_GT(asItIs, 60);
  EXPECT_GT(impossible, 10);
}

TEST(Preempt, EndsWhenItIsEnough) {
  Cluster cluster;
  for (const std::string node : {"a", "b"}) {
    cluster.upsertNode({node, true});
    cluster.upsertCard(makeCard(node + "0", node, 0));
    for (int i = 0; i < 2; ++i) cluster.take(node + "0", node + std::to_string(i), {500, kGi});
  }
  Request request;
  request.wholeCards = true;
  int left = 0;
  const auto found = [&](int asked) {
    left = asked;
    return preempt(cluster, request, {}, {}, kMaxPreemptions, {}, {}, {}, [&left] { return --left < 0; });
  };
  EXPECT_FALSE(found(0).possible);
  EXPECT_FALSE(found(0).exact);
  EXPECT_TRUE(found(100).exact);
  int some = 0;
  while (!found(some).possible) ASSERT_LT(++some, 100);
  EXPECT_FALSE(found(some).exact) << "the other node was not tried";
}

}  // namespace
}  // namespace egpu::scheduler::testing
