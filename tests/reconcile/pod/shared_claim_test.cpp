// Pods that share one claim with the mode WaitForFirstConsumer: which of them choose its node, and the claim's
// conditions meanwhile.
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "controller/reconcile/pod/consumer_rounds.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using std::chrono::seconds;
using support::World;

/// Counts searches for a node, which are the cost of many pods.
class SharedClaimTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    driver->cluster.onDecision([this](bool, double) { ++searches; });
    world.addClaim("shared", "late", {{"gpu-core", "10"}});
    settle();
  }
  void pod(const std::string& name, const std::vector<std::string>& claims,
           const std::function<void(core::Pod&)>& change) {
    auto made = World::podOf(name, claims);
    change(made);
    (void)World::must(world.client.create(made));
  }
  /// p100, p101, …: created in the same second, ordered by name.
  void equalPods(int count) {
    for (int i = 0; i < count; ++i) world.addPod("p" + std::to_string(100 + i), {"shared"}, true, {{"zone", "none"}});
  }
  int searchesOf(const std::function<void()>& change) {
    searches = 0;
    change();
    settle();
    return searches;
  }
  int gatedPods() {
    const auto pods = world.client.listAll<core::Pod>({});
    return static_cast<int>(
        std::count_if(pods->begin(), pods->end(), [](const auto& each) { return !each.schedulingGates.empty(); }));
  }
  int searches = 0;
};

TEST_F(SharedClaimTest, OfEqualPodsOneChooses) {
  world.addClaim("other", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_LE(searchesOf([&] { equalPods(40); }), 4);
  EXPECT_EQ(world.reason("shared"), "NoFit");
  EXPECT_NE(world.message("shared").find("40 pods use the claim: of equal pods the oldest one chooses its node"),
            std::string::npos)
      << world.message("shared");
  EXPECT_LE(searchesOf([&] { world.removeClaim("other"); }), 4) << "room is freed";
  EXPECT_LE(searchesOf([&] { world.addPod("q", {"shared"}, true, {{"zone", "none"}}); }), 4) << "one pod more";
  EXPECT_LE(searchesOf([&] { world.removePod("p120"); }), 4) << "one pod less";
  EXPECT_EQ(countEvents("p139 Warning WaitingForClaim claim shared: "), 1)
      << "every pod names the claim that it waits for";
  world.clock.advance(seconds(60));
  EXPECT_LE(searchesOf([&] { world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"none"}}})"); }), 4);
  EXPECT_EQ(gatedPods(), 0) << "the others follow once the claim has a node";
}

TEST_F(SharedClaimTest, AnEqualPodReplacesTheOneThatChose) {
  equalPods(20);
  settle();
  const auto pods = world.client.listAll<core::Pod>({});
  for (const auto& each : *pods)
    if (each.metadata.name != "p119") world.removePod(each.metadata.name);
  settle();
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"none"}}})");
  driver->run();
  EXPECT_EQ(gatedPods(), 0) << world.message("shared");
}

TEST_F(SharedClaimTest, PodsThatDifferChooseInRounds) {
  const auto zone = [](const std::string& name) {
    return [name](core::Pod& made) { made.nodeSelector = {{"zone", name}}; };
  };
  const auto begun = searchesOf([&] {
    for (int i = 0; i < 40; ++i) pod("p" + std::to_string(100 + i), {"shared"}, zone("z" + std::to_string(i)));
  });
  constexpr int kMax = ConsumerRounds::kMaxFirst + ConsumerRounds::kMaxNext;
  EXPECT_LE(begun, 2 * kMax + 1) << "the oldest pod searches once more to report, when the explanation is ready";
  EXPECT_NE(world.message("shared").find("in turns, 4 others"), std::string::npos) << world.message("shared");
  world.addClaim("other", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_LE(searchesOf([&] { world.removeClaim("other"); }), 2 * kMax);
  // None of the oldest pods fits the node.
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"z30"}}})");
  settle();
  driver->run(seconds(120));
  EXPECT_FALSE(world.resourceClaim("shared")->allocation->nodeName.empty());
  EXPECT_TRUE(world.pod("p130").schedulingGates.empty());
}

TEST_F(SharedClaimTest, AnOwnClaimOfAPodThatDoesNotChooseNamesTheSharedOne) {
  equalPods(20);
  world.nextSecond();
  world.addClaim("own", "late", {{"gpu-core", "10"}});
  for (int i = 0; i < 30; ++i)
    pod("q" + std::to_string(100 + i), {"shared"}, [i](core::Pod& made) {
      made.nodeSelector = {{"zone", "q" + std::to_string(i)}};
    });
  world.nextSecond();
  world.addPod("last", {"shared", "own"}, true, {{"zone", "none"}});
  settle();
  EXPECT_EQ(world.reason("own"), "WaitingForConsumer");
  EXPECT_EQ(world.message("own"), "waits for claim shared of pod last: all claims of a pod go to one node");
}

TEST_F(SharedClaimTest, WhatItsPodsWaitForIsReportedForTheOldestOne) {
  for (const auto* name : {"p", "q"}) {
    world.addPod(name, {"shared", std::string("missing-") + name});
    world.nextSecond();
  }
  settle();
  EXPECT_EQ(world.message("shared"), "waits for claim missing-p of pod p: all claims of a pod go to one node");
  const auto writes = this->writes();
  driver->run(seconds(60));
  EXPECT_EQ(this->writes(), writes);
  world.removePod("p");
  settle();
  EXPECT_EQ(world.message("shared"), "waits for claim missing-q of pod q: all claims of a pod go to one node");
  // A pod that can choose reports its own obstacle.
  world.addPod("r", {"shared"}, true, {{"zone", "none"}});
  driver->run(seconds(60));
  EXPECT_EQ(world.reason("shared"), "NoFit") << world.message("shared");
}

TEST_F(SharedClaimTest, ManyPodsThatWaitForAnotherClaimReportItOnce) {
  for (int i = 0; i < 30; ++i) world.addPod("p" + std::to_string(100 + i), {"shared", "missing"});
  const auto before = writes();
  settle();
  EXPECT_EQ(world.reason("shared"), "WaitingForConsumer");
  EXPECT_NE(world.message("shared").find("waits for claim missing of pod p1"), std::string::npos)
      << world.message("shared");
  EXPECT_LE(writes() - before, 2u);
  world.addClaim("missing", "late", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(gatedPods(), 0);
}

}  // namespace
}  // namespace egpu::reconcile
