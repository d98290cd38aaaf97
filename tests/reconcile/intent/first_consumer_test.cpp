// WaitForFirstConsumer: which node is chosen for a pod, and how a choice is revised that the scheduler can't use.
#include <functional>

#include "tests/reconcile/fixture.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::reconcile {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using support::StockScheduler;
using support::World;

/// Two nodes of 64 CPUs: n1 with two cards, n2 with one.
class FirstConsumerTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addNode("n2", {{"zone", "y"}});
    world.addCard("n2", 0);
    settle();
  }
  void claims(const std::vector<std::string>& names) {
    for (const auto& name : names) world.addClaim(name, "late", {{"gpu-core", "10"}});
  }
  void pod(const std::string& name, const std::vector<std::string>& claims,
           const std::function<void(core::Pod&)>& change) {
    auto made = World::podOf(name, claims);
    change(made);
    (void)World::must(world.client.create(made));
  }
  /// f1, f2 and f3 hold all cards, and pod p waits for a claim of two.
  void largeClaimWaits() {
    for (const auto* name : {"f1", "f2", "f3"}) world.addClaim(name, "share", {{"gpu", "1"}});
    settle();
    world.addClaim("large", "late", {{"gpu", "2"}});
    world.addPod("p", {"large"});
    settle();
  }
  /// Releases one of the claims f1, f2, … on n1, so that pending claims are tried again.
  void triesAgainAfter(seconds time) {
    world.clock.advance(time);
    const auto claims = world.client.listAll<cache::Claim>({});
    for (const auto& claim : *claims)
      if (claim.metadata.name.front() == 'f' && claim.status.nodeName == "n1") {
        world.removeClaim(claim.metadata.name);
        break;
      }
    settle();
  }
  /// Returns the node of the claim's allocation; empty: none.
  std::string nodeOf(const std::string& claim) {
    const auto resourceClaim = world.resourceClaim(claim);
    return resourceClaim && resourceClaim->allocation ? resourceClaim->allocation->nodeName : "";
  }
  bool gated(const std::string& name) { return !world.pod(name).schedulingGates.empty(); }
  /// Runs controller and scheduler alternately, with a little time in between.
  void rounds(int n, std::chrono::milliseconds each = seconds(10)) {
    for (int i = 0; i < n; ++i) {
      driver->run(each);
      world.clock.advance(each);
      (void)scheduler.round();
      driver->settle();
    }
  }
  StockScheduler scheduler{world};
};

TEST_F(FirstConsumerTest, W8_ReportsThatThePodIsNotPlacedAfterFiveSeconds) {
  claims({"a"});
  world.addPod("p", {"a"});
  driver->settle();
  ASSERT_NE(nodeOf("a"), "");
  EXPECT_EQ(world.message("a", "Bound"), "") << "the scheduler is expected to place the pod soon";
  driver->run(seconds(10));
  EXPECT_EQ(world.reason("a", "Bound"), "WaitingForConsumer");
  EXPECT_NE(world.message("a", "Bound").find("until the scheduler places the pod"), std::string::npos);
}

TEST_F(FirstConsumerTest, W8_ReplacesAnEarlierObstacleAtOnce) {
  largeClaimWaits();
  ASSERT_EQ(world.reason("large", "Bound"), "NoFit");
  for (const auto* name : {"f1", "f2", "f3"}) world.removeClaim(name);
  settle();
  ASSERT_NE(nodeOf("large"), "");
  EXPECT_EQ(world.reason("large", "Bound"), "WaitingForConsumer");
}

TEST_F(FirstConsumerTest, W9_ClaimWithDeviceAndItsGatedPodGoFirst) {
  const auto claimFirst = [this] { return driver->reconciler.goesFirst("claim/default/a"); };
  const auto podFirst = [this] { return driver->reconciler.goesFirst("pod/default/p"); };
  claims({"a"});
  settle();
  EXPECT_FALSE(claimFirst()) << "it waits for a pod";
  world.addPod("p", {"a"});
  int decided = 0, allocated = 0;
  for (bool more = true; more;) {
    more = driver->poll();
    const auto resourceClaim = driver->stores.resourceClaims.get({"default", "a"});
    const auto pod = driver->stores.pods.get({"default", "p"});
    const bool hasDevice = !driver->stores.devicesOfClaim(world.claim("a").metadata.uid).empty();
    const bool isGated = pod && !pod->schedulingGates.empty();
    EXPECT_EQ(claimFirst(), hasDevice);
    EXPECT_EQ(podFirst(), isGated);
    decided += hasDevice && isGated;
    allocated += resourceClaim && resourceClaim->allocation && isGated;
    more = driver->stepOnce() || more;
  }
  EXPECT_GT(decided, allocated) << "seen between W1 and W8";
  EXPECT_GT(allocated, 0) << "seen between W8 and W9";
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(claimFirst());
}

