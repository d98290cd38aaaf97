// One case for each guarantee of a decision; property_test.cpp compares the whole with plain loops.
#include "controller/scheduler/decide.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

Request share(int64_t core, int64_t memory, const char* nodePolicy = "binpack", const char* cardPolicy = "binpack") {
  Request r;
  r.perCard = {core, memory};
  r.nodePolicy = nodePolicy;
  r.cardPolicy = cardPolicy;
  return r;
}

/// Returns nodes × cards of 32 GiB: node-0, node-1, …; card node-0-0, ….
Cluster grid(int nodes, int cards) {
  Cluster cluster;
  for (int n = 0; n < nodes; ++n) {
    const std::string node = "node-" + std::to_string(n);
    cluster.upsertNode({node, true});
    for (int c = 0; c < cards; ++c) cluster.upsertCard(makeCard(node + "-" + std::to_string(c), node, c));
  }
  return cluster;
}

std::vector<std::string> cardsIn(const Decision& decision) {
  std::vector<std::string> names;
  for (const Placement& p : decision.placements) names.push_back(p.card);
  return names;
}

using Names = std::vector<std::string>;

TEST(Decide, NothingInAnEmptyCluster) {
  EXPECT_FALSE(decide(Cluster(), share(100, kGi)).fits);
  EXPECT_FALSE(decide(grid(2, 0), share(100, kGi)).fits);
}

TEST(Decide, ReportsWhatIsGrantedAndCharged) {
  Cluster cluster = grid(1, 1);
  const Decision decision = decide(cluster, share(100, 4 * kGi));
  ASSERT_TRUE(decision.fits);
  EXPECT_EQ(decision.node, "node-0");
  const Placement expected{"node-0-0", "GPU-node-0-0", {100, 4 * kGi}, {100, 4 * kGi}};
  EXPECT_EQ(decision.placements, std::vector<Placement>{expected});
}

// The four policy pairs on one cluster. node-0: cards used 50 % and 0; node-1: 20 % and 20 %; node-2: empty.
TEST(Decide, TheFourPairs) {
  Cluster cluster = grid(3, 2);
  cluster.take("node-0-0", "a", {500, 0});
  cluster.take("node-1-0", "b", {200, 0});
  cluster.take("node-1-1", "c", {200, 0});
  EXPECT_EQ(cardsIn(decide(cluster, share(300, kGi, "binpack", "binpack"))), Names{"node-0-0"});
  EXPECT_EQ(cardsIn(decide(cluster, share(300, kGi, "binpack", "spread"))), Names{"node-0-1"});
  EXPECT_EQ(cardsIn(decide(cluster, share(300, kGi, "spread", "binpack"))), Names{"node-2-0"});
  EXPECT_EQ(cardsIn(decide(cluster, share(300, kGi, "spread", "spread"))), Names{"node-2-0"});
}

// The worked examples of the policies' headers.
TEST(Decide, TheWorkedExamplesHold) {
  Cluster nodes = grid(3, 1);
  nodes.take("node-0-0", "x", {800, 8 * kGi});
  nodes.take("node-1-0", "y", {500, 16 * kGi});
  EXPECT_EQ(decide(nodes, share(300, 4 * kGi, "binpack")).node, "node-1");
  nodes.take("node-1-0", "y", {100, 16 * kGi});
  nodes.take("node-2-0", "z", {400, 4 * kGi});
  EXPECT_EQ(decide(nodes, share(300, 4 * kGi, "spread")).node, "node-2");

  Cluster cards = grid(1, 3);
  cards.take("node-0-1", "x", {600, 8 * kGi});
  cards.take("node-0-2", "y", {800, 8 * kGi});
  EXPECT_EQ(cardsIn(decide(cards, share(300, 4 * kGi, "binpack", "binpack"))), Names{"node-0-1"});
  cards.take("node-0-0", "z", {100, 8 * kGi});
  cards.take("node-0-2", "y", {200, 4 * kGi});
  Request two = share(300, 4 * kGi, "binpack", "spread");
  two.cards = 2;
  EXPECT_EQ(cardsIn(decide(cards, two)), (Names{"node-0-2", "node-0-0"}));
}

