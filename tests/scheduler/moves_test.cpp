// Plans are compared with trying every sequence of moves, to every card, on small clusters.
#include "controller/scheduler/moves.h"

#include <gtest/gtest.h>

#include <cstdio>
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

/// f(cluster) after every single move: of each claim to each card, or, with several cards, to each node.
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

/// Whether so many moves, in any order, let the request in.
bool fitsAfter(const Cluster& cluster, const Request& request, const Movers& movers, std::size_t moves) {
  if (decide(cluster, request).fits) return true;
  if (moves == 0) return false;
  bool fits = false;
  eachMove(cluster, movers, [&](const Cluster& after) { fits = fits || fitsAfter(after, request, movers, moves - 1); });
  return fits;
}

int64_t mostEmpty(const Cluster& cluster, const Movers& movers, std::size_t moves) {
  int64_t most = emptyCards(cluster);
  if (moves == 0) return most;
  eachMove(cluster, movers, [&](const Cluster& after) { most = std::max(most, mostEmpty(after, movers, moves - 1)); });
  return most;
}

/// Makes the moves one after the other: each must find its room when its turn comes.
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
    }
    const auto beside = static_cast<int64_t>(holdingsOn(cluster, move.to.node).size());
    ASSERT_TRUE(request.maxClaimsPerNode <= 0 || beside < request.maxClaimsPerNode) << move.device;
    hold(cluster, move.device, move.to, ofNode(move.from));
  }
}

CrowdShape small() {
  CrowdShape shape;
  shape.nodes = 3;
  shape.cardsPerNode = 2;
  shape.claims = 9;
  shape.limits = false;
  shape.everyPolicy = false;
  return shape;
}

TEST(Moves, LetInWithNearlyTheFewest) {
  int64_t plans = 0, several = 0, more = 0, missed = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Crowd crowd(seed, small());
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

TEST(Moves, FreeNearlyTheMostCards) {
  int64_t best = 0, freed = 0, less = 0, some = 0;
  CrowdShape shape = small();
  shape.claims = 7;
  shape.severalCards = false;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
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
    const int64_t most = mostEmpty(cluster, movers, 2) - emptyCards(cluster);
    ASSERT_LE(plan.freedCards, most);
    best += most;
    freed += plan.freedCards;
    less += plan.freedCards < most ? 1 : 0;
    some += plan.possible ? 1 : 0;
  }
  std::printf("free: %ld cards of at most %ld by two moves; %ld of 60 clusters with less than the most\n", long(freed),
              long(best), long(less));
  EXPECT_GT(some, 5);
  EXPECT_GE(freed * 2, best) << "half of the most at least";
}

TEST(Moves, CardsAreFreedInAnOrderInWhichEachFindsItsRoom) {
  int64_t several = 0, cards = 0;
  CrowdShape shape = small();
  shape.nodes = 4;
  shape.claims = 12;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
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

TEST(Moves, EachFindsItsRoomWhereClassesLimitHowManyThereAre) {
  int64_t limited = 0;
  CrowdShape shape = small();
  shape.nodes = 2;
  shape.cardsPerNode = 3;
  shape.claims = 14;
  shape.limits = true;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const Movers movers = moversOf(crowd.situation);
    for (const MovePlan& plan :
         {movesToFreeCards(cluster, movers, 100), movesToLetIn(cluster, crowd.request(), {}, movers)}) {
      Cluster after = cluster;
      carryOut(after, plan, movers);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
      for (const Move& each : plan.moves) {
        const Request& request = movers.find(each.device)->second.request;
        limited += plan.moves.size() > 1 && request.maxClaimsPerCard + request.maxClaimsPerNode > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(limited, 10);
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

TEST(Moves, OnlyWhoMayMoveAndHasRoomElsewhere) {
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

TEST(Moves, ToFreeACardTheSmallerGoesFirstWhereTheLargerNeedsItsRoom) {
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

TEST(Moves, AtMostSoMany) {
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
  // Two on one card: made anew, the first comes back beside the other, which fills that card more than a1 is filled.
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

TEST(Moves, AMoveThatLetsSomebodyInHoldsIfItDoesNotTakeHisRoom) {
  Small s;
  s.node("a", 2);
  s.claim("a0", "x", 200);
  s.claim("a1", "fixed", 300, false);
  const auto letIn = [&](const Cluster& at) { return movesToLetIn(at, whole(1), {}, s.movers); };
  EXPECT_TRUE(firstMoveHolds(s.cluster, letIn(s.cluster), s.movers, letIn));
  s.movers["x"].request.cardPolicy = "spread";  // made anew, it prefers the card that it has left
  ASSERT_EQ(letIn(s.cluster).moves.size(), 1u);
  EXPECT_FALSE(firstMoveHolds(s.cluster, letIn(s.cluster), s.movers, letIn));
}

}  // namespace
}  // namespace egpu::scheduler::testing
