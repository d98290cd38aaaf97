// Compares plans with trying every sequence of moves, to every card, on small clusters.
#include "controller/scheduler/moves.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <optional>

#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

NodeAmount ofNode(const std::vector<Holding>& holdings) {
  NodeAmount sum;
  for (const Holding& each : holdings) {
    sum.cpuMilli += each.ofNode.cpuMilli;
    sum.memory += each.ofNode.memory;
  }
  return sum;
}

Movers moversOf(const Situation& situation, int64_t oneIn = 1) {
  Movers movers;
  int64_t i = 0;
  for (const ClaimRecord& claim : situation.claims)
    if (!claim.device.empty() && i++ % oneIn == 0) movers[claim.device] = {*claim.request, {}};
  return movers;
}

int64_t emptyCards(const Cluster& cluster) {
  int64_t count = 0;
  for (const std::string& node : cluster.nodes())
    for (const std::string& name : cluster.cardsOf(node)) {
      const CardView card = cluster.findCard(name);
      count += card.healthy && card.claims == 0 ? 1 : 0;
    }
  return count;
}

/// Calls f(cluster) after every single move: of each claim to each card, or, with several cards, to each node.
template <class F>
void eachMove(const Cluster& cluster, const Movers& movers, F f) {
  const Holdings holdings = holdingsOf(cluster);
  for (const auto& [device, mover] : movers) {
    Cluster without = cluster;
    const std::vector<Holding>& from = holdings.at(device);
    release(without, device, from);
    for (const std::string& node : cluster.nodes()) {
      std::vector<std::vector<std::string>> places = {{}};
      if (mover.request.cards == 1) {
        places.clear();
        for (const std::string& card : cluster.cardsOf(node)) places.push_back({card});
      }
      for (const auto& place : places) {
        Request request = mover.request;
        request.pinnedNode = node;
        request.pinnedCards = place;
        const NodeAmount pod = ofNode(from);
        request.cpuMilli = pod.cpuMilli;
        request.podMemory = pod.memory;
        const Decision to = decide(without, request);
        if (!to.fits) continue;
        Cluster after = without;
        hold(after, device, to, pod);
        f(after);
      }
    }
  }
}

/// Returns true if `moves` moves, in any order, let the request fit.
bool fitsAfter(const Cluster& cluster, const Request& request, const Movers& movers, std::size_t moves) {
  if (decide(cluster, request).fits) return true;
  if (moves == 0) return false;
  bool fits = false;
  eachMove(cluster, movers, [&](const Cluster& after) { fits = fits || fitsAfter(after, request, movers, moves - 1); });
  return fits;
}

int64_t maxEmpty(const Cluster& cluster, const Movers& movers, std::size_t moves) {
  int64_t max = emptyCards(cluster);
  if (moves == 0) return max;
  eachMove(cluster, movers, [&](const Cluster& after) { max = std::max(max, maxEmpty(after, movers, moves - 1)); });
  return max;
}

/// Carries out the moves in order: each must find its capacity at its turn.
void carryOut(Cluster& cluster, const MovePlan& plan, const Movers& movers) {
  for (const Move& move : plan.moves) {
    const auto mover = movers.find(move.device);
    ASSERT_NE(mover, movers.end()) << move.device;
    ASSERT_EQ(holdingsOf(cluster).at(move.device), move.from) << "moved twice";
    const Request& request = mover->second.request;
    release(cluster, move.device, move.from);
    for (const Placement& each : move.to.placements) {
      const CardView card = cluster.findCard(each.card);
      ASSERT_EQ(card.node, move.to.node);
      ASSERT_GE(card.capacity.core - card.used.core, each.charged.core);
      ASSERT_GE(card.capacity.memory - card.used.memory, each.charged.memory);
      ASSERT_TRUE(!request.wholeCards || card.claims == 0);
      ASSERT_TRUE(request.maxClaimsPerCard <= 0 || card.claims < request.maxClaimsPerCard) << move.device;
      ASSERT_TRUE(request.wholeCards || card.claims == 0 || card.isolation == each.isolation) << move.device;
    }
    const auto beside = static_cast<int64_t>(holdingsOn(cluster, move.to.node).size());
    ASSERT_TRUE(request.maxClaimsPerNode <= 0 || beside < request.maxClaimsPerNode) << move.device;
    hold(cluster, move.device, move.to, ofNode(move.from));
  }
}