TEST(Decide, TiesGoByNameThenIndex) {
  Cluster cluster;
  for (const char* node : {"node-b", "node-a", "node-c"}) {
    cluster.upsertNode({node, true});
    cluster.upsertCard(makeCard(std::string(node) + "-x", node, 1));
    cluster.upsertCard(makeCard(std::string(node) + "-y", node, 0));
  }
  for (const char* policy : {"binpack", "spread"})
    EXPECT_EQ(cardsIn(decide(cluster, share(100, kGi, policy))), Names{"node-a-y"});
}

TEST(Decide, EqualIndexGoesByUuid) {
  Cluster cluster = grid(1, 0);
  CardInfo b = makeCard("a", "node-0", 0), a = makeCard("b", "node-0", 0);
  b.card.uuid = "GPU-2";
  a.card.uuid = "GPU-1";
  cluster.upsertCard(b);
  cluster.upsertCard(a);
  EXPECT_EQ(cardsIn(decide(cluster, share(100, kGi))), Names{"b"});
}

TEST(Decide, SpreadUsesEveryCardBeforeOneTwice) {
  Cluster cluster = grid(2, 4);
  std::vector<std::string> seen;
  for (int i = 0; i < 8; ++i) {
    const Decision decision = decide(cluster, share(250, 4 * kGi, "spread", "spread"));
    commit(cluster, decision, "d" + std::to_string(i));
    seen.push_back(decision.placements.at(0).card);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Decide, CoreAndMemoryMustFitOnTheSameCard) {
  Cluster cluster = grid(1, 2);
  cluster.take("node-0-0", "a", {900, 0});
  cluster.take("node-0-1", "b", {0, 31 * kGi});
  EXPECT_FALSE(decide(cluster, share(200, 2 * kGi)).fits);
  EXPECT_EQ(cardsIn(decide(cluster, share(100, 2 * kGi))), Names{"node-0-0"});
  EXPECT_EQ(cardsIn(decide(cluster, share(200, kGi))), Names{"node-0-1"});
}

TEST(Decide, ToTheLastByteAndMilliCard) {
  Cluster cluster = grid(1, 1);
  cluster.take("node-0-0", "a", {999, 32 * kGi - 1});
  EXPECT_TRUE(decide(cluster, share(1, 1)).fits);
  EXPECT_FALSE(decide(cluster, share(2, 1)).fits);
  EXPECT_FALSE(decide(cluster, share(1, 2)).fits);
}

TEST(Decide, SeveralCardsAreOnOneNode) {
  Cluster cluster = grid(3, 4);
  cluster.take("node-0-0", "a", {500, 0});
  cluster.take("node-1-3", "b", {10, 0});
  Request four = share(600, kGi);
  four.cards = 4;
  EXPECT_EQ(decide(cluster, four).node, "node-1");
  four.perCard.core = 1000;
  EXPECT_EQ(decide(cluster, four).node, "node-2");
  four.cards = 5;
  EXPECT_FALSE(decide(cluster, four).fits);
}

TEST(Decide, WholeCardsAreEmptyAndChargedWhole) {
  Cluster cluster = grid(1, 3);
  cluster.take("node-0-1", "a", {0, 1});
  Request two = whole(2);
  two.coreOvercommit = two.memoryOvercommit = 2000;  // must not admit other claims to the cards
  const Decision decision = decide(cluster, two);
  EXPECT_EQ(cardsIn(decision), (Names{"node-0-0", "node-0-2"}));
  for (const Placement& p : decision.placements) {
    EXPECT_EQ(p.granted, (Amount{1000, 32 * kGi}));
    EXPECT_EQ(p.charged, p.granted);
  }
  EXPECT_FALSE(decide(cluster, whole(3)).fits);
}

TEST(Decide, AWholeCardIsNotSharedWithAnEmptyTake) {
  Cluster cluster = grid(1, 1);
  cluster.take("node-0-0", "a", {0, 0});
  EXPECT_FALSE(decide(cluster, whole(1)).fits) << "somebody holds the card, however little";
}

TEST(Decide, MemoryInProportionFollowsTheChosenCard) {
  Cluster cluster = grid(1, 0);
  cluster.upsertCard(makeCard("odd", "node-0", 0, 16 * kGi + 12345));
  Request r = share(250, 0);
  r.memoryFromCore = true;
  EXPECT_EQ(decide(cluster, r).placements.at(0).granted, (Amount{250, 4 * kGi}));
  r.perCard.core = 10;
  EXPECT_EQ(decide(cluster, r).placements.at(0).granted.memory, 163 * kMi) << "down to a MiB";
  r.perCard.core = 1000;
  EXPECT_EQ(decide(cluster, r).placements.at(0).granted.memory, 16 * kGi + 12345) << "all of it is all of it";
}

TEST(Decide, TflopsByTheCardsRating) {
  Cluster cluster = grid(1, 0);
  CardInfo fast = makeCard("fast", "node-0", 0), slow = makeCard("slow", "node-0", 1),
           unrated = makeCard("unrated", "node-0", 2);
  fast.card.milliTflops = 312'000;
  slow.card.milliTflops = 65'000;
  for (const CardInfo& info : {fast, slow, unrated}) cluster.upsertCard(info);
  Request r;
  r.milliTflopsPerCard = 100'000;
  r.perCard.memory = kGi;
  const Decision decision = decide(cluster, r);
  ASSERT_EQ(cardsIn(decision), Names{"fast"});
  EXPECT_EQ(decision.placements[0].granted.core, 321) << "100/312 of a card, up to a milli-card";
  cluster.removeCard("fast");
  EXPECT_FALSE(decide(cluster, r).fits);
  r.milliTflopsPerCard = 65'000;
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"slow"});
}

