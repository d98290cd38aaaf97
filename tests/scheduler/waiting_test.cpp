// The order of pending requests, and the reservations of nodes for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/scheduler/queue_order.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

Request share(int64_t core) {
  Request request;
  request.perCard = {core, 0};
  return request;
}

struct WaitingWorld {
  Cluster cluster;
  std::map<std::string, int64_t, std::less<>> since;

  explicit WaitingWorld(int nodes, int64_t cards = 2) {
    for (int n = 0; n < nodes; ++n) {
      const std::string node = "n" + std::to_string(n);
      cluster.upsertNode({node, true, 8000, 0});
      for (int64_t c = 0; c < cards; ++c) cluster.upsertCard(makeCard(node + "c" + std::to_string(c), node, c));
    }
  }
  void take(const std::string& card, const std::string& device, int64_t core, int64_t at, int64_t cpu = 0) {
    cluster.take(card, device, {core, 0}, {cpu, 0});
    since[device] = at;
  }
  std::vector<ReservedNode> reserve(const std::vector<PendingRequest>& waiting, int64_t now,
                                    const std::vector<ReservedNode>& before = {},
                                    const ReservationLimits& limits = {}) const {
    return reserveNodes(
        cluster, waiting, now, [this](std::string_view device) { return since.find(device)->second; }, before, limits);
  }
};

TEST(Waiting, PriorityThenAgeThenName) {
  std::vector<PendingRequest> all = {{"d", 0, 5}, {"c", 0, 3}, {"b", 0, 3}, {"a", -1, 0}, {"e", 9, 8}};
  std::sort(all.begin(), all.end(), queueLess);
  std::string order;
  for (const PendingRequest& each : all) order += each.name;
  EXPECT_EQ(order, "ebcda");
}

TEST(Waiting, ANodeIsReservedOnceOneHasWaitedForLong) {
  WaitingWorld world(2);
  world.take("n0c0", "old", 500, 0);
  world.take("n1c0", "young", 500, 900);
  world.take("n1c1", "younger", 500, 950);
  const Request pair = whole(2), one = whole(1);
  EXPECT_TRUE(world.reserve({{"x", 0, 500, &pair}}, 1099).empty()) << "599 seconds";
  // n0 lacks one card, held for 1100; n1 lacks both, held for 200 and 150: they are expected to be free first.
  EXPECT_EQ(world.reserve({{"x", 0, 500, &pair}}, 1100), (std::vector<ReservedNode>{{"x", "n1"}}));
  EXPECT_TRUE(world.reserve({{"x", 0, 500, &one}}, 1100).empty()) << "it fits, on n0";
  const Request triple = whole(3);
  EXPECT_TRUE(world.reserve({{"x", 0, 500, &triple}}, 1100).empty()) << "no node could ever hold it";
}

TEST(Waiting, ForAnotherIsolationModeAllClaimsOfACardMustEnd) {
  WaitingWorld world(2, 1);
  world.take("n0c0", "young", 300, 900);
  world.take("n0c0", "old", 300, 0);
  world.take("n1c0", "middle", 900, 600);
  Request limited = share(300);
  limited.isolation = "limiter";
  EXPECT_EQ(world.reserve({{"x", 0, 0, &limited}}, 1000), (std::vector<ReservedNode>{{"x", "n1"}}))
      << "400 against 1000";
}

TEST(Waiting, AReservationStaysUntilAnotherNodeIsExpectedInHalfTheTime) {
  WaitingWorld world(2);
  for (const std::string node : {"n0", "n1"})
    for (const std::string card : {"c0", "c1"}) world.take(node + card, node + card, 1000, node == "n0" ? 0 : 400);
  const Request pair = whole(2);
  const std::vector<ReservedNode> before = {{"x", "n0"}};
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000), (std::vector<ReservedNode>{{"x", "n1"}})) << "600 against 1000";
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000, before), before) << "600 against half of 1000";
  world.since["n1c0"] = world.since["n1c1"] = 501;
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000, before), (std::vector<ReservedNode>{{"x", "n1", 1}}))
      << "499 against 500";
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000, {{"x", "n0", 7}}), (std::vector<ReservedNode>{{"x", "n1", 8}}));
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000, {{"x", "n0", 8}}), (std::vector<ReservedNode>{{"x", "n0", 8}}))
      << "499 against a quarter of 1000";
  world.since["n1c0"] = world.since["n1c1"] = 751;
  EXPECT_EQ(world.reserve({{"x", 0, 0, &pair}}, 1000, {{"x", "n0", 8}}), (std::vector<ReservedNode>{{"x", "n1", 9}}))
      << "249 against 250";
}