TEST_F(FirstConsumerTest, C5_PodDoesNotGoFirstAfterASearchInVain) {
  world.addClaim("large", "late", {{"gpu", "8"}});
  world.addPod("p", {"large"});
  EXPECT_FALSE(driver->reconciler.goesFirst("pod/default/p")) << "nothing is known of it";
  while (!driver->stores.pods.get({"default", "p"})) ASSERT_TRUE(driver->poll());
  EXPECT_TRUE(driver->reconciler.goesFirst("pod/default/p"));
  settle();
  EXPECT_EQ(world.reason("large"), "NoFit");
  EXPECT_FALSE(driver->reconciler.goesFirst("pod/default/p"));
}

TEST_F(FirstConsumerTest, ANodeIsReservedOnlyWhileAPodWantsTheClaim) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  for (const auto* name : {"f1", "f2", "f3"}) world.addClaim(name, "share", {{"gpu", "1"}});
  world.addClaim("large", "late", {{"gpu", "2"}});
  settle();
  world.clock.advance(minutes(60));
  world.addPod("p", {"large"});
  settle();
  ASSERT_EQ(world.reason("large"), "NoFit");
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty()) << "nobody had asked for it in the hour before";
  triesAgainAfter(seconds(601));
  ASSERT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << world.message("large");
  world.removePod("p");
  settle();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty()) << "its pod is gone";
  world.nextSecond();
  world.addClaim("next", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.claim("next").status.phase, "Bound") << world.message("next");
}

TEST_F(FirstConsumerTest, ANodeIsReservedWhereSomeAreLikedBetter) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  world.addNode("n3");  // without cards, and most preferred
  for (const auto* name : {"n1", "n2"})
    world.json<core::Node>({"", name}, R"({"spec":{"taints":[{"key":"gpus","effect":"PreferNoSchedule"}]}})");
  largeClaimWaits();
  ASSERT_EQ(world.reason("large"), "NoFit") << world.message("large");
  triesAgainAfter(seconds(601));
  ASSERT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << world.message("large");
  EXPECT_EQ(driver->cluster.queries().nodeReservations().front().node, "n1");
}

TEST_F(FirstConsumerTest, ANodeIsReservedWhoseHoldersHaveItsCpuToo) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  const auto asks = [](const char* cpu) { return [cpu](auto& p) { p.containers[0].requests = {{"cpu", cpu}}; }; };
  for (const std::string name : {"f1", "f2", "f3"}) {
    world.addClaim(name, "share", {{"gpu", "1"}});
    settle();
    pod("of-" + name, {name}, asks("30"));
    settle();
    world.schedule("of-" + name);
    settle();
  }
  world.addClaim("large", "late", {{"gpu", "1"}});
  pod("p", {"large"}, asks("50"));
  world.addClaim("larger", "late", {{"gpu", "1"}});
  pod("q", {"larger"}, asks("600"));
  settle();
  world.clock.advance(seconds(601));
  driver->run();
  ASSERT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << world.message("large");
  EXPECT_EQ(driver->cluster.queries().nodeReservations().front().name, "default/large")
      << "no node would ever do for the other";
  driver->run(seconds(120));
  EXPECT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << "for as long as its CPU is not";
}

TEST_F(FirstConsumerTest, AClaimReportsItsReservation) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  largeClaimWaits();
  EXPECT_EQ(world.message("large").find("reserved"), std::string::npos) << world.message("large");
  triesAgainAfter(seconds(601));
  EXPECT_NE(world.message("large").find("; node n1 is reserved for it, for 24 hours at most"), std::string::npos)
      << world.message("large");
  const auto writes = this->writes();
  driver->run(minutes(5));
  EXPECT_EQ(this->writes(), writes) << "the text stays the same";
}