TEST(Decide, ModelAndMinMemory) {
  Cluster cluster = grid(1, 1);
  cluster.upsertCard(makeCard("a100", "node-0", 1, 80 * kGi, "A100"));
  Request r = share(100, kGi);
  r.models = {"A100"};
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"a100"});
  r.models = {"a100"};
  EXPECT_FALSE(decide(cluster, r).fits) << "names of models are exact";
  r.models = {"T4", "V100"};
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"node-0-0"});
  r.models.clear();
  r.minMemory = 33 * kGi;
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"a100"});
  r.minMemory = 81 * kGi;
  EXPECT_FALSE(decide(cluster, r).fits);
}

TEST(Decide, OneQuarantinedCardLeavesTheOthers) {
  Cluster cluster = grid(1, 2);
  CardInfo sick = makeCard("node-0-0", "node-0", 0);
  sick.healthy = false;
  cluster.take("node-0-0", "old", {100, kGi});
  cluster.upsertCard(sick);
  EXPECT_EQ(cardsIn(decide(cluster, share(100, kGi))), Names{"node-0-1"});
  EXPECT_FALSE(decide(cluster, whole(2)).fits);
  EXPECT_EQ(cluster.findCard("node-0-0").used, (Amount{100, kGi})) << "existing takes stay";
  sick.healthy = true;
  cluster.upsertCard(sick);
  EXPECT_EQ(cardsIn(decide(cluster, share(100, kGi))), Names{"node-0-0"});
}

TEST(Decide, OvercommitChargesRoundedUp) {
  Cluster cluster = grid(1, 1);
  Request r = share(100, 1000);
  r.coreOvercommit = 3000;
  r.memoryOvercommit = 1500;
  const Decision decision = decide(cluster, r);
  EXPECT_EQ(decision.placements.at(0).granted, (Amount{100, 1000}));
  EXPECT_EQ(decision.placements.at(0).charged, (Amount{34, 667}));
  int64_t n = 0;
  while (true) {
    const Decision next = decide(cluster, r);
    if (!next.fits) break;
    commit(cluster, next, "d" + std::to_string(n++));
  }
  EXPECT_EQ(n, 29) << "⌊1000 / 34⌋: rounding up never grants more than the overcommit allows";
}

TEST(Decide, OvercommitNeverGrantsOneClaimMoreThanACard) {
  Cluster cluster = grid(1, 1);
  Request r = share(1000, 33 * kGi);
  r.coreOvercommit = r.memoryOvercommit = 4000;
  EXPECT_FALSE(decide(cluster, r).fits);
  r.perCard.memory = 32 * kGi;
  EXPECT_TRUE(decide(cluster, r).fits);
}