/// Every third crowd has isolation modes.
CrowdShape small(uint64_t seed) {
  CrowdShape shape;
  shape.nodes = 3;
  shape.cardsPerNode = 2;
  shape.claims = 9;
  shape.limits = false;
  shape.everyPolicy = false;
  shape.modes = seed % 3 == 0;
  return shape;
}

TEST(Moves, LetInWithNearlyTheFewest) {
  int64_t plans = 0, several = 0, more = 0, missed = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Crowd crowd(seed, small(seed));
    const Cluster& cluster = crowd.situation.cluster;
    const Movers movers = moversOf(crowd.situation, 1 + static_cast<int64_t>(seed % 2));
    const std::string before = dump(cluster);
    for (int i = 0; i < 4; ++i) {
      const Request request = crowd.request();
      if (decide(cluster, request).fits) continue;
      const MovePlan plan = movesToLetIn(cluster, request, {}, movers);
      ASSERT_EQ(dump(cluster), before);
      if (!plan.possible) {
        ASSERT_TRUE(plan.moves.empty());
        ++(fitsAfter(cluster, request, movers, 2) ? missed : impossible);
        continue;
      }
      ++plans;
      several += plan.moves.size() > 1 ? 1 : 0;
      ASSERT_FALSE(plan.moves.empty());
      Cluster after = cluster;
      carryOut(after, plan, movers);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", request " << i;
      Request here = request;
      here.pinnedNode = plan.decision.node;
      ASSERT_TRUE(decide(after, here).fits) << "seed " << seed << ", request " << i;
      if (plan.moves.size() <= 3 && fitsAfter(cluster, request, movers, plan.moves.size() - 1)) ++more;
    }
  }
  std::printf("let in: %ld plans, %ld of several moves; %ld with more moves than needed, %ld missed, %ld impossible\n",
              long(plans), long(several), long(more), long(missed), long(impossible));
  EXPECT_GT(plans, 30);
  EXPECT_GT(several, 3);
  EXPECT_GT(impossible, 30);
  EXPECT_LE(more * 20, plans) << "at most one in 20 takes more moves than the fewest";
  EXPECT_LE(missed * 5, plans) << "few need others to make room first";
}

TEST(Moves, FreeNearlyTheMaximumOfCards) {
  int64_t best = 0, freed = 0, less = 0, some = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape = small(seed);
    shape.claims = 7;
    shape.severalCards = false;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const Movers movers = moversOf(crowd.situation);
    const MovePlan plan = movesToFreeCards(cluster, movers, 2);
    ASSERT_LE(plan.moves.size(), 2u);
    Cluster after = cluster;
    carryOut(after, plan, movers);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ASSERT_EQ(emptyCards(after) - emptyCards(cluster), plan.freedCards);
    ASSERT_EQ(plan.possible, plan.freedCards > 0);
    const int64_t max = maxEmpty(cluster, movers, 2) - emptyCards(cluster);
    ASSERT_LE(plan.freedCards, max);
    best += max;
    freed += plan.freedCards;
    less += plan.freedCards < max ? 1 : 0;
    some += plan.possible ? 1 : 0;
  }
  std::printf("free: %ld cards of at most %ld by two moves; %ld of 60 clusters with less than the most\n", long(freed),
              long(best), long(less));
  EXPECT_GT(some, 5);
  EXPECT_GE(freed * 2, best) << "half of the most at least";
}