TEST_F(FirstConsumerTest, NoNodeIsReservedWherePodsThatAreReplacedHaveTheCardsOrTheCpu) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  // The embedded server has no ReplicaSets, and deletes pods whose owner does not exist.
  const auto node = World::must(world.client.get<core::Node>({"", "n1"}));
  const auto replaced = [&node](core::Pod& p) {
    p.metadata.ownerReferences = {{"v1", "Node", "n1", node.metadata.uid, true}};
    p.containers[0].requests = {{"cpu", "30"}};
  };
  for (const std::string name : {"f1", "f2", "f3"}) {
    world.addClaim(name, "share", {{"gpu", "1"}});
    settle();
    pod("of-" + name, {name}, replaced);
    settle();
    world.schedule("of-" + name);
    settle();
  }
  world.addClaim("large", "late", {{"gpu", "2"}});
  world.addPod("p", {"large"});
  world.addClaim("small", "late", {{"gpu-core", "10"}});
  pod("q", {"small"}, [](auto& p) { p.containers[0].requests = {{"cpu", "50"}}; });
  settle();
  world.clock.advance(seconds(601));
  driver->run();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  EXPECT_NE(world.message("large").find("is used by claims that are not expected to end"), std::string::npos)
      << world.message("large");
}

TEST_F(FirstConsumerTest, NoNodeIsReservedWhoseCpuPodsWithoutClaimsHave) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  for (const auto* name : {"n1", "n2"}) world.occupy(std::string("on-") + name, name, "60");
  world.addClaim("large", "late", {{"gpu", "1"}});
  pod("p", {"large"}, [](auto& p) { p.containers[0].requests = {{"cpu", "50"}}; });
  settle();
  world.clock.advance(seconds(601));
  driver->run();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty()) << "they would stay, and the cards stand idle";
}

TEST_F(FirstConsumerTest, NoNodeIsReservedForAnAlternativeThatIsOverItsQuota) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "4"}};
  (void)World::must(world.client.create(quota));
  for (const auto* name : {"f1", "f2", "f3"}) world.addClaim(name, "share", {{"gpu", "1"}});
  settle();
  cache::Claim claim;
  claim.metadata.name = "either";
  claim.metadata.namespace_ = "default";
  claim.spec.className = "late";
  claim.spec.firstAvailable = {{"two", {}, {{"elasticgpu.io/gpu", "2"}}},
                               {"other", {"nobody's"}, {{"elasticgpu.io/gpu", "1"}}}};
  (void)World::must(world.client.create(claim));
  world.addPod("p", {"either"});
  settle();
  world.clock.advance(seconds(601));
  driver->run();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty()) << world.message("either");
}

TEST_F(FirstConsumerTest, NoNodeIsReservedForLongForAPodThatCanNotChoose) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  for (const auto* name : {"f1", "f2", "f3"}) world.addClaim(name, "share", {{"gpu", "1"}});
  settle();
  for (const auto* name : {"one", "two"}) world.addClaim(name, "late", {{"gpu", "1"}});
  world.addPod("p", {"one", "two"});
  settle();
  triesAgainAfter(seconds(601));
  ASSERT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << world.message("one");
  const bool first = driver->cluster.queries().nodeReservations().front().name == "default/one";
  world.removeClaim(first ? "two" : "one");
  settle();
  for (int i = 0; i < 15; ++i) driver->run(seconds(60));
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
}

TEST_F(FirstConsumerTest, ANodeStaysReservedWhereNothingHappens) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  largeClaimWaits();
  triesAgainAfter(seconds(601));
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(driver->cluster.queries().nodeReservations().size(), 1u) << i;
    driver->run(seconds(60));
  }
}

TEST_F(FirstConsumerTest, CpuMemoryAndStorageOfAllPodsCount) {
  world.occupy("other", "n1", "60");
  claims({"a"});
  pod("p", {"a"}, [](auto& p) { p.containers[0].requests = {{"cpu", "8"}}; });
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
  claims({"b"});
  pod("q", {"b"}, [](auto& p) { p.containers[0].requests = {{"memory", "300Gi"}}; });
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  EXPECT_NE(world.message("b").find("nodes that don't suit pod q: 2 short of memory (the pod requests 300Gi)"),
            std::string::npos)
      << world.message("b");
  claims({"c"});
  pod("r", {"c"}, [](auto& p) { p.containers[0].requests = {{"ephemeral-storage", "101Gi"}}; });
  settle();
  EXPECT_EQ(world.reason("c"), "NoFit");
}