/// Small claims come and go: the next node of the search has just received one, which is expected to end soon.
TEST(Waiting, WhoWaitsIsServedHoweverManyComeAndGo) {
  WaitingWorld world(4);
  std::vector<std::pair<std::string, std::string>> holders;  // the oldest first: card, device
  int next = 0;
  std::vector<ReservedNode> reserved;
  const auto comes = [&](int64_t now) {
    const auto decision = decide(world.cluster, whole(1), [&](std::string_view node) {
      return std::none_of(reserved.begin(), reserved.end(),
                          [&](const ReservedNode& each) { return each.node == node; });
    });
    if (!decision.fits) return;
    holders.emplace_back(decision.placements.front().card, std::to_string(next++));
    world.take(holders.back().first, holders.back().second, 1000, now);
  };
  for (int i = 0; i < 8; ++i) comes(i * 20);
  const Request pair = whole(2);
  int64_t now = 1000;
  for (; now < 3000 && !decide(world.cluster, pair).fits; now += 20) {
    reserved = world.reserve({{"x", 0, 0, &pair}}, now, reserved);
    world.cluster.giveBack(holders.front().first, holders.front().second);
    holders.erase(holders.begin());
    comes(now);
  }
  EXPECT_LT(now, 3000);
}

TEST(Waiting, ReservationsAreBounded) {
  WaitingWorld world(100, 1);
  for (int n = 0; n < 100; ++n) world.take("n" + std::to_string(n) + "c0", std::to_string(n), 1000, 0);
  const Request one = whole(1);
  std::vector<PendingRequest> waiting;
  for (int i = 0; i < 30; ++i) waiting.push_back({"w" + std::to_string(i), 0, i, &one});
  const std::vector<ReservedNode> reserved = world.reserve(waiting, 10'000);
  ASSERT_EQ(reserved.size(), 2u) << "one of 50 nodes";
  EXPECT_EQ(reserved[0].name, "w0");
  EXPECT_EQ(reserved[1].name, "w1");
  EXPECT_NE(reserved[0].node, reserved[1].node);
  EXPECT_EQ(world.reserve(waiting, 10'000, {}, {600, 16, 5}).size(), 16u);
  EXPECT_EQ(WaitingWorld(3).reserve({}, 10'000).size(), 0u);
}

TEST(Waiting, SharesCountByWhatTheyLack) {
  WaitingWorld world(2, 1);
  // n0: 700 for 1000 s and 300 for 10 s; n1: 1000 for 500 s. A share of 300 fits n0 as soon as the young one goes.
  world.take("n0c0", "a", 700, 0);
  world.take("n0c0", "b", 300, 990);
  world.take("n1c0", "c", 1000, 500);
  const Request little = share(300), much = share(400);
  EXPECT_EQ(world.reserve({{"x", 0, 0, &little}}, 1000), (std::vector<ReservedNode>{{"x", "n0"}}));
  EXPECT_EQ(world.reserve({{"x", 0, 0, &much}}, 1000), (std::vector<ReservedNode>{{"x", "n1"}}));
}

TEST(Waiting, CpuIsWaitedForToo) {
  WaitingWorld world(3, 1);
  world.take("n0c0", "a", 100, 900, 2000);
  world.cluster.takeOfNode("n0", "pod", {6000, 0});
  world.take("n1c0", "b", 100, 500, 8000);
  world.take("n2c0", "c", 100, 400, 8000);
  Request request = share(100);
  request.cpuMilli = 3000;
  EXPECT_EQ(world.reserve({{"x", 0, 0, &request}}, 1000), (std::vector<ReservedNode>{{"x", "n1"}}))
      << "of n0 the pod without cards would have to go, of which nothing is known";
  request.cpuMilli = 9000;
  EXPECT_TRUE(world.reserve({{"x", 0, 0, &request}}, 1000).empty());
}

TEST(Waiting, OnlyNodesThatSuitAndAreOffered) {
  WaitingWorld world(2, 1);
  world.take("n0c0", "a", 1000, 900);
  world.take("n1c0", "b", 1000, 0);
  const Request one = whole(1);
  EXPECT_EQ(world.reserve({{"x", 0, 0, &one, [](std::string_view node) { return node == "n1"; }}}, 1000),
            (std::vector<ReservedNode>{{"x", "n1"}}));
  world.cluster.upsertNode({"n0", false});
  EXPECT_EQ(world.reserve({{"x", 0, 0, &one}}, 1000), (std::vector<ReservedNode>{{"x", "n1"}}));
}

}  // namespace
}  // namespace egpu::scheduler::testing
