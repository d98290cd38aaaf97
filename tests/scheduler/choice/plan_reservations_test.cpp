// Reservations of nodes for requests that need capacity at the same time: the header's example, and random gangs, which
// the reserved nodes hold once they are empty.
#include "controller/scheduler/choice/plan_reservations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

using Nodes = std::vector<std::string>;

Request share(int64_t core) {
  Request request;
  request.perCard = {core, 0};
  return request;
}

struct HeldCards {
  Cluster cluster;
  QuotaBook book;
  std::map<std::string, int64_t, std::less<>> since;
  int64_t now = 1000;
  std::set<std::string, std::less<>> lasting;  ///< devices whose holders are not expected to end soon

  void node(const std::string& name, int64_t cards = 2) {
    cluster.upsertNode({name, true});
    for (int64_t c = 0; c < cards; ++c) cluster.upsertCard(makeCard(name + "c" + std::to_string(c), name, c));
  }
  /// Allocates the card to a device that has held it for `seconds`.
  void hold(const std::string& card, int64_t seconds, int64_t core = 1000) {
    cluster.take(card, "of-" + card, {core, 0});
    since["of-" + card] = now - seconds;
  }
  std::vector<MemberReservation> plan(const std::vector<GangMember>& members, const CurrentReservations& before = {},
                                      std::size_t max = 100, const std::vector<TopologyGroup>* within = nullptr) const {
    return planReservations(
        cluster, members, within, book, now, [this](std::string_view device) { return since.find(device)->second; },
        before, max,
        lasting.empty() ? HolderLasts() : [this](std::string_view device) { return lasting.contains(device); });
  }
  Nodes nodes(const std::vector<GangMember>& members, const CurrentReservations& before = {}, std::size_t max = 100,
              const std::vector<TopologyGroup>* within = nullptr) const {
    Nodes nodes;
    for (const auto& each : plan(members, before, max, within)) nodes.push_back(each.node);
    return nodes;
  }
};

std::vector<GangMember> same(std::size_t members, const Request& request) {
  return std::vector<GangMember>(members, GangMember{request});
}

HeldCards example() {
  HeldCards held;
  for (const auto* name : {"n0", "n1", "n2", "n3"}) held.node(name);
  held.hold("n1c0", 100);
  held.hold("n1c1", 200);
  held.hold("n2c0", 50);
  held.hold("n2c1", 400);
  held.hold("n3c0", 300);
  held.hold("n3c1", 300);
  return held;
}

TEST(PlanReservations, TheHeadersExample) {
  const auto held = example();
  const auto gang = same(3, whole(2));
  EXPECT_EQ(held.nodes(gang), (Nodes{"n0", "n1", "n3"}));
  EXPECT_EQ(held.nodes(gang, {{"n1", "n2"}}), (Nodes{"n0", "n1", "n2"}));
  EXPECT_EQ(held.nodes(gang, {{"n0", "n2"}}), (Nodes{"n0", "n2", "n1"})) << "half of 400 against 300";
  EXPECT_EQ(held.nodes(gang, {}, 2), Nodes());
  EXPECT_EQ(held.nodes(same(5, whole(2))), Nodes()) << "there are four";
  EXPECT_EQ(held.nodes(same(1, whole(3))), Nodes()) << "no node has three";
}

TEST(PlanReservations, WhatHasMovedBeforeMovesForFarSoonerOnesAlone) {
  HeldCards held;
  for (const auto* name : {"n0", "n1", "n2"}) held.node(name, 1);
  held.hold("n0c0", 800);
  held.hold("n1c0", 150);
  held.hold("n2c0", 800);
  const std::vector<TopologyGroup> racks = {{"a", {"n0", "n2"}}, {"b", {"n1"}}};
  for (const auto* within : {static_cast<const std::vector<TopologyGroup>*>(nullptr), &racks}) {
    EXPECT_EQ(held.nodes(same(1, whole(1)), {{"n0"}, 8}, 100, within), Nodes{"n1"}) << "150 against a quarter of 800";
    EXPECT_EQ(held.nodes(same(1, whole(1)), {{"n0"}, 16}, 100, within), Nodes{"n0"}) << "150 against an eighth";
  }
}