TEST(Moves, CardsAreFreedInAnOrderInWhichEachFindsItsCapacity) {
  int64_t several = 0, cards = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CrowdShape shape = small(seed);
    shape.nodes = 4;
    shape.claims = 12;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const Movers movers = moversOf(crowd.situation);
    const MovePlan plan = movesToFreeCards(cluster, movers, 100);
    Cluster after = cluster;
    carryOut(after, plan, movers);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ASSERT_EQ(emptyCards(after) - emptyCards(cluster), plan.freedCards);
    several += plan.moves.size() > 1 ? 1 : 0;
    for (const Move& each : plan.moves) cards += each.from.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 20);
  EXPECT_GT(cards, 10) << "of claims that have several cards";
}

TEST(Moves, EachFindsItsCapacityWhereClassesLimitHowManyThereAre) {
  int64_t limited = 0, limitedRequests = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    CrowdShape shape = small(seed);
    shape.nodes = 2;
    shape.cardsPerNode = 3;
    shape.claims = 14;
    shape.limits = true;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const Movers movers = moversOf(crowd.situation);
    Request request = crowd.request();
    for (const MovePlan& plan : {movesToFreeCards(cluster, movers, 100), movesToLetIn(cluster, request, {}, movers)}) {
      Cluster after = cluster;
      carryOut(after, plan, movers);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
      if (plan.decision.fits) {
        request.pinnedNode = plan.decision.node;
        ASSERT_TRUE(decide(after, request).fits) << "seed " << seed;
        limitedRequests += !plan.moves.empty() && request.maxClaimsPerCard + request.maxClaimsPerNode > 0 ? 1 : 0;
      }
      for (const Move& each : plan.moves) {
        const Request& moved = movers.find(each.device)->second.request;
        limited += plan.moves.size() > 1 && moved.maxClaimsPerCard + moved.maxClaimsPerNode > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(limited, 10);
  EXPECT_GT(limitedRequests, 5);
}

struct Small {
  Cluster cluster;
  Movers movers;

  void node(const std::string& name, int64_t cards, int64_t cpu = 0) {
    cluster.upsertNode({name, true, cpu, 0});
    for (int64_t c = 0; c < cards; ++c) cluster.upsertCard(makeCard(name + std::to_string(c), name, c));
  }
  void claim(const std::string& card, const std::string& device, int64_t core, bool movable = true, int64_t cpu = 0) {
    cluster.take(card, device, {core, 0}, {cpu, 0});
    Request request;
    request.perCard = {core, 0};
    if (movable) movers[device] = {request, {}};
  }
};

TEST(Moves, OnlyWhoMayMoveAndHasCapacityElsewhere) {
  Small s;
  s.node("a", 2);
  s.node("b", 1);
  s.claim("a0", "fixed", 200, false);
  s.claim("a1", "x", 200);
  s.claim("b0", "y", 700);
  const MovePlan one = movesToLetIn(s.cluster, whole(1), {}, s.movers);
  ASSERT_TRUE(one.possible);
  ASSERT_EQ(one.moves.size(), 1u);
  EXPECT_EQ(one.moves[0].device, "x") << "y has no room elsewhere but on a whole card";
  EXPECT_EQ(one.decision.placements.at(0).card, "a1");
  EXPECT_FALSE(movesToLetIn(s.cluster, whole(2), {}, s.movers).possible) << "one of a's may not move";
  s.movers["x"].suits = [](std::string_view node) { return node == "b"; };
  EXPECT_EQ(movesToLetIn(s.cluster, whole(1), {}, s.movers).moves.at(0).to.node, "b");
  s.movers["x"].suits = [](std::string_view) { return false; };
  EXPECT_TRUE(movesToLetIn(
                  s.cluster, whole(1), [](std::string_view n) { return n == "a"; }, s.movers)
                  .moves.empty());
}

TEST(Moves, WhatItsPodTakesOfTheNodeGoesAlong) {
  Small s;
  s.node("a", 1, 4000);
  s.node("b", 1, 4000);
  s.claim("a0", "x", 200, true, 3000);
  s.claim("b0", "fixed", 200, false, 2000);
  EXPECT_FALSE(movesToLetIn(s.cluster, whole(1), {}, s.movers).possible) << "b has 2000 of CPU left";
  s.cluster.upsertNode({"b", true, 5000, 0});
  EXPECT_TRUE(movesToLetIn(s.cluster, whole(1), {}, s.movers).possible);
}

TEST(Moves, ToFreeACardTheSmallerGoesFirstWhereTheLargerNeedsItsCapacity) {
  Small s;
  s.node("a", 4);
  const auto pair = [&](const std::string& device, int64_t core, const std::string& other) {
    s.cluster.take("a0", device, {core, 0});
    s.cluster.take(other, device, {core, 0});
    Request request;
    request.cards = 2;
    request.perCard = {core, 0};
    s.movers[device] = {request, {}};
  };
  pair("x", 500, "a1");
  pair("y", 400, "a2");
  s.claim("a1", "f1", 100, false);
  s.claim("a2", "f2", 200, false);
  s.claim("a3", "f3", 600, false);
  const MovePlan plan = movesToFreeCards(s.cluster, s.movers, 10);
  EXPECT_EQ(plan.freedCards, 1);
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[0].device, "y");
  Cluster after = s.cluster;
  carryOut(after, plan, s.movers);
}

TEST(Moves, AMoveWithinTheNodeDoesNotLowerItsNumberOfClaims) {
  Small s;
  s.node("a", 2);
  s.claim("a0", "x", 400);
  Request request = whole(1);
  request.maxClaimsPerNode = 1;
  EXPECT_FALSE(movesToLetIn(s.cluster, request, {}, s.movers).possible) << "x has no other node";
  request.maxClaimsPerNode = 2;
  EXPECT_TRUE(movesToLetIn(s.cluster, request, {}, s.movers).possible);
  s.node("b", 1);
  request.maxClaimsPerNode = 1;
  request.pinnedNode = "a";
  s.movers["x"].suits = [](std::string_view node) { return node == "b"; };
  EXPECT_EQ(movesToLetIn(s.cluster, request, {}, s.movers).moves.at(0).to.node, "b");
}

TEST(Moves, NothingMovesIfItFits) {
  Small s;
  s.node("a", 1);
  s.claim("a0", "x", 400);
  Request request;
  request.perCard = {600, 0};
  const MovePlan plan = movesToLetIn(s.cluster, request, {}, s.movers);
  EXPECT_TRUE(plan.possible);
  EXPECT_TRUE(plan.decision.fits);
  EXPECT_TRUE(plan.moves.empty());
}

TEST(Moves, ManySmallOnesGoToSeveralNodes) {
  Small s;
  for (int n = 0; n < 4; ++n) {
    const std::string node(1, static_cast<char>('a' + n));
    s.node(node, 1);
    for (int i = 0; i < 20; ++i) s.claim(node + "0", node + "/" + std::to_string(i), 26 + n);
  }
  const MovePlan plan = movesToLetIn(s.cluster, whole(1), {}, s.movers);
  ASSERT_TRUE(plan.possible);
  EXPECT_EQ(plan.moves.size(), 20u);
  EXPECT_EQ(plan.decision.node, "a") << "where the least is held";
  Cluster after = s.cluster;
  carryOut(after, plan, s.movers);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(decide(after, whole(1)).fits);
}

TEST(Moves, AWholeCardIsNeverMovedToFreeOne) {
  Small s;
  s.node("a", 2);
  s.cluster.take("a0", "w", {1000, 32 * kGi});
  s.movers["w"] = {whole(1), {}};
  EXPECT_FALSE(movesToFreeCards(s.cluster, s.movers, 10).possible);
}

TEST(Moves, NoMoreThanTheMaximum) {
  Small s;
  s.node("a", 4);
  for (int c = 0; c < 4; ++c) s.claim("a" + std::to_string(c), "x" + std::to_string(c), 250);
  EXPECT_EQ(movesToFreeCards(s.cluster, s.movers, 0).freedCards, 0);
  EXPECT_EQ(movesToFreeCards(s.cluster, s.movers, 2).freedCards, 2);
  const MovePlan all = movesToFreeCards(s.cluster, s.movers, 10);
  EXPECT_EQ(all.freedCards, 3);
  EXPECT_EQ(all.moves.size(), 3u);
}

TEST(Moves, TheFirstMoveHoldsIfWhatIsLeftIsLessHoweverItComesOut) {
  const auto toFree = [](const Small& s) {
    return [&s](const Cluster& at) { return movesToFreeCards(at, s.movers, 10); };
  };
  Small s;
  s.node("a", 2);
  s.claim("a0", "x", 200);
  s.claim("a1", "fixed", 700, false);
  MovePlan plan = movesToFreeCards(s.cluster, s.movers, 10);
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_TRUE(firstMoveHolds(s.cluster, plan, s.movers, toFree(s)));
  // Two claims on one card: the recreated first one returns beside the other, which fills that card more than a1 is
  // filled.
  Small back;
  back.node("a", 2);
  back.claim("a0", "x", 200);
  back.claim("a0", "y", 200);
  back.claim("a1", "fixed", 300, false);
  plan = movesToFreeCards(back.cluster, back.movers, 10);
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_FALSE(firstMoveHolds(back.cluster, plan, back.movers, toFree(back))) << "while it is still there, a0 has 400";
  EXPECT_FALSE(firstMoveHolds(back.cluster, {}, back.movers, toFree(back))) << "nothing moves";
}

TEST(Moves, AMoveThatLetsSomebodyInHoldsIfItDoesNotTakeItsCapacity) {
  Small s;
  s.node("a", 2);
  s.claim("a0", "x", 200);
  s.claim("a1", "fixed", 300, false);
  const auto letIn = [&](const Cluster& at) { return movesToLetIn(at, whole(1), {}, s.movers); };
  EXPECT_TRUE(firstMoveHolds(s.cluster, letIn(s.cluster), s.movers, letIn));
  s.movers["x"].request.cardPolicy = "spread";  // recreated, it prefers the card that it has left
  ASSERT_EQ(letIn(s.cluster).moves.size(), 1u);
  EXPECT_FALSE(firstMoveHolds(s.cluster, letIn(s.cluster), s.movers, letIn));
}

// Gangs.

using Groups = std::vector<TopologyGroup>;

std::vector<GangMember> alike(std::size_t count, const Request& request) {
  return std::vector<GangMember>(count, GangMember{request});
}

GangDecision decided(const Cluster& cluster, const std::vector<GangMember>& members, const Groups* within) {
  Cluster copy = cluster;
  return decideGang(copy, members, within);
}

MovePlan letAllIn(const Cluster& cluster, const std::vector<GangMember>& members, const Movers& movers,
                  const Groups* within = nullptr) {
  return movesToLetAllIn(cluster, members, within, {}, movers);
}

/// Returns true if `moves` moves, in any order and to any card, let all members fit.
bool allFitAfter(const Cluster& cluster, const std::vector<GangMember>& members, const Groups* within,
                 const Movers& movers, std::size_t moves) {
  if (!decided(cluster, members, within).lacking) return true;
  if (moves == 0) return false;
  bool fit = false;
  eachMove(cluster, movers,
           [&](const Cluster& after) { fit = fit || allFitAfter(after, members, within, movers, moves - 1); });
  return fit;
}

/// Small claims, each alone on a random card; most of them are movable.
Small scattered(Random& random) {
  Small s;
  for (int n = 0; n < 3; ++n) {
    const std::string node = "node-" + std::to_string(n);
    s.node(node, 2);
    for (int c = 0; c < 2; ++c)
      for (int64_t i = pick(random, 0, 5) == 0 ? 2 : pick(random, 0, 3) == 0 ? 0 : 1; i > 0; --i)
        s.claim(node + std::to_string(c), node + "/" + std::to_string(c) + "/" + std::to_string(i),
                pick(random, 1, 5) * 100, pick(random, 0, 4) > 0);
  }
  return s;
}

std::vector<GangMember> anyGang(Random& random, const std::function<Request()>& other) {
  const auto share = [&random] {
    Request request;
    request.perCard = {pick(random, 5, 9) * 100, 0};
    return request;
  };
  const auto size = static_cast<std::size_t>(pick(random, 2, 3));
  switch (pick(random, 0, 3)) {
    case 0:
      return alike(size, whole(1));
    case 1:
      return alike(2, whole(2));
    case 2:
      return alike(size, share());
    default:
      break;
  }
  std::vector<GangMember> members;
  for (std::size_t i = 0; i < size; ++i) members.push_back({pick(random, 0, 1) == 0 ? share() : other()});
  if (pick(random, 0, 2) == 0) members.back().with = 0;  // one pod uses both
  return members;
}

TEST(GangMoves, LetAllMembersInAsTryingAllMovesDoes) {
  const Groups racks = {{"x", {"node-0", "node-1"}}, {"y", {"node-2"}}};
  int64_t plans = 0, several = 0, more = 0, exact = 0, missed = 0, impossible = 0, proven = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Crowd crowd(seed, small(seed));
    const Small alone = scattered(crowd.random);
    const bool full = seed % 4 == 0;
    const Cluster& cluster = full ? crowd.situation.cluster : alone.cluster;
    const Movers movers = full ? moversOf(crowd.situation) : alone.movers;
    const Groups* within = seed % 3 == 0 ? &racks : nullptr;
    const std::string before = dump(cluster);
    for (int i = 0; i < 3; ++i) {
      const auto members = anyGang(crowd.random, [&] { return full ? crowd.request() : whole(1); });
      const GangDecision now = decided(cluster, members, within);
      const MovePlan plan = letAllIn(cluster, members, movers, within);
      ASSERT_EQ(dump(cluster), before);
      ASSERT_EQ(plan, letAllIn(cluster, members, movers, within));
      ASSERT_TRUE(plan.gang);
      ASSERT_EQ(plan.gang->lacking, now.lacking);
      if (!now.lacking) {
        ASSERT_TRUE(plan.possible && plan.moves.empty() && plan.exact);
        ASSERT_EQ(plan.gang->decisions, now.decisions);
        continue;
      }
      if (!plan.possible) {
        ASSERT_TRUE(plan.moves.empty() && plan.gang->decisions.empty());
        const bool fit = allFitAfter(cluster, members, within, movers, 2);
        ASSERT_FALSE(plan.exact && fit) << "seed " << seed << ", gang " << i;
        ++(fit ? missed : impossible);
        proven += plan.exact ? 1 : 0;
        continue;
      }
      ++plans;
      several += plan.moves.size() > 1 ? 1 : 0;
      exact += plan.exact ? 1 : 0;
      ASSERT_FALSE(plan.moves.empty());
      Cluster after = cluster;
      carryOut(after, plan, movers);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", gang " << i;
      const GangDecision then = decided(after, members, within);
      ASSERT_FALSE(then.lacking) << "seed " << seed << ", gang " << i;
      ASSERT_EQ(plan.gang->decisions, then.decisions);
      ASSERT_EQ(plan.gang->group, then.group);
      const bool fewer = plan.moves.size() <= 3 && allFitAfter(cluster, members, within, movers, plan.moves.size() - 1);
      ASSERT_FALSE(plan.exact && fewer) << "seed " << seed << ", gang " << i;
      more += fewer ? 1 : 0;
    }
  }
  std::printf(
      "gangs: %ld plans, %ld of several moves, %ld exact; %ld with more moves than needed, %ld missed, "
      "%ld impossible, %ld of these exact\n",
      long(plans), long(several), long(exact), long(more), long(missed), long(impossible), long(proven));
  EXPECT_GT(plans, 30);
  EXPECT_GT(several, 5);
  EXPECT_GT(exact, 10);
  EXPECT_GT(proven, 10);
  EXPECT_GT(impossible, 30);
  EXPECT_LE(more * 20, plans) << "at most one in 20 takes more moves than the fewest";
  EXPECT_LE(missed * 20, plans) << "few need a claim to move twice, or to where its policy does not send it";
}