TEST_F(FirstConsumerTest, TwoPodsAtOnceDontGetTheSameCpu) {
  claims({"a", "b", "c"});
  for (const auto* name : {"a", "b", "c"})
    pod(std::string("p-") + name, {name}, [](auto& p) { p.containers[0].requests = {{"cpu", "40"}}; });
  settle();
  std::multiset<std::string> nodes;
  for (const auto* name : {"a", "b", "c"}) nodes.insert(nodeOf(name));
  EXPECT_EQ(nodes, (std::multiset<std::string>{"", "n1", "n2"}));
}

TEST_F(FirstConsumerTest, CapacityThatAPodWithoutClaimsGivesBackIsNoticedByEvent) {
  world.occupy("other-1", "n1", "60");
  world.occupy("other-2", "n2", "60");
  claims({"a"});
  pod("p", {"a"}, [](auto& p) { p.containers[0].requests = {{"cpu", "8"}}; });
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.json<core::Pod>({"default", "other-2"}, R"({"status":{"phase":"Succeeded"}})", "status");
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
}

TEST_F(FirstConsumerTest, TheLimitOfPods) {
  world.json<core::Node>({"", "n1"}, R"({"status":{"allocatable":{"pods":"1"}}})", "status");
  world.json<core::Node>({"", "n2"}, R"({"status":{"allocatable":{"pods":"1"}}})", "status");
  world.occupy("other", "n1", "1");
  claims({"a", "b"});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
  world.addPod("q", {"b"});
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  world.json<core::Node>({"", "n1"}, R"({"status":{"allocatable":{"pods":"2"}}})", "status");
  settle();
  EXPECT_EQ(nodeOf("b"), "n1");
}

TEST_F(FirstConsumerTest, PreferredNodesAndTaintsToAvoid) {
  claims({"a", "b", "c"});
  pod("p", {"a"}, [](auto& p) { p.preferredNodeAffinity = {{10, {{{"zone", "In", {"y"}}}, {}}}}; });
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
  world.json<core::Node>({"", "n1"}, R"({"spec":{"taints":[{"key":"busy","effect":"PreferNoSchedule"}]}})");
  settle();
  world.addPod("q", {"b"});
  settle();
  EXPECT_EQ(nodeOf("b"), "n2");
  // A preference that can't be met is ignored.
  world.addClaim("large", "late", {{"gpu", "2"}});
  pod("r", {"large"}, [](auto& p) { p.preferredNodeAffinity = {{100, {{{"zone", "In", {"y"}}}, {}}}}; });
  settle();
  EXPECT_EQ(nodeOf("large"), "n1");
}

TEST_F(FirstConsumerTest, AllClaimsOfThePodTogether) {
  world.addClaim("bound", "share", {{"gpu-core", "10"}}, "gpu-n2-0");
  claims({"a", "b"});
  world.addPod("p", {"a", "bound", "b"});
  settle();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(nodeOf("b"), "n2");
  EXPECT_FALSE(gated("p"));
  world.addClaim("large", "late", {{"gpu", "2"}});
  world.addPod("q", {"large", "bound"});
  settle();
  EXPECT_EQ(world.reason("large"), "NoFit");
  EXPECT_NE(world.message("large").find("claim bound of pod q is on node n2"), std::string::npos)
      << world.message("large");
}