TEST(PlanReservations, HoldersThatLastStayWhereTheyAre) {
  auto held = example();
  const auto gang = same(3, whole(2));
  held.lasting = {"of-n3c0"};
  EXPECT_EQ(held.nodes(gang), (Nodes{"n0", "n1", "n2"}));
  held.lasting.insert("of-n2c1");
  EXPECT_EQ(held.nodes(gang), Nodes());
  EXPECT_EQ(held.nodes(same(3, whole(1))), (Nodes{"n0", "n2"})) << "n2's other card is expected soonest";
  EXPECT_EQ(held.nodes(same(1, whole(2)), {{"n2"}, 0}), Nodes{"n0"}) << "what was kept is no reason";
}

TEST(PlanReservations, TheSoonestWithoutHoldersThatLastIsFirst) {
  HeldCards held;
  held.node("n0");
  held.node("n1", 1);
  held.hold("n0c0", 10);
  held.hold("n0c1", 500);
  held.hold("n1c0", 100);
  EXPECT_EQ(held.nodes(same(1, whole(1))), Nodes{"n0"});
  held.lasting = {"of-n0c0"};
  EXPECT_EQ(held.nodes(same(1, whole(1))), Nodes{"n1"}) << "100 against 500";
}

TEST(PlanReservations, MembersShareNodesAndTheFirstOfEachIsNamed) {
  const auto held = example();
  EXPECT_EQ(held.plan(same(4, whole(1))), (std::vector<MemberReservation>{{0, "n0"}, {2, "n2"}}))
      << "n2 has one free in 50 seconds, n1 in 100; what else is on it is taken to go, too";
  auto mixed = same(2, whole(2));
  mixed.push_back({share(500)});
  EXPECT_EQ(held.plan(mixed), (std::vector<MemberReservation>{{0, "n0"}, {1, "n1"}, {2, "n2"}}));
}

TEST(PlanReservations, OnePodsClaimsGoToOneNode) {
  const auto held = example();
  std::vector<GangMember> pod = same(2, whole(1));
  pod[1].with = 0;
  pod.push_back({whole(2)});
  EXPECT_EQ(held.plan(pod), (std::vector<MemberReservation>{{0, "n0"}, {2, "n1"}}));
  pod.push_back({whole(1)});
  pod.back().with = 2;
  EXPECT_EQ(held.nodes(pod), Nodes()) << "three cards on one node";
}

TEST(PlanReservations, OnlyWhereItsPodsMayGoAndHaveCapacity) {
  const auto held = example();
  auto gang = same(2, whole(2));
  gang[0].suits = [](std::string_view node) { return node == "n3"; };
  EXPECT_EQ(held.plan(gang), (std::vector<MemberReservation>{{0, "n3"}, {1, "n0"}}));
  auto alone = same(2, whole(1));
  for (auto& each : alone) {
    each.kind = 0;
    each.hasCapacity = [](std::string_view, std::span<const std::size_t> placed) { return placed.empty(); };
  }
  EXPECT_EQ(held.nodes(alone), (Nodes{"n0", "n2"})) << "one pod on a node";
  auto pinned = same(1, whole(2));
  pinned[0].request.pinnedNode = "n2";
  EXPECT_EQ(held.nodes(pinned), Nodes{"n2"});
}

TEST(PlanReservations, TheGroupWhoseLastNodeIsExpectedFirst) {
  const auto held = example();
  const std::vector<TopologyGroup> racks = {{"a", {"n0", "n2"}}, {"b", {"n1", "n3"}}, {"c", {"gone"}}};
  const auto gang = same(2, whole(2));
  EXPECT_EQ(held.nodes(gang, {}, 100, &racks), (Nodes{"n1", "n3"})) << "300 against 400";
  EXPECT_EQ(held.nodes(gang, {{"n0", "n2"}}, 100, &racks), (Nodes{"n0", "n2"})) << "300 against half of 400";
  EXPECT_EQ(held.nodes(same(3, whole(2)), {}, 100, &racks), Nodes());
  const std::vector<TopologyGroup> none;
  EXPECT_EQ(held.nodes(gang, {}, 100, &none), Nodes());
}