TEST(GangMoves, EachMemberHasCapacityFreedBesideTheMembersBeforeIt) {
  Small s;
  for (const std::string node : {"a", "b", "c", "d"}) s.node(node, 2);
  for (const std::string node : {"a", "b", "c"}) s.claim(node + "0", node + "/share", 300);
  s.claim("d0", "fixed", 100, false);
  const auto members = alike(3, whole(2));
  const MovePlan plan = letAllIn(s.cluster, members, s.movers);
  ASSERT_TRUE(plan.possible);
  EXPECT_EQ(plan.moves.size(), 3U) << "all three shares go to d";
  for (const Move& move : plan.moves) EXPECT_EQ(move.to.node, "d");
  EXPECT_TRUE(plan.exact) << "three cards have to become empty";
  EXPECT_EQ(plan.gang->fit, 0U);
  ASSERT_EQ(plan.gang->decisions.size(), 3U);
  Cluster after = s.cluster;
  carryOut(after, plan, s.movers);
  EXPECT_FALSE(decided(after, members, nullptr).lacking);
  s.movers.erase("b/share");
  const MovePlan none = letAllIn(s.cluster, members, s.movers);
  EXPECT_FALSE(none.possible);
  EXPECT_TRUE(none.exact) << "two nodes at most become empty";
  EXPECT_TRUE(letAllIn(s.cluster, alike(2, whole(2)), s.movers).possible);
}

