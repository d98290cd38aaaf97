// Prices of capacity worth protecting: small cases by hand.
#include "controller/scheduler/fragmentation/prices.h"

#include <gtest/gtest.h>

#include "controller/scheduler/choice/card_choice.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/fragmentation/node_scoring.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::fragmentation {
namespace {

using scheduler::testing::kGi;
using scheduler::testing::makeCard;

void addModelNode(Cluster& cluster, const std::string& name, int64_t cards, const std::string& model = "V100") {
  cluster.upsertNode({name, true});
  for (int64_t c = 0; c < cards; ++c)
    cluster.upsertCard(makeCard(name + "-" + std::to_string(c), name, c, 32 * kGi, model));
}

Request share(int64_t core) {
  Request request;
  request.perCard = {core, 0};
  request.nodePolicy = "fragmentation";
  return request;
}

Request whole(int64_t cards) {
  Request request;
  request.cards = cards;
  request.wholeCards = true;
  request.nodePolicy = "fragmentation";
  return request;
}

Prices pricesOf(const Cluster& cluster, const Demand& demand) {
  NodeStates nodeStates;
  nodeStates.read(cluster.state());
  return Prices(cluster.state(), nodeStates, demand, nullptr);
}

TEST(FitCounts, AreBoundByCardsCpuAndMemory) {
  DemandShape pair;
  pair.cards = 2;
  pair.wholeCards = true;
  pair.ofNode = {3000, 5 * kGi};
  pair.on = {{true, {1000, 32 * kGi}}};
  DemandShape third;
  third.on = {{true, {333, 0}}};
  FitCounts copies({pair, third});
  NodeState node;
  node.cards.assign(5, CardState{0, {1000, 32 * kGi}, true});
  node.cards[4] = {0, {700, 32 * kGi}, false};
  const auto count = [&](NodeAmount free) {
    const Counts capacity = copies.capacityOn(node);
    return std::pair(copies.copies(0, free, capacity[0]), copies.copies(1, free, capacity[1]));
  };
  EXPECT_EQ(count({100'000, 100 * kGi}), std::pair(2, 14));
  EXPECT_EQ(count({5'999, 100 * kGi}), std::pair(1, 14));
  EXPECT_EQ(count({6'000, 100 * kGi}), std::pair(2, 14));
  EXPECT_EQ(count({100'000, 5 * kGi - 1}), std::pair(0, 14));
  node.cards[0].type = 1;  // a type without data
  EXPECT_EQ(count({100'000, 100 * kGi}), std::pair(1, 11));
}

TEST(Prices, WhileNothingIsKnownWholeNodesAre) {
  Cluster cluster;
  addModelNode(cluster, "a", 8);
  addModelNode(cluster, "b", 8);
  const Prices prices = pricesOf(cluster, Demand());
  ASSERT_EQ(prices.shapes().size(), 1u);
  EXPECT_EQ(prices.shapes()[0].cards, 8);
  // Two are expected, 2 · √2 more for chance, and two exist: more than twice as many. 2 · (2 − ½)² · 1 · 8000.
  EXPECT_DOUBLE_EQ(prices.perCopy()[0], 36'000);
  EXPECT_EQ(prices.cardWorth(0, 1000), 2000);
  EXPECT_EQ(prices.cardWorth(0, 999), 0);
  EXPECT_EQ(prices.pressure(0), 0);
}

/// The example in the folder's README.
TEST(Prices, ASetThatIsBrokenAlreadyIsUsedUpFirst) {
  Cluster cluster;
  addModelNode(cluster, "a", 8);
  addModelNode(cluster, "b", 8);
  const Request request = whole(1);
  const auto scores = [&] {
    const Cluster::State& state = cluster.state();
    const Prices& prices = *state.outlook.prices();
    Needs needs(state, request);
    CardChoice cards(state, request, *findCardPolicy("binpack"), needs);
    FitCounts counts(prices.shapes());
    NodeScorer scorer(state, request, cards, prices, counts);
    std::vector<Score> of;
    for (const char* node : {"a", "b"}) {
      NodeState before;
      readNode(state, state.findNode(node), before);
      of.push_back(scorer.score(state.findNode(node), NodeCopies(before, counts)));
    }
    return of;
  };
  cluster.observe(request);
  EXPECT_EQ(scores(), (std::vector<Score>{-475, -475}));
  const Decision first = decide(cluster, request);
  EXPECT_EQ(first.node, "a");
  scheduler::testing::commit(cluster, first, "first");
  cluster.observe(request);
  EXPECT_EQ(scores(), (std::vector<Score>{-25, -475}));
  EXPECT_EQ(decide(cluster, request).node, "a");
}

TEST(Prices, AModelThatIsAskedForIsUnderPressure) {
  Cluster cluster;
  addModelNode(cluster, "a", 4, "V100");
  addModelNode(cluster, "b", 4, "T4");
  Request request = share(500);
  request.models = {"T4"};
  Demand demand;
  for (int i = 0; i < 100'000; ++i) demand.observe(request);
  const Prices prices = pricesOf(cluster, demand);
  EXPECT_GT(prices.pressure(1), 1.7);  // all of the demand, and half of the free capacity; a tenth is still unknown
  EXPECT_LT(prices.pressure(0), 0.2);
  EXPECT_EQ(prices.cardWorth(1, 999), 1000);  // one half
}

TEST(Prices, AreOutdatedWhenATenthOfTheFreeOrOfTheDemandIsAnother) {
  Cluster cluster;
  for (int n = 0; n < 10; ++n) addModelNode(cluster, "n" + std::to_string(n), 8);
  Demand demand;
  for (int i = 0; i < 5000; ++i) demand.observe(share(500));
  const Prices prices = pricesOf(cluster, demand);
  const auto outdated = [&] {
    NodeStates nodeStates;
    nodeStates.read(cluster.state());
    return prices.outdated(cluster.state(), nodeStates, demand);
  };
  EXPECT_FALSE(outdated());
  for (int i = 0; i < 7; ++i) cluster.take("n0-" + std::to_string(i), "x", {1000, 0});
  EXPECT_FALSE(outdated());  // 73 of 80 are left
  cluster.take("n1-0", "x", {1000, 0});
  EXPECT_TRUE(outdated());
  for (int i = 0; i < 8; ++i) cluster.giveBack("n0-" + std::to_string(i), "x");
  EXPECT_FALSE(outdated());
  for (int i = 0; i < 100; ++i) demand.observe(share(500));
  EXPECT_FALSE(outdated());
  for (int i = 0; i < 200; ++i) demand.observe(share(800));
  EXPECT_TRUE(outdated());
}

/// Nodes of 8 cards and of 1 card, and pods of one card. The first pods must not break up the sets of 8 that are
/// requested occasionally.
TEST(Prices, SetsOfEightAreReservedForThoseWhoNeedThem) {
  Cluster cluster;
  for (int n = 0; n < 4; ++n) addModelNode(cluster, "a" + std::to_string(n), 8);
  for (int n = 0; n < 32; ++n) addModelNode(cluster, "b" + std::to_string(n), 1);
  int eights = 0, ones = 0;
  for (int i = 0; i < 36; ++i) {
    const Request request = i % 9 == 8 ? whole(8) : whole(1);
    cluster.observe(request);
    const Decision decision = decide(cluster, request);
    ASSERT_TRUE(decision.fits) << "request " << i;
    scheduler::testing::commit(cluster, decision, "d" + std::to_string(i));
    (request.cards == 8 ? eights : ones) += 1;
  }
  EXPECT_EQ(eights, 4);
  EXPECT_EQ(ones, 32);
}

}  // namespace
}  // namespace egpu::scheduler::fragmentation