TEST(Decide, ChargedAndGrantableAreInverse) {
  for (int64_t overcommit : {1000, 1001, 1500, 2125, 3333}) {
    for (int64_t granted = 0; granted < 3000; ++granted) {
      const int64_t charged = chargedFor(granted, overcommit);
      EXPECT_GE(charged * overcommit, granted * 1000);
      EXPECT_LT((charged - 1) * overcommit, granted * 1000 + (granted == 0 ? 1 : 0));
    }
  }
}

TEST(Decide, LimitsOfClaims) {
  Cluster cluster = grid(2, 2);
  cluster.take("node-0-0", "a", {10, 0});
  Request r = share(10, kMi);
  r.maxClaimsPerCard = 1;
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"node-0-1"});
  r.maxClaimsPerNode = 1;
  EXPECT_EQ(decide(cluster, r).node, "node-1");
  cluster.take("node-1-0", "b", {10, 0});
  cluster.take("node-1-1", "b", {10, 0});
  EXPECT_FALSE(decide(cluster, r).fits);
  r.maxClaimsPerNode = 2;
  EXPECT_EQ(decide(cluster, r).node, "node-0")
      << "a claim on two cards of a node counts once there, but fills both cards";
}

TEST(Decide, PinnedNode) {
  Cluster cluster = grid(2, 1);
  Request r = share(600, kGi);
  r.pinnedNode = "node-1";
  const Decision decision = decide(cluster, r);
  EXPECT_EQ(decision.node, "node-1");
  commit(cluster, decision, "a");
  EXPECT_FALSE(decide(cluster, r).fits);
  r.pinnedNode = "node-9";
  EXPECT_FALSE(decide(cluster, r).fits);
}

TEST(Decide, PinnedCards) {
  Cluster cluster = grid(2, 2);
  Request r = share(100, kGi);
  r.pinnedCards = {"node-1-1"};
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"node-1-1"});
  r.pinnedNode = "node-0";
  EXPECT_FALSE(decide(cluster, r).fits) << "the card is not there";
  r.pinnedNode.clear();
  r.cards = 2;
  EXPECT_EQ(cardsIn(decide(cluster, r)), (Names{"node-1-1", "node-1-0"})) << "that card and one more of its node";
  r.pinnedCards = {"node-1-1", "node-1-0"};
  EXPECT_EQ(cardsIn(decide(cluster, r)), (Names{"node-1-0", "node-1-1"}));
  r.pinnedCards = {"node-1-1", "node-0-0"};
  EXPECT_FALSE(decide(cluster, r).fits) << "two nodes";
  r.pinnedCards = {"node-1-1"};
  r.cards = 3;
  EXPECT_FALSE(decide(cluster, r).fits) << "its node has two cards";
  r.cards = 2;
  cluster.take("node-1-1", "x", {1000, kGi});
  EXPECT_FALSE(decide(cluster, r).fits) << "the named card is full";
  const Explanation why = explain(cluster, r);
  EXPECT_NE(why.text().find("on another node than the pinned card"), std::string::npos) << why.text();
  r.cards = 1;
  r.pinnedCards = {"gone"};
  EXPECT_FALSE(decide(cluster, r).fits);
}

TEST(Decide, EveryCardPolicyGivesThePinnedCardAndMore) {
  for (const std::string policy : {"binpack", "spread", "simple", "topology", "compact-first", "low-load-first"}) {
    Cluster cluster = grid(2, 4);
    cluster.take("node-1-0", "x", {500, kGi});
    Request r = share(100, kGi, "binpack", policy.c_str());
    r.cards = 2;
    r.pinnedCards = {"node-1-3"};
    const Names got = cardsIn(decide(cluster, r));
    ASSERT_EQ(got.size(), 2u) << policy;
    EXPECT_EQ(got[0], "node-1-3") << policy;
    const bool avoidsUsed = policy == "spread" || policy == "low-load-first";
    EXPECT_EQ(got[1], avoidsUsed ? "node-1-1" : "node-1-0") << policy;
  }
}

TEST(Decide, ThePredicateNarrowsTheNodes) {
  Cluster cluster = grid(50, 1);
  int asked = 0;
  const Decision decision = decide(cluster, share(100, kGi), [&](std::string_view node) {
    ++asked;
    return node == "node-7";
  });
  EXPECT_EQ(decision.node, "node-7");
  EXPECT_GT(asked, 0);
  EXPECT_FALSE(decide(cluster, share(100, kGi), [](std::string_view) { return false; }).fits);
}