TEST(GangMoves, TheGroupWithTheFewestMovesHasThem) {
  Small s;
  for (const std::string node : {"a", "b", "c", "d", "e"}) s.node(node, 1);
  s.claim("a0", "a/1", 100);
  s.claim("a0", "a/2", 100);
  s.claim("b0", "b/1", 100);
  s.claim("c0", "c/1", 200);
  s.claim("e0", "fixed", 100, false);
  const Groups racks = {{"x", {"a", "b"}}, {"y", {"c", "d"}}, {"z", {"e"}}};
  const MovePlan plan = letAllIn(s.cluster, alike(2, whole(1)), s.movers, &racks);
  ASSERT_TRUE(plan.possible);
  EXPECT_EQ(plan.gang->group, "y");
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].device, "c/1");
  EXPECT_NE(plan.moves[0].to.node, "d") << "that is the other member's";
  EXPECT_TRUE(plan.exact);
  EXPECT_EQ(plan.gang->fit, 1U);
  const Groups none;
  EXPECT_FALSE(letAllIn(s.cluster, alike(2, whole(1)), s.movers, &none).possible);
}

TEST(GangMoves, MembersThatOnePodUsesAreOnOneNode) {
  Small s;
  s.node("a", 2);
  s.node("b", 2);
  s.node("c", 2);
  s.claim("a0", "a/1", 200);
  s.claim("b0", "b/1", 200);
  s.claim("c0", "fixed", 200, false);
  s.claim("c1", "other", 200, false);
  auto members = alike(2, whole(1));
  EXPECT_TRUE(letAllIn(s.cluster, members, s.movers).moves.empty()) << "each by itself fits";
  members[1].with = 0;
  const MovePlan plan = letAllIn(s.cluster, members, s.movers);
  ASSERT_TRUE(plan.possible);
  EXPECT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.gang->decisions[0].node, plan.gang->decisions[1].node);
}

