// CPU and memory of nodes: a pod's node resources decide together with its cards where it fits.
#include <gtest/gtest.h>

#include <string>

#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

/// Two nodes of two cards with 8 CPUs and 32 GiB, and a node without stated capacity.
Cluster three() {
  Cluster cluster;
  cluster.upsertNode({"a", true, 8000, 32 * kGi});
  cluster.upsertNode({"b", true, 8000, 32 * kGi});
  cluster.upsertNode({"unknown", true});
  for (const char* node : {"a", "b", "unknown"})
    for (int c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  return cluster;
}

Request pod(int64_t cpuMilli, int64_t memory, int64_t cards = 1) {
  Request r;
  r.cards = cards;
  if (cards > 0) r.perCard = {100, kGi};
  r.cpuMilli = cpuMilli;
  r.podMemory = memory;
  return r;
}

TEST(NodeResources, ANodeShortOfThemIsSkipped) {
  Cluster cluster = three();
  cluster.take("a0", "d", {500, kGi}, {5000, 8 * kGi});
  EXPECT_EQ(decide(cluster, pod(3000, 24 * kGi)).node, "a") << "exactly what is left";
  EXPECT_EQ(decide(cluster, pod(3001, 24 * kGi)).node, "b");
  EXPECT_EQ(decide(cluster, pod(3000, 24 * kGi + 1)).node, "b");
  EXPECT_EQ(decide(cluster, pod(0, 0)).node, "a") << "who does not ask is not held up";
  EXPECT_EQ(decide(cluster, pod(8001, 0)).node, "unknown") << "what is unknown is no constraint";
  cluster.removeNode("unknown");
  EXPECT_FALSE(decide(cluster, pod(8001, 0)).fits);
}

TEST(NodeResources, ComeBackWithTheTake) {
  Cluster cluster = three();
  cluster.take("a0", "d", {500, kGi}, {5000, 8 * kGi});
  cluster.take("a1", "d", {500, kGi});
  EXPECT_EQ(cluster.nodeUsed("a"), (NodeAmount{5000, 8 * kGi}));
  cluster.take("a0", "d", {500, kGi}, {6000, kGi});
  EXPECT_EQ(cluster.nodeUsed("a"), (NodeAmount{6000, kGi})) << "replaced, not added";
  cluster.giveBack("a1", "d");
  EXPECT_EQ(cluster.nodeUsed("a"), (NodeAmount{6000, kGi}));
  cluster.giveBack("a0", "d");
  EXPECT_EQ(cluster.nodeUsed("a"), NodeAmount{});
  cluster.take("a0", "d", {500, kGi}, {6000, kGi});
  cluster.removeCard("a0");
  EXPECT_EQ(cluster.nodeUsed("a"), NodeAmount{});
}

TEST(NodeResources, GoWithACardToItsNewNode) {
  Cluster cluster = three();
  cluster.take("a0", "d", {500, kGi}, {5000, 8 * kGi});
  cluster.upsertCard(makeCard("a0", "b", 5));
  EXPECT_EQ(cluster.nodeUsed("a"), NodeAmount{});
  EXPECT_EQ(cluster.nodeUsed("b"), (NodeAmount{5000, 8 * kGi}));
}

TEST(NodeResources, AreTakenByPodsWithoutCardsToo) {
  Cluster cluster = three();
  EXPECT_TRUE(cluster.takeOfNode("a", "pod", {6000, kGi}));
  EXPECT_TRUE(cluster.takeOfNode("a", "pod", {7000, kGi})) << "replaces the earlier amount";
  EXPECT_FALSE(cluster.takeOfNode("gone", "pod", {6000, kGi}));
  EXPECT_EQ(cluster.nodeUsed("a"), (NodeAmount{7000, kGi}));
  EXPECT_EQ(cluster.nodeUsed("gone"), NodeAmount{});
  EXPECT_EQ(decide(cluster, pod(2000, 0)).node, "b");
  cluster.giveBackOfNode("a", "pod");
  cluster.giveBackOfNode("a", "pod");
  cluster.giveBackOfNode("gone", "pod");
  EXPECT_EQ(cluster.nodeUsed("a"), NodeAmount{});
  cluster.takeOfNode("a", "pod", {7000, kGi});
  cluster.removeNode("a");
  cluster.upsertNode({"a", true, 8000, 32 * kGi});
  EXPECT_EQ(cluster.nodeUsed("a"), NodeAmount{}) << "a node that went is forgotten with its pods";
}

TEST(NodeResources, MoreThanThereIsLeavesNothing) {
  Cluster cluster = three();
  cluster.removeNode("unknown");
  cluster.takeOfNode("a", "pod", {9000, 33 * kGi});
  cluster.upsertNode({"b", true, 0, 32 * kGi});
  EXPECT_EQ(decide(cluster, pod(1, 0)).node, "b");
  EXPECT_EQ(decide(cluster, pod(0, 1)).node, "b");
  EXPECT_EQ(decide(cluster, pod(0, 0)).node, "a");
  EXPECT_EQ(decide(cluster, pod(1 << 30, 1)).node, "b") << "its CPU is not known";
}

TEST(NodeResources, ARequestOfNoCardsTakesOnlyTheNode) {
  Cluster cluster = three();
  cluster.upsertNode({"bare", true, 16000, 64 * kGi});
  const Decision decision = decide(cluster, pod(9000, kGi, 0));
  ASSERT_TRUE(decision.fits);
  EXPECT_EQ(decision.node, "bare") << "nothing to hand out counts as full: nodes with cards are spared";
  EXPECT_TRUE(decision.placements.empty());
  cluster.removeNode("bare");
  EXPECT_EQ(decide(cluster, pod(9000, kGi, 0)).node, "unknown");
  cluster.removeNode("unknown");
  EXPECT_FALSE(decide(cluster, pod(9000, kGi, 0)).fits);
  EXPECT_TRUE(decide(cluster, pod(8000, kGi, 0)).fits);
}

TEST(NodeResources, AreExplainedAsStages) {
  Cluster cluster = three();
  cluster.removeNode("unknown");
  cluster.removeCard("unknown0");
  cluster.removeCard("unknown1");
  cluster.take("a0", "d", {500, kGi}, {5500, 8 * kGi});
  cluster.take("b0", "e", {500, kGi}, {1000, 30 * kGi});
  const Explanation e = explain(cluster, pod(4000, 4 * kGi));
  ASSERT_GE(e.stages.size(), 3u);
  EXPECT_EQ(e.stages[1], (StageReport{"node cpu", 2, 1, {{"short of free CPU (need 4, best has 2500m)", 1}}}));
  EXPECT_EQ(e.stages[2],
            (StageReport{"node memory", 1, 0, {{"short of free node memory (need 4Gi, best has 2Gi)", 1}}}));
  EXPECT_EQ(e.text(),
            "0/2 nodes fit: 1 short of free CPU (need 4, best has 2500m), 1 short of free node memory "
            "(need 4Gi, best has 2Gi); add 1 card with at least 1Gi");
  const Explanation alone = explain(cluster, pod(9000, 0, 0));
  EXPECT_EQ(alone.text(), "0/2 nodes fit: 2 short of free CPU (need 9, best has 7)");
  EXPECT_EQ(explain(cluster, pod(0, 0)).stages[1].stage, "health") << "who does not ask hears nothing of them";
}

}  // namespace
}  // namespace egpu::scheduler::testing