TEST_F(FirstConsumerTest, AClearedChoiceIsFollowedByAnotherNodeAndReportedOnTheClaim) {
  claims({"a"});
  world.addPod("p", {"a"});
  settle();
  const auto first = nodeOf("a");
  world.json<core::Pod>({"default", "p"},
                        R"({"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",)"
                        R"("message":"0/2 nodes are available: 1 node(s) had a host port in use."}]}})",
                        "status");
  world.clearAllocation("a");
  settle();
  EXPECT_NE(nodeOf("a"), first);
  EXPECT_NE(nodeOf("a"), "");
  EXPECT_EQ(countEvents("a Warning NodeUnsuitable node " + first +
                        " is no longer used: the scheduler could not place pod p there: " +
                        "0/2 nodes are available: 1 node(s) had a host port in use."),
            1);
  EXPECT_NE(world.message("a").find("node " + first + " is not tried for a while"), std::string::npos)
      << world.message("a");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodThatFitsNowhereIsTriedEverMoreSeldom) {
  claims({"a"});
  world.addPod("p", {"a"});
  settle();
  // The scheduler always clears the allocation, for reasons of its own.
  int cleared = 0;
  const auto advanceHours = [&](int n) {
    cleared = 0;
    for (int i = 0; i < n * 120; ++i) {
      driver->run(seconds(30));
      world.clock.advance(seconds(30));
      if (nodeOf("a").empty()) continue;
      world.clearAllocation("a");
      ++cleared;
    }
    return cleared;
  };
  EXPECT_LT(advanceHours(1), 20);
  EXPECT_LT(advanceHours(3), 12);
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, nodeOf("a").empty() ? 0 : 100);
  // A changed node is tried immediately.
  driver->run(seconds(1));
  world.json<core::Node>({"", "n2"}, R"({"metadata":{"labels":{"zone":"z"}}})");
  driver->run(minutes(5));
  EXPECT_EQ(nodeOf("a"), "n2");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodThatIsNotPlacedInTimeGoesElsewhere) {
  claims({"a"});
  world.addPod("p", {"a"});
  settle();
  const auto first = nodeOf("a");
  world.clock.advance(minutes(4));
  driver->run(seconds(10));
  EXPECT_EQ(nodeOf("a"), first);
  driver->run(minutes(2));
  EXPECT_NE(nodeOf("a"), "");
  EXPECT_NE(nodeOf("a"), first);
  EXPECT_EQ(countEvents("a Warning NodeUnsuitable node " + first +
                        " is no longer used: the scheduler has not placed pod p there in 5 minutes"),
            1);
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, NoNodeIsChosenForAPodWhileItIsBehindAnothersGate) {
  claims({"a"});
  pod("p", {"a"}, [](auto& p) { p.schedulingGates.push_back("example.com/quota"); });
  settle();
  driver->run(minutes(30));
  EXPECT_EQ(nodeOf("a"), "");
  EXPECT_EQ(countEvents("a Warning NodeUnsuitable"), 0);
  EXPECT_EQ(world.pod("p").schedulingGates.size(), 2u);
  world.json<core::Pod>({"default", "p"}, R"({"spec":{"schedulingGates":[{"name":"elasticgpu.io/claims"}]}})");
  settle();
  EXPECT_NE(nodeOf("a"), "");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.removePod("p");
}

TEST_F(FirstConsumerTest, WhatTheSchedulerDidNotClearIsNotMovedUnderIt) {
  claims({"a", "b"});
  world.addPod("p", {"a", "b"});
  settle();
  const auto first = nodeOf("b");
  world.clearAllocation("a");  // only one of the two claims
  settle();
  EXPECT_EQ(nodeOf("b"), "") << "a binding under way must find nothing to reserve";
  driver->run(seconds(10));
  EXPECT_NE(nodeOf("b"), "");
  EXPECT_NE(nodeOf("b"), first);
  EXPECT_EQ(nodeOf("a"), nodeOf("b"));
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodDeletedBeforeItRanFreesItsChoice) {
  claims({"a"});
  pod("p", {"a"}, [](auto& p) {
    p.metadata.finalizers = {"example.com/hold"};
    p.containers[0].requests = {{"cpu", "64"}};
  });
  settle();
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 100);
  const auto node = nodeOf("a");
  EXPECT_EQ(driver->stores.usage.of(node, {}).requests.cpuMilli, 64'000);
  (void)world.client.remove<core::Pod>({"default", "p"}, R"({"gracePeriodSeconds":0})");
  driver->run();
  EXPECT_TRUE(world.pod("p").metadata.deleting()) << "somebody's finalizer holds it";
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0);
  EXPECT_EQ(driver->stores.usage.of(node, {}).requests.cpuMilli, 0);
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"finalizers":null}})");
}