TEST(GangMoves, PodsBesideEachOtherHaveCapacity) {
  Small s;
  s.node("a", 2);
  s.node("b", 1);
  s.node("c", 1);
  s.claim("b0", "b/1", 200);
  s.claim("c0", "fixed", 200, false);
  auto members = alike(2, whole(1));
  EXPECT_TRUE(letAllIn(s.cluster, members, s.movers).moves.empty());
  for (GangMember& member : members)
    member.hasCapacity = [](std::string_view, std::span<const std::size_t> placed) { return placed.empty(); };
  const MovePlan plan = letAllIn(s.cluster, members, s.movers);
  ASSERT_TRUE(plan.possible);
  ASSERT_EQ(plan.moves.size(), 1U) << "one pod only has room on a";
  EXPECT_EQ(plan.moves[0].device, "b/1");
  EXPECT_NE(plan.moves[0].to.node, "b");
}

TEST(GangMoves, NoClaimMovesForAGangThatLacksQuota) {
  Small s;
  for (const std::string node : {"a", "b", "c"}) s.node(node, 1);
  s.claim("b0", "b/1", 200);
  s.claim("c0", "fixed", 200, false);
  auto members = alike(2, whole(1));
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string id = "m" + std::to_string(i);
    members[i].claim = QuotaClaim{"ns", "ns/" + id, id, "share"};
  }
  v1alpha::ElasticGPUQuota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  for (const auto& [cards, lets] : {std::pair{"2", true}, std::pair{"1", false}}) {
    quota.spec.hard = {{"gpu", cards}};
    QuotaBook book;
    book.setQuotas("ns", {readQuota(quota)});
    const MovePlan plan = movesToLetAllIn(s.cluster, members, nullptr, book, s.movers);
    EXPECT_EQ(plan.possible, lets) << cards;
    EXPECT_EQ(plan.moves.size(), lets ? 1U : 0U) << cards;
  }
}