TEST(PlanReservations, NothingForMoreUnlikePodsThanEight) {
  HeldCards held;
  for (int n = 0; n < 10; ++n) held.node("n" + std::to_string(n));
  std::vector<GangMember> gang;
  for (int i = 0; i < 8; ++i) gang.push_back({share(100 + i)});
  EXPECT_EQ(held.nodes(gang).size(), 1u);
  gang.push_back({share(200)});
  EXPECT_TRUE(held.nodes(gang).empty());
}

HeldCards randomHeld(Random& random) {
  HeldCards held;
  const auto nodes = pick(random, 1, 8);
  for (int64_t n = 0; n < nodes; ++n) {
    const auto name = "n" + std::to_string(n);
    held.node(name, pick(random, 1, 4));
    for (const auto& card : held.cluster.cardsOf(name))
      if (pick(random, 0, 3) > 0) held.hold(card, pick(random, 0, 900), pick(random, 1, 10) * 100);
  }
  return held;
}

/// For equal requests for whole cards, or for a share of one, the order does not matter.
TEST(PlanReservationsProperty, OnceEmptyTheNodesHoldAllAndWhereNoneDoNoneAreReserved) {
  int found = 0, none = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto held = randomHeld(random);
    const auto request = pick(random, 0, 1) == 0 ? whole(pick(random, 1, 4)) : share(pick(random, 1, 10) * 100);
    const auto gang = same(static_cast<std::size_t>(pick(random, 1, 8)), request);
    const auto nodes = held.nodes(gang);
    EXPECT_TRUE(nodes.empty() || held.nodes(gang, {}, nodes.size() - 1).empty());
    for (const auto& node : nodes.empty() ? held.cluster.nodes() : nodes)
      for (const auto& card : held.cluster.cardsOf(node)) held.cluster.giveBack(card, "of-" + card);
    const auto holds = [&](const Nodes& among) {
      auto members = gang;
      for (auto& each : members)
        each.suits = [&](std::string_view node) { return std::find(among.begin(), among.end(), node) != among.end(); };
      return !decideGang(held.cluster, members).decisions.empty();
    };
    if (nodes.empty()) {
      ++none;
      EXPECT_FALSE(holds(held.cluster.nodes())) << "all nodes empty would do";
      continue;
    }
    ++found;
    EXPECT_TRUE(holds(nodes));
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 50);
}

TEST(PlanReservationsProperty, OnceAllHaveLeftButThoseThatLastTheNodesHoldAllAndWhereNoneDoNoneAreReserved) {
  int found = 0, none = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto held = randomHeld(random);
    for (const auto& [device, since] : held.since)
      if (pick(random, 0, 3) == 0) held.lasting.insert(device);
    const auto request = pick(random, 0, 1) == 0 ? whole(pick(random, 1, 3)) : share(pick(random, 1, 10) * 100);
    const auto gang = same(static_cast<std::size_t>(pick(random, 1, 4)), request);
    const auto nodes = held.nodes(gang);
    for (const auto& node : nodes.empty() ? held.cluster.nodes() : nodes)
      for (const auto& card : held.cluster.cardsOf(node))
        if (!held.lasting.contains("of-" + card)) held.cluster.giveBack(card, "of-" + card);
    auto members = gang;
    for (auto& each : members)
      each.suits = [&](std::string_view node) {
        return nodes.empty() || std::find(nodes.begin(), nodes.end(), node) != nodes.end();
      };
    (nodes.empty() ? none : found)++;
    EXPECT_EQ(decideGang(held.cluster, members).decisions.empty(), nodes.empty());
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 50);
}

}  // namespace
}  // namespace egpu::scheduler::testing