TEST_F(FirstConsumerTest, ANodeCordonedBeforeThePodIsLetGoIsGivenUp) {
  claims({"a"});
  // The ResourceClaim's name is taken, so that the pod keeps its gate.
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  (void)World::must(world.client.create(foreign));
  world.addPod("p", {"a"});
  settle();
  const auto first = world.gpu(deviceOf("a")).spec.nodeName;
  world.json<core::Node>({"", first}, R"({"spec":{"unschedulable":true}})");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  EXPECT_FALSE(gated("p"));
  EXPECT_NE(nodeOf("a"), "");
  EXPECT_NE(nodeOf("a"), first);
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodThatTheChosenNodeDoesNotSuitWaitsAndTakesItFromNobody) {
  claims({"a"});
  world.addPod("p", {"a"}, true, {{"zone", "y"}});
  settle();
  ASSERT_EQ(nodeOf("a"), "n2");
  world.addPod("q", {"a"}, true, {{"zone", "elsewhere"}});
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"elsewhere"}}})");
  driver->run(minutes(1));
  EXPECT_TRUE(gated("q"));
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_NE(world.message("a", "ResourceClaimReady").find("pod q can't run on node n2, chosen for another pod"),
            std::string::npos)
      << world.message("a", "ResourceClaimReady");
  world.schedule("p");
  driver->run(minutes(1));
  EXPECT_EQ(world.claim("a").status.nodeName, "n2");
  EXPECT_TRUE(gated("q"));
  world.removePod("q");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, WhereNoNodeHasCapacityThePodsOfLowerPriorityMayGoAndOnlyOnce) {
  world.occupy("low-1", "n1", "60");
  world.occupy("low-2", "n2", "60");
  claims({"a"});
  pod("p", {"a"}, [](auto& p) {
    p.priority = 1000;
    p.containers[0].requests = {{"cpu", "30"}};
  });
  driver->run();
  ASSERT_NE(nodeOf("a"), "") << world.message("a");
  rounds(20);
  EXPECT_EQ(scheduler.count("p evicted"), 1);
  EXPECT_EQ(scheduler.count("p placed"), 1);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodThatMayNotEvictWaits) {
  world.occupy("low-1", "n1", "60");
  world.occupy("low-2", "n2", "60");
  claims({"a"});
  pod("p", {"a"}, [](auto& p) {
    p.priority = 1000;
    p.preempts = false;
    p.containers[0].requests = {{"cpu", "30"}};
  });
  driver->run();
  EXPECT_EQ(nodeOf("a"), "");
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.removePod("p");
}

TEST_F(FirstConsumerTest, APodThatCanBePlacedNowhereHoldsUpNoOther) {
  // The pod asks for too much CPU; only the scheduler knows that.
  claims({"a"});
  pod("p", {"a"}, [](auto& p) { p.containers[0].requests = {{"cpu", "60"}}; });
  settle();
  const auto node = nodeOf("a");
  world.json<core::Pod>(
      {"default", "p"},
      R"({"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no"}]}})",
      "status");
  settle();
  EXPECT_EQ(driver->stores.usage.of(node, {}).requests.cpuMilli, 0);
  world.removePod("p");
}

TEST_F(FirstConsumerTest, FiftyPodsOfTwoClaimsEachRunWithTheScheduler) {
  for (int n = 3; n < 13; ++n) {
    const auto name = "n" + std::to_string(n);
    world.addNode(name);
    for (int i = 0; i < 2; ++i) world.addCard(name, i);
  }
  for (int i = 0; i < 50; ++i) {
    const auto n = std::to_string(i);
    claims({"a" + n, "b" + n});
    pod("p" + n, {"a" + n, "b" + n}, [](auto& p) { p.containers[0].requests = {{"cpu", "12"}}; });
  }
  rounds(6);
  for (int i = 0; i < 50; ++i) {
    const auto n = std::to_string(i);
    const auto p = world.pod("p" + n);
    EXPECT_NE(p.nodeName, "") << i;
    for (const auto* claim : {"a", "b"}) {
      EXPECT_EQ(world.claim(claim + n).status.phase, "Bound");
      EXPECT_EQ(world.claim(claim + n).status.nodeName, p.nodeName);
    }
  }
  EXPECT_EQ(world.violation(), "");
}

}  // namespace
}  // namespace egpu::reconcile