TEST(Decide, ACordonedOrUnknownNodeIsNotOffered) {
  Cluster cluster = grid(1, 1);
  cluster.upsertNode({"node-0", false});
  EXPECT_FALSE(decide(cluster, share(100, kGi)).fits);
  cluster.upsertNode({"node-0", true});
  EXPECT_TRUE(decide(cluster, share(100, kGi)).fits);
  cluster.upsertCard(makeCard("stray", "nowhere", 0));
  cluster.removeNode("node-0");
  EXPECT_FALSE(decide(cluster, share(100, kGi)).fits) << "cards without a Node object";
  EXPECT_EQ(cluster.nodes(), (Names{"node-0", "nowhere"})) << "their nodes are known nevertheless";
}

TEST(Decide, ANodeThatComesBackHasItsTakes) {
  Cluster cluster = grid(1, 1);
  cluster.take("node-0-0", "a", {900, kGi});
  cluster.removeNode("node-0");
  cluster.upsertNode({"node-0", true});
  EXPECT_FALSE(decide(cluster, share(200, kGi)).fits);
  EXPECT_TRUE(decide(cluster, share(100, kGi)).fits);
}

TEST(Decide, ACardThatComesBackStartsEmpty) {
  Cluster cluster = grid(1, 1);
  cluster.take("node-0-0", "a", {900, kGi});
  cluster.removeCard("node-0-0");
  EXPECT_EQ(cluster.cardCount(), 0u);
  EXPECT_FALSE(cluster.findCard("node-0-0").known);
  EXPECT_FALSE(cluster.take("node-0-0", "a", {900, kGi}));
  cluster.upsertCard(makeCard("node-0-0", "node-0", 0));
  EXPECT_TRUE(decide(cluster, whole(1)).fits) << "its owner puts the takes back before it offers the card";
}

TEST(Decide, ACardThatShrinksBelowItsUseOffersNothing) {
  Cluster cluster = grid(1, 1);
  cluster.take("node-0-0", "a", {100, 20 * kGi});
  cluster.upsertCard(makeCard("node-0-0", "node-0", 0, 16 * kGi));
  EXPECT_FALSE(decide(cluster, share(100, kMi)).fits);
  EXPECT_FALSE(decide(cluster, share(100, 0)).fits) << "not even what needs no memory";
  cluster.giveBack("node-0-0", "a");
  EXPECT_TRUE(decide(cluster, share(100, 16 * kGi)).fits);
}

TEST(Decide, ACardThatMovesTakesItsClaimsAlong) {
  Cluster cluster = grid(2, 1);
  cluster.take("node-0-0", "a", {500, kGi});
  cluster.upsertCard(makeCard("node-0-0", "node-1", 5));
  EXPECT_EQ(cluster.cardsOf("node-0"), Names{});
  EXPECT_EQ(cluster.cardsOf("node-1"), (Names{"node-1-0", "node-0-0"}));
  Request r = share(500, kGi);
  r.maxClaimsPerNode = 1;
  EXPECT_FALSE(decide(cluster, r).fits);
  r.maxClaimsPerNode = 0;
  EXPECT_EQ(cardsIn(decide(cluster, r)), Names{"node-0-0"});
}

TEST(Decide, ATakeIsReplacedNotAdded) {
  Cluster cluster = grid(1, 1);
  EXPECT_TRUE(cluster.take("node-0-0", "a", {900, kGi}));
  EXPECT_TRUE(cluster.take("node-0-0", "a", {300, 2 * kGi}));
  EXPECT_EQ(cluster.findCard("node-0-0").used, (Amount{300, 2 * kGi}));
  EXPECT_EQ(cluster.findCard("node-0-0").claims, 1);
  cluster.giveBack("node-0-0", "b");
  cluster.giveBack("gone", "a");
  cluster.giveBack("node-0-0", "a");
  cluster.giveBack("node-0-0", "a");
  EXPECT_EQ(cluster.findCard("node-0-0").used, Amount{});
}