/// On each node, 3 of 8 cards are taken by movable claims of one whole card each.
Small consolidation(int nodes) {
  Small s;
  for (int n = 0; n < nodes; ++n) {
    const std::string node = "n" + std::to_string(100 + n);
    s.node(node, 8);
    for (int c = 0; c < 3; ++c) {
      const std::string card = node + std::to_string(c), device = node + "/" + std::to_string(c);
      s.cluster.take(card, device, s.cluster.findCard(card).capacity);
      s.movers[device] = {whole(1), {}};
    }
  }
  return s;
}

/// Carries plans out as a cluster does: no capacity is held, and the moved claim's policy decides its new card, before
/// or after its old cards are released.
void executeOneByOne(Small s, std::size_t size, bool before) {
  const auto members = alike(size, whole(6));
  const MovePlanner planner = [&](const Cluster& at) { return letAllIn(at, members, s.movers); };
  std::size_t steps = 0;
  for (MovePlan plan = planner(s.cluster);; plan = planner(s.cluster)) {
    ASSERT_TRUE(plan.possible);
    if (plan.moves.empty()) break;
    ASSERT_LE(++steps, size);
    ASSERT_TRUE(beginWithMoveThatHolds(s.cluster, plan, s.movers, planner, 16)) << "step " << steps;
    const Move& move = plan.moves.front();
    Cluster without = s.cluster;
    release(without, move.device, move.from);
    const Decision to = decide(before ? s.cluster : without, s.movers.at(move.device).request);
    ASSERT_TRUE(to.fits);
    s.cluster = without;
    hold(s.cluster, move.device, to);
  }
  EXPECT_EQ(steps, size);
}

TEST(GangMoves, APlanIsExecutedWhileNothingIsHeld) {
  const Small s = consolidation(16);
  const auto members = alike(4, whole(6));
  const MovePlanner planner = [&](const Cluster& at) { return letAllIn(at, members, s.movers); };
  MovePlan plan = planner(s.cluster);
  ASSERT_EQ(plan.moves.size(), 4U);
  EXPECT_TRUE(plan.exact);
  EXPECT_FALSE(firstMoveHolds(s.cluster, plan, s.movers, planner))
      << "made anew before its card is given back, the claim of the first node comes back to it";
  const MovePlan planned = plan;
  ASSERT_TRUE(beginWithMoveThatHolds(s.cluster, plan, s.movers, planner, 16));
  EXPECT_NE(plan.moves.front().device, planned.moves.front().device);
  Cluster after = s.cluster;
  carryOut(after, plan, s.movers);
  EXPECT_FALSE(decided(after, members, nullptr).lacking);
  MovePlan one = planned;
  EXPECT_FALSE(beginWithMoveThatHolds(s.cluster, one, s.movers, planner, 1));
  EXPECT_EQ(one, planned);
  for (const bool before : {true, false}) executeOneByOne(s, 4, before);
}

}  // namespace
}  // namespace egpu::scheduler::testing