TEST(Cluster, ACopyIsIndependent) {
  Cluster cluster = grid(2, 1);
  Cluster copy = cluster;
  copy.take("node-0-0", "a", {1000, 0});
  copy.removeNode("node-1");
  EXPECT_TRUE(decide(cluster, share(1000, kGi, "spread")).fits);
  EXPECT_FALSE(decide(copy, share(1000, kGi, "spread")).fits);
  Cluster moved = std::move(copy);
  EXPECT_EQ(moved.findCard("node-0-0").used.core, 1000);
  cluster = moved;
  EXPECT_FALSE(decide(cluster, share(1000, kGi)).fits);
}

TEST(Cluster, ManyShapesAreStillExact) {
  // More kinds of node than the index distinguishes.
  Cluster cluster;
  const int kNodes = static_cast<int>(NodeIndex::kMaxMixes) + 100;
  World world;
  for (int n = 0; n < kNodes; ++n) {
    const std::string node = "node-" + std::to_string(n);
    cluster.upsertNode({node, true});
    world.upsertNode({node});
    const CardInfo info = makeCard("card-" + std::to_string(n), node, 0, 8 * kGi + n * kMi);
    cluster.upsertCard(info);
    world.upsertCard(info);
  }
  ASSERT_EQ(cluster.state().check(), "");
  for (int n = 0; n < kNodes; n += 7) {
    for (const char* policy : {"binpack", "spread"}) {
      Request r = share(600, 8 * kGi + n * kMi, policy);
      const Decision decision = decide(cluster, r);
      ASSERT_EQ(decision, world.decide(r));
      if (!decision.fits) continue;
      commit(cluster, decision, "d" + std::string(policy) + std::to_string(n));
      world.take(decision.placements[0].card, "d" + std::string(policy) + std::to_string(n),
                 decision.placements[0].charged);
    }
  }
  for (int n = 0; n < kNodes; ++n) cluster.removeCard("card-" + std::to_string(n));
  EXPECT_EQ(cluster.state().check(), "");
  for (int n = 0; n < kNodes; ++n) cluster.removeNode("node-" + std::to_string(n));
  EXPECT_EQ(cluster.nodeCount(), 0u);
}

TEST(Cluster, NamesInAnyOrderRetainTheirOrder) {
  // Inserting between the last two names repeatedly uses up the numbers between them.
  Cluster cluster;
  std::string low = "a";
  for (int i = 0; i < 400; ++i) {
    low += 'm';
    cluster.upsertNode({low, true});
    cluster.upsertCard(makeCard("card-" + low, low, 0));
  }
  for (std::size_t i = 400; i > 0; --i) {
    const std::string high = "a" + std::string(i, 'z');
    cluster.upsertNode({high, true});
    cluster.upsertCard(makeCard("card-" + high, high, 0));
  }
  for (int i = 999; i >= 0; --i) cluster.upsertNode({"0" + std::to_string(i), true});
  ASSERT_EQ(cluster.state().check(), "");
  EXPECT_EQ(decide(cluster, share(100, kGi)).node, "am") << "the first name that has a card";
}

TEST(Decide, SameInputSameBytes) {
  auto run = [](bool backwards) {
    Cluster cluster;
    for (int i = 0; i < 40; ++i) {
      const int n = backwards ? 39 - i : i;
      const std::string node = "node-" + std::to_string(n / 4);
      cluster.upsertNode({node, true});
      cluster.upsertCard(makeCard(node + "-" + std::to_string(n % 4), node, n % 4, (n % 3 == 0 ? 16 : 32) * kGi));
    }
    std::string text;
    for (int i = 0; i < 300; ++i) {
      Request r =
          share(10 + 10 * (i % 40), (1 + i % 7) * kGi, i % 2 ? "binpack" : "spread", i % 3 ? "binpack" : "spread");
      r.cards = 1 + i % 3;
      const Decision decision = decide(cluster, r);
      commit(cluster, decision, "d" + std::to_string(i));
      text += decision.node;
      for (const Placement& p : decision.placements) text += ' ' + p.card;
      text += decision.fits ? "\n" : explain(cluster, r).text() + '\n';
    }
    return text;
  };
  EXPECT_EQ(run(false), run(false));
  EXPECT_EQ(run(false), run(true)) << "the order in which the cluster became known must not show";
}

}  // namespace
}  // namespace egpu::scheduler::testing
