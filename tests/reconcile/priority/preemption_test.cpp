// Priority of claims, room that is made for one by preemption and kept for it, and the order of those who wait.
#include "controller/reconcile/priority/preemption.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using support::World;

class PreemptionTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}, {"movable", "true"}});
    world.addClass("spare-late", "Delete", "WaitForFirstConsumer", {{"preemptible", "true"}});
    world.addClass("spare-keep", "Retain", "Immediate", {{"preemptible", "true"}});
    priorityClass("high", 1000);
    priorityClass("middle", 500);
    settle();
  }
  void priorityClass(const std::string& name, int64_t value, bool preempts = true, bool byDefault = false) {
    core::PriorityClass made;
    made.metadata.name = name;
    made.value = value;
    made.preempts = preempts;
    made.globalDefault = byDefault;
    (void)World::must(world.client.create(made));
  }
  /// Younger than those before; the controller has seen it.
  void claim(const std::string& name, const std::string& cls, const std::string& priority = {},
             const core::StringMap& requests = {{"gpu", "1"}}, const std::string& namespace_ = "default") {
    world.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = namespace_;
    made.spec.className = cls;
    made.spec.priorityClassName = priority;
    for (const auto& [key, value] : requests) made.spec.requests["elasticgpu.io/" + key] = value;
    (void)World::must(world.client.create(made));
    settle();
  }
  /// A pod that runs with the claim.
  void pod(const std::string& name, const std::string& of) {
    world.addPod(name, {of});
    settle();
    world.schedule(name);
    settle();
  }
  void asksToMove(const std::string& claim) {
    world.json<cache::Claim>({"default", claim}, R"({"metadata":{"annotations":{"elasticgpu.io/move":")" +
                                                     world.gpu(deviceOf(claim)).metadata.uid + R"("}}})");
    settle();
  }
  bool podIsThere(const std::string& name) {
    const auto found = world.client.get<core::Pod>({"default", name});
    return found.ok() && !found->metadata.deleting();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  std::vector<std::string> victims(const std::string& claim) {
    const auto now = world.claim(claim).status.nominated;
    return now ? now->victims : std::vector<std::string>{};
  }
  /// Its node is done with the evicted pod.
  void ends(const std::string& pod, const std::string& claim) {
    world.removePod(pod);
    world.unreserve(claim, pod);
    settle();
  }
  /// Evictions are answered 429, as by a budget. dry: those that only ask, too.
  void budget(bool holds) {
    line.code = 429;
    line.message = "Cannot evict pod as it would violate the pod's disruption budget.";
    line.refuses = nullptr;
    if (holds) line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/eviction"); };
  }
  support::RefusingTransport line{*world.transport};
};

TEST_F(PreemptionTest, C13_V4_V5_V6_TheYoungestOfTheLowestMakesRoomAndWaitsAgain) {
  claim("older", "spare");
  claim("younger", "spare");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("older"), "Bound");
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("younger"), "Pending");
  EXPECT_EQ(world.reason("younger"), "NoFit");
  EXPECT_EQ(
      world.message("younger", "Preempted").rfind("makes room for claim default/big of priority 1000 since 20", 0), 0u)
      << world.message("younger", "Preempted");
  EXPECT_EQ(told("younger Warning Preempted"), 1);
  EXPECT_EQ(told("big Normal Preempting"), 1);
  EXPECT_FALSE(world.claim("big").status.nominated);
  EXPECT_EQ(world.claim("big").status.priority, 1000);
  world.removeClaim("big");
  driver->run();
  EXPECT_EQ(phase("younger"), "Bound");
  EXPECT_EQ(world.reason("younger", "Preempted"), "") << "it is over";
}

TEST_F(PreemptionTest, ClaimsOfOtherNamespacesAreNotNamed) {
  world.addNamespace("team");
  const auto in = [&](const std::string& name) { return World::must(world.client.get<cache::Claim>({"team", name})); };
  const auto said = [&](const cache::Claim& of, const char* type) {
    const auto* found = findCondition(of.status.conditions, type);
    return found == nullptr ? std::string() : found->message;
  };
  claim("secret-a", "spare");
  claim("secret-b", "spare");
  pod("a", "secret-a");
  pod("b", "secret-b");
  claim("one", "share", "high", {{"gpu", "2"}}, "team");
  EXPECT_EQ(said(in("one"), "Bound"),
            "makes room on node n1, which is kept for it: 2 claims of other namespaces have to go");
  ASSERT_TRUE(in("one").status.nominated);
  EXPECT_EQ(in("one").status.nominated->victims.size(), 2u) << "devices, whose names tell nothing";
  claim("waits", "share");
  EXPECT_NE(world.message("waits").find("kept for others: room on node n1 for a claim of another namespace"),
            std::string::npos)
      << world.message("waits");
  ends("a", "secret-a");
  ends("b", "secret-b");
  driver->run();
  EXPECT_EQ(in("one").status.phase, "Bound");
  const auto text = world.message("secret-a", "Preempted");
  EXPECT_EQ(text.rfind("makes room for a claim of another namespace of priority 1000 since 20", 0), 0u) << text;
  World::mustOk(world.client.remove<cache::Claim>({"team", "one"}));
  for (const auto* name : {"secret-a", "secret-b", "waits"}) world.removeClaim(name);
  driver->run();
}

TEST_F(PreemptionTest, WhatHoldsUpPodsOfOtherNamespacesIsNotQuoted) {
  world.addNamespace("team");
  claim("secret-a", "spare");
  claim("secret-b", "spare");
  pod("a", "secret-a");
  pod("b", "secret-b");
  startOver(line);
  budget(true);
  claim("one", "share", "high", {{"gpu", "2"}}, "team");
  driver->run(std::chrono::seconds(20));
  const auto one = World::must(world.client.get<cache::Claim>({"team", "one"}));
  const auto text = findCondition(one.status.conditions, "Bound")->message;
  EXPECT_NE(text.find("have to go; a pod of another namespace may not be evicted now"), std::string::npos) << text;
  EXPECT_EQ(text.find("default"), std::string::npos) << text;
  budget(false);
  World::mustOk(world.client.remove<cache::Claim>({"team", "one"}));
  settle();
}

TEST_F(PreemptionTest, ALookEndsWithTheStopAndInTime) {
  claim("low", "spare");
  Preemption preemption(driver->stores, driver->cluster, world.clock);
  int asked = 0;
  std::string said;
  const auto found = [&](const std::string& name, std::chrono::milliseconds perNode, const std::stop_token& stop) {
    cache::Claim who;
    who.metadata.name = who.metadata.uid = name;
    who.metadata.namespace_ = "default";
    cache::ClusterView::Ask ask;
    ask.claimUid = name;
    ask.claim = "default/" + name;
    ask.request.cards = 2;
    ask.request.wholeCards = true;
    ask.turn.priority = 1000;
    const auto suits = [&](std::string_view) {
      ++asked;
      world.clock.advance(perNode);
      return true;
    };
    const auto room = preemption.planFor(std::make_shared<const cache::Claim>(who), ask, suits, stop);
    said = preemption.inVain(name, "it", "parts");
    world.clock.advance(std::chrono::minutes(1));
    return bool(room);
  };
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(found("stopped", std::chrono::milliseconds(0), stopped.get_token()));
  EXPECT_FALSE(found("slow", Preemption::kLooksFor, {}));
  EXPECT_GT(asked, 0);
  EXPECT_EQ(said, "who has to go for it was not found: the search was cut short");
  EXPECT_TRUE(found("in time", std::chrono::milliseconds(0), {}));
}

TEST_F(PreemptionTest, LooksForWhoHasToGoHaveATenthOfTheTimeWhoeverTheyAreFor) {
  claim("low", "spare");
  Preemption preemption(driver->stores, driver->cluster, world.clock);
  constexpr std::chrono::milliseconds kPerNode{100};
  int asked = 0;
  const auto look = [&](const std::string& name) {
    cache::Claim who;
    who.metadata.name = who.metadata.uid = name;
    who.metadata.namespace_ = "default";
    cache::ClusterView::Ask ask;
    ask.claimUid = name;
    ask.claim = "default/" + name;
    ask.request.perCard = {1000, 1};
    ask.turn.priority = 1000;
    const int before = asked;
    EXPECT_FALSE(preemption.planFor(std::make_shared<const cache::Claim>(who), ask,
                                    [&](std::string_view) {
                                      ++asked;
                                      world.clock.advance(kPerNode);
                                      return false;
                                    },
                                    {}));
    return (asked - before) * kPerNode;
  };
  const auto took = look("a");
  ASSERT_GT(took.count(), 0);
  EXPECT_EQ(preemption.restsFor("b"), 9 * took);
  EXPECT_EQ(look("b").count(), 0) << "not now";
  EXPECT_EQ(preemption.putOff("b"), 9 * took);
  EXPECT_EQ(preemption.putOff("c"), 19 * took) << "one after the other";
  EXPECT_EQ(preemption.putOff("new", true), 9 * took) << "not behind those who are looked for again";
  EXPECT_EQ(preemption.putOff("a").count(), 0) << "it has been looked for, in vain";
  EXPECT_EQ(preemption.restsFor("a"), std::chrono::seconds(15));
  for (int i = 0; i < 1'000; ++i) EXPECT_LE(preemption.putOff("d"), std::chrono::seconds(15));
  world.clock.advance(9 * took);
  EXPECT_EQ(preemption.restsFor("b").count(), 0);
  EXPECT_EQ(look("b"), took);
}

TEST_F(PreemptionTest, TheLowestGoesBeforeTheYoungest) {
  priorityClass("low", -5);
  claim("low", "spare", "low");
  claim("none", "spare");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("low"), "Pending");
  EXPECT_EQ(phase("none"), "Bound");
  EXPECT_EQ(phase("big"), "Bound");
}

TEST_F(PreemptionTest, NobodyMakesRoomForEqualsNorWithoutItsClassSayingSoNorWithRetain) {
  claim("equal", "spare", "high");
  claim("fixed", "share");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(world.reason("big"), "NoFit");
  EXPECT_FALSE(world.claim("big").status.nominated);
  world.removeClaim("fixed");
  world.removeClaim("big");
  driver->run();
  claim("kept", "spare-keep");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("equal"), "Bound");
  EXPECT_EQ(phase("kept"), "Bound");
  EXPECT_EQ(world.reason("big"), "NoFit");
  world.removeClaim("kept");
  world.removeClaim("big");
  driver->run();
  for (const auto& device : world.must(world.client.listAll<cache::Gpu>({})))
    if (device.isDevice() && device.status.phase == "Released")
      World::mustOk(world.client.remove<cache::Gpu>({"", device.metadata.name}));
  driver->run();
}

TEST_F(PreemptionTest, WhoNeverPreemptsWaits) {
  priorityClass("patient", 2000, false);
  claim("a", "spare");
  claim("b", "spare");
  claim("big", "share", "patient");
  driver->run();
  EXPECT_EQ(world.reason("big"), "NoFit");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("b"), "Bound");
}

TEST_F(PreemptionTest, V1_V3_PodsAreEvictedAndTheRoomIsKeptUntilTheyEnd) {
  claim("a", "spare");
  claim("b", "spare", "high");
  pod("runs", "a");
  claim("big", "share", "high");
  EXPECT_EQ(world.reason("big"), "Preempting");
  EXPECT_EQ(victims("big"), std::vector<std::string>{deviceOf("a")});
  EXPECT_FALSE(podIsThere("runs"));
  EXPECT_EQ(told("runs Warning Preempted"), 1);
  EXPECT_EQ(phase("a"), "Bound") << "its pod has not ended: it is reserved";
  claim("small", "share", "middle", {{"gpu-core", "10"}});
  start();  // the next leader
  claim("smaller", "share", {}, {{"gpu-core", "10"}});
  EXPECT_EQ(world.reason("small"), "NoFit");
  ends("runs", "a");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_EQ(phase("small"), "Pending");
  EXPECT_EQ(phase("smaller"), "Pending");
}

TEST_F(PreemptionTest, V1_WhoseClaimGoesWithItsPodLeavesItsRoomToThePreemptor) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  claim("big", "share", "high", {{"gpu", "2"}});
  ASSERT_FALSE(podIsThere("runs-a"));
  ASSERT_FALSE(podIsThere("runs-b"));
  world.removeClaim("a");  // as that of a template's pod
  settle();
  ends("runs-b", "b");
  claim("small", "share", {}, {{"gpu-core", "10"}});  // and whatever else has the preemptor looked at
  EXPECT_EQ(world.reason("big"), "Preempting") << world.message("big");
  EXPECT_EQ(phase("small"), "Pending") << "the room of b is kept";
  ends("runs-a", "a");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("small"), "Pending");
  EXPECT_EQ(phase("b"), "Pending");
}

TEST_F(PreemptionTest, OnlyTheRoomThatIsNominatedIsKept) {
  claim("a", "spare");
  claim("half", "share", {}, {{"gpu-core", "50"}});
  pod("runs", "a");
  claim("big", "share", "high");
  ASSERT_EQ(victims("big").size(), 1u);
  claim("small", "share", {}, {{"gpu-core", "50"}});
  EXPECT_EQ(phase("small"), "Bound") << "the other card is nobody's";
  ends("runs", "a");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
}

TEST_F(PreemptionTest, C6_V1_V5_OthersGoForAllClaimsOfAPodAtOnce) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  for (const auto* name : {"x", "y"}) claim(name, "late", "high");
  world.addPod("both", {"x", "y"});
  settle();
  EXPECT_EQ(world.message("x").rfind("pod both makes room on node n1, which is kept for it: claims default/", 0), 0u)
      << world.message("x");
  EXPECT_EQ(world.message("y"), "room on node n1 is kept for it; claim x says who has to go for pod both");
  EXPECT_EQ(victims("x").size() + victims("y").size(), 2u);
  EXPECT_FALSE(podIsThere("runs-a"));
  EXPECT_FALSE(podIsThere("runs-b"));
  ends("runs-a", "a");
  claim("small", "share", {}, {{"gpu-core", "10"}});
  start();  // the next leader
  EXPECT_EQ(phase("small"), "Pending") << "the room is kept for both";
  EXPECT_EQ(world.reason("x"), "Preempting");
  ends("runs-b", "b");
  driver->run();
  world.schedule("both");
  driver->run();
  EXPECT_EQ(phase("x"), "Bound") << world.message("x");
  EXPECT_EQ(phase("y"), "Bound") << world.message("y");
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_FALSE(world.claim("x").status.nominated || world.claim("y").status.nominated);
}

TEST_F(PreemptionTest, OfTwoPodsOfAClaimOthersGoForTheOlder) {
  for (const auto& [node, zone] : {std::pair("n2", "y"), {"n3", "z"}}) {
    world.addNode(node, {{"zone", zone}});
    world.addCard(node, 0);
  }
  settle();
  for (const auto* name : {"a", "b", "c", "d"}) {
    claim(name, "spare");
    pod(std::string("p-") + name, name);
  }
  claim("x", "late", "high");
  world.addPod("old", {"x"}, true, {{"zone", "z"}});
  settle();
  world.nextSecond();
  world.addPod("young", {"x"}, true, {{"zone", "y"}});
  settle();
  const auto onZ = world.claim("x").status.nominated;
  ASSERT_TRUE(onZ) << world.message("x");
  EXPECT_EQ(onZ->nodeName, "n3");
  const auto before = writes();
  for (int i = 0; i < 5; ++i) driver->run(std::chrono::seconds(20));
  EXPECT_EQ(world.claim("x").status.nominated, onZ) << "the young one's node does not undo it";
  EXPECT_LE(writes() - before, 3);
  int there = 0;
  for (const auto* name : {"p-a", "p-b", "p-c", "p-d"}) there += podIsThere(name);
  EXPECT_EQ(there, 3);
}

TEST_F(PreemptionTest, AnOlderPodThatChoosesForNothingKeepsNobodyFromPlanning) {
  claim("a", "spare");
  claim("fixed", "share");
  pod("runs-a", "a");
  claim("x", "late", "high");
  world.addPod("old", {"x", "missing"});
  settle();
  world.nextSecond();
  world.addPod("young", {"x"});
  settle();
  EXPECT_EQ(victims("x"), std::vector<std::string>{deviceOf("a")}) << world.message("x");
  ends("runs-a", "a");
  driver->run();
  EXPECT_TRUE(world.carrier("x") && world.carrier("x")->allocation) << world.message("x");
}

TEST_F(PreemptionTest, AnOlderPodWithMoreToChooseForLeavesTheYoungersPlanAlone) {
  claim("a", "spare");
  claim("fixed", "share");
  pod("runs-a", "a");
  for (const auto* name : {"x", "z"}) claim(name, "late", "high");
  world.addPod("old", {"x", "z"});
  settle();
  EXPECT_EQ(world.reason("x"), "NoFit");
  world.nextSecond();
  world.addPod("young", {"x"});
  driver->run(std::chrono::seconds(20));
  EXPECT_EQ(victims("x"), std::vector<std::string>{deviceOf("a")}) << world.message("x");
  const auto before = writes();
  for (int i = 0; i < 5; ++i) driver->run(std::chrono::seconds(20));
  EXPECT_LE(writes() - before, 8U) << "the two do not undo each other";
  EXPECT_EQ(victims("x").size(), 1U);
  ends("runs-a", "a");
  driver->run();
  EXPECT_TRUE(world.carrier("x") && world.carrier("x")->allocation) << world.message("x");
}

TEST_F(PreemptionTest, AnOlderPodWhoseOtherClaimGoesLeavesThePlanToTheYounger) {
  claim("a", "spare");
  pod("runs-a", "a");
  claim("y", "share", {}, {{"gpu-core", "60"}});
  pod("runs-y", "y");
  claim("x", "late", "high");
  world.addPod("old", {"x", "y"}, true, {{"zone", "nowhere"}});
  settle();
  world.nextSecond();
  world.addPod("young", {"x"});
  driver->run(std::chrono::minutes(1));
  EXPECT_TRUE(victims("x").empty()) << "the older one plans";
  World::mustOk(world.client.remove<cache::Claim>({"default", "y"}));
  driver->run(std::chrono::seconds(20));  // it is in use, and no room comes free
  EXPECT_EQ(victims("x"), std::vector<std::string>{deviceOf("a")}) << world.message("x");
  ends("runs-a", "a");
  driver->run();
  EXPECT_TRUE(world.carrier("x") && world.carrier("x")->allocation) << world.message("x");
  ends("runs-y", "y");
}

TEST_F(PreemptionTest, NobodyGoesForOneOfAPodsClaims) {
  claim("fixed", "share");
  claim("a", "spare");
  pod("runs-a", "a");
  for (const auto* name : {"x", "y"}) claim(name, "late", "high");
  world.addPod("both", {"x", "y"});
  driver->run(std::chrono::minutes(1));
  EXPECT_TRUE(podIsThere("runs-a"));
  EXPECT_EQ(victims("x").size() + victims("y").size(), 0u);
  EXPECT_EQ(world.reason("x"), "NoFit");
  EXPECT_NE(world.message("x").find("nobody has to go for pod both: all claims of lower priority"), std::string::npos)
      << world.message("x");
  world.removeClaim("fixed");
  driver->run();
  EXPECT_FALSE(podIsThere("runs-a")) << "now it helps both";
  ends("runs-a", "a");
  driver->run();
  world.schedule("both");
  driver->run();
  EXPECT_EQ(phase("x"), "Bound") << world.message("x");
  EXPECT_EQ(phase("y"), "Bound") << world.message("y");
}

TEST_F(PreemptionTest, V2_AClaimOfAPodThatGoesEndsTheNeedOfAll) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  startOver(line);
  line.code = 0;  // marked, and not evicted yet
  line.refuses = [](const kube::HttpRequest& request) {
    return request.target.ends_with("/eviction") && request.body.find("dryRun") == std::string::npos;
  };
  for (const auto* name : {"x", "y"}) claim(name, "late", "high");
  world.addPod("both", {"x", "y"});
  settle();
  ASSERT_EQ(world.reason("x"), "Preempting") << world.message("x");
  world.removeClaim("y");
  line.refuses = nullptr;
  driver->run(std::chrono::minutes(1));
  EXPECT_TRUE(victims("x").empty());
  EXPECT_EQ(world.message("x"), "waits for the other claims of its pod");
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.gpu(deviceOf(name)).status.reason, "") << name;
  EXPECT_TRUE(podIsThere("runs-a") && podIsThere("runs-b"));
}

TEST_F(PreemptionTest, BudgetsHoldAndAnotherOneGoesIfThereIsOne) {
  claim("a", "spare");
  claim("b", "spare", "high");
  pod("runs", "a");
  startOver(line);
  budget(true);
  claim("big", "share", "high");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_TRUE(podIsThere("runs"));
  EXPECT_EQ(world.gpu(deviceOf("a")).status.reason, "") << "nobody lost anything";
  driver->run(std::chrono::seconds(20));
  EXPECT_NE(world.message("big").find("disruption budget"), std::string::npos) << world.message("big");
  EXPECT_TRUE(podIsThere("runs"));
  const int asked = line.refused;
  EXPECT_LT(asked, 12) << "every fifteen seconds";
  world.json<cache::Claim>({"default", "b"}, R"({"spec":{"priorityClassName":"middle"}})");
  driver->run(std::chrono::seconds(20));
  EXPECT_EQ(phase("big"), "Bound") << "b has no pods";
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_TRUE(podIsThere("runs"));
  EXPECT_FALSE(world.claim("big").status.nominated);
}

TEST_F(PreemptionTest, V2_OneThatMayNotGoSparesTheOthers) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  startOver(line);
  budget(true);
  line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/runs-b/eviction"); };
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run(std::chrono::seconds(40));
  EXPECT_NE(world.message("big").find("pod default/runs-b may not be evicted now"), std::string::npos)
      << world.message("big");
  for (const auto* each : {"a", "b"}) {
    EXPECT_TRUE(podIsThere(std::string("runs-") + each));
    EXPECT_EQ(world.gpu(deviceOf(each)).status.reason, "") << each;
  }
  EXPECT_LT(line.refused, 12) << "every fifteen seconds";
  budget(false);
  driver->run(std::chrono::seconds(20));
  EXPECT_FALSE(podIsThere("runs-a"));
  EXPECT_FALSE(podIsThere("runs-b"));
  ends("runs-a", "a");
  ends("runs-b", "b");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
}

TEST_F(PreemptionTest, V3_WhatElseTheServerSaysIsSaidAndAnotherOneGoes) {
  claim("a", "spare");
  claim("b", "spare", "middle");
  pod("runs", "a");
  startOver(line);
  for (const int code : {500, 403, 422}) {
    budget(true);
    line.code = code;
    line.message = "This pod has more than one PodDisruptionBudget.";
    world.json<cache::Claim>({"default", "b"}, R"({"spec":{"priorityClassName":"high"}})");
    settle();
    claim("big", "share", "high");
    driver->run(std::chrono::seconds(1));
    EXPECT_NE(world.message("big").find("more than one"), std::string::npos) << code << ": " << world.message("big");
    EXPECT_TRUE(podIsThere("runs"));
    world.json<cache::Claim>({"default", "b"}, R"({"spec":{"priorityClassName":"middle"}})");
    driver->run(std::chrono::seconds(20));
    EXPECT_EQ(phase("big"), "Bound") << code << ": b has no pods";
    EXPECT_TRUE(podIsThere("runs"));
    world.removeClaim("big");
    driver->run();
    EXPECT_EQ(phase("b"), "Bound");
  }
}

TEST_F(PreemptionTest, NobodyGoesOnceTheNeedIsOver) {
  claim("a", "spare");
  claim("b", "share", "high");
  pod("runs", "a");
  startOver(line);
  budget(true);
  claim("big", "share", "high");
  ASSERT_EQ(world.reason("big"), "Preempting");
  world.removeClaim("b");
  settle();
  EXPECT_EQ(phase("big"), "Bound");
  budget(false);
  driver->run();
  EXPECT_TRUE(podIsThere("runs"));
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(told("a Warning Preempted"), 0);
}

TEST_F(PreemptionTest, V2_OneThatMovesIsNotMarkedForIt_BudgetsHoldAndSpareTheOthers) {
  claim("moves", "spare");
  claim("other", "spare");
  pod("stays", "moves");
  pod("runs", "other");
  startOver(line);
  budget(true);
  line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/stays/eviction"); };
  asksToMove("moves");
  const auto mark = world.gpu(deviceOf("moves")).status.message;
  ASSERT_EQ(mark.rfind("moves to another device", 0), 0u) << mark;
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run(std::chrono::seconds(40));
  EXPECT_NE(world.message("big").find("pod default/stays may not be evicted now"), std::string::npos)
      << world.message("big");
  EXPECT_TRUE(podIsThere("runs")) << "nobody goes for what can't be done";
  EXPECT_EQ(world.gpu(deviceOf("other")).status.reason, "");
  EXPECT_EQ(world.gpu(deviceOf("moves")).status.message, mark);
  EXPECT_TRUE(world.carrier("moves") && !world.carrier("moves")->metadata.deleting());
  budget(false);
  driver->run(std::chrono::seconds(20));
  EXPECT_FALSE(podIsThere("stays"));
  EXPECT_FALSE(podIsThere("runs"));
  EXPECT_EQ(world.gpu(deviceOf("moves")).status.message.rfind("makes room for claim default/big", 0), 0u)
      << "it says by whom it has to go";
  ends("stays", "moves");
  ends("runs", "other");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(world.reason("moves", "Preempted"), "Preempted");
}

TEST_F(PreemptionTest, V2_OneThatMovesAndMayNotGoHoldsNobodyUpIfAnotherOneWouldDo) {
  claim("moves", "spare");
  claim("b", "spare", "high");
  pod("stays", "moves");
  startOver(line);
  budget(true);
  asksToMove("moves");
  claim("big", "share", "high");
  driver->run(std::chrono::seconds(20));
  ASSERT_EQ(world.reason("big"), "Preempting");
  world.json<cache::Claim>({"default", "b"}, R"({"spec":{"priorityClassName":"middle"}})");
  driver->run(std::chrono::seconds(20));
  EXPECT_EQ(phase("big"), "Bound") << "b has no pods";
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_TRUE(podIsThere("stays"));
}

TEST_F(PreemptionTest, V5_OneThatMovesAndHasNoPodsLeftDoesNotWaitForOthersBudgets) {
  claim("moves", "spare");
  claim("other", "spare");
  pod("stays", "moves");
  pod("runs", "other");
  startOver(line);
  budget(true);
  asksToMove("moves");
  claim("big", "share", "high", {{"gpu", "2"}});
  const auto before = deviceOf("moves");
  const auto uid = world.gpu(before).metadata.uid;
  ends("stays", "moves");
  driver->run(std::chrono::seconds(1));
  EXPECT_TRUE(!world.exists(before) || world.gpu(before).metadata.uid != uid);
  EXPECT_TRUE(podIsThere("runs"));
}

TEST_F(PreemptionTest, V2_WhoIsMarkedKeepsItsDeviceOnceThePreemptorIsGone) {
  claim("a", "spare");
  claim("b", "share", "high");
  pod("runs", "a");
  startOver(line);
  line.code = 429;
  line.refuses = [](const kube::HttpRequest& request) {
    return request.target.ends_with("/eviction") && request.body.find("dryRun") == std::string::npos;
  };
  claim("big", "share", "high");
  EXPECT_EQ(world.gpu(deviceOf("a")).status.reason, "Preempted");
  EXPECT_TRUE(podIsThere("runs"));
  world.removeClaim("big");
  driver->run();
  EXPECT_EQ(world.gpu(deviceOf("a")).status.reason, "");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_TRUE(podIsThere("runs"));
}

TEST_F(PreemptionTest, AsManyAsNeededAndNotMore) {
  claim("a", "spare", {}, {{"gpu-core", "50"}});
  claim("b", "spare", {}, {{"gpu-core", "50"}});
  claim("c", "spare", {}, {{"gpu-core", "100"}});
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(told("big Normal Preempting"), 1);
  for (const auto* each : {"a", "b", "c"}) EXPECT_EQ(phase(each), "Pending") << each;
  world.removeClaim("big");
  driver->run();
  for (const auto* each : {"a", "b", "c"}) EXPECT_EQ(phase(each), "Bound") << each;
  claim("half", "share", "high", {{"gpu-core", "50"}});
  driver->run();
  EXPECT_EQ((phase("a") == "Bound") + (phase("b") == "Bound") + (phase("c") == "Bound"), 2);
}

TEST_F(PreemptionTest, AnUnknownPriorityClassIsSaidAndNothingIsLost) {
  claim("a", "share", "nowhere");
  EXPECT_EQ(world.reason("a", "Accepted"), "PriorityClassNotFound");
  EXPECT_EQ(world.message("a"), "spec.priorityClassName: there is no PriorityClass nowhere");
  priorityClass("nowhere", 7);
  settle();
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.claim("a").status.priority, 7);
  World::mustOk(world.client.remove<core::PriorityClass>({"", "nowhere"}));
  settle();
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.claim("a").status.priority, 7);
  claim("b", "share", "system-node-critical");
  EXPECT_EQ(world.reason("b", "Accepted"), "PriorityClassNotFound");
}

TEST_F(PreemptionTest, WithoutOneItIsThatOfItsPodsElseTheDefault) {
  claim("a", "spare-late");
  claim("b", "share", "high");
  pod("low", "a");
  ASSERT_EQ(phase("a"), "Bound");
  claim("late", "late");
  auto waiting = World::podOf("first", {"late"});
  waiting.priority = 300;
  (void)World::must(world.client.create(waiting));
  settle();
  EXPECT_EQ(world.reason("late"), "Preempting");
  EXPECT_EQ(world.claim("late").status.priority, 300);
  EXPECT_FALSE(podIsThere("low"));
  ends("low", "a");
  driver->run(std::chrono::seconds(5));
  EXPECT_EQ(world.gpu(deviceOf("late")).spec.nodeName, "n1");
  priorityClass("usual", 40, true, true);
  settle();
  claim("c", "share");
  EXPECT_EQ(world.claim("c").status.priority, 40);
}

TEST_F(PreemptionTest, APodOutsideKubeSystemCountsForNoMoreThanUsersMayHave) {
  claim("late", "late");
  auto waiting = World::podOf("first", {"late"});
  waiting.priority = 2'000'001'000;
  (void)World::must(world.client.create(waiting));
  settle();
  EXPECT_EQ(world.claim("late").status.priority, 1'000'000'000);
}

TEST_F(PreemptionTest, AClaimOfAResourceClaimMadeByHandMakesNoRoomOneOfAPodDoes) {
  auto owner = World::podOf("p", {});
  owner.resourceClaims.push_back({"gpu", "", "template"});
  owner = World::must(world.client.create(owner));
  for (const bool ofAPod : {false, true}) {
    core::ResourceClaim asking;
    asking.metadata.name = ofAPod ? "stamped" : "by-hand";
    asking.metadata.namespace_ = "default";
    asking.deviceClassName = "elasticgpu.io";
    asking.requestName = "gpu";
    asking.config.push_back(
        {{}, "elasticgpu.io", R"({"egpuClassName":"spare","resources":{"requests":{"elasticgpu.io/gpu":1}}})"});
    if (ofAPod) asking.metadata.ownerReferences.push_back({"v1", "Pod", "p", owner.metadata.uid, true, false});
    world.nextSecond();
    (void)World::must(world.client.create(asking));
    settle();
    ASSERT_EQ(phase(asking.metadata.name), "Bound");
  }
  claim("two", "share", "high", {{"gpu", "2"}});
  EXPECT_EQ(world.reason("two"), "NoFit");
  EXPECT_EQ(phase("by-hand"), "Bound");
  EXPECT_EQ(phase("stamped"), "Bound");
  claim("one", "share", "high");
  driver->run();
  EXPECT_EQ(phase("one"), "Bound") << world.message("one");
  EXPECT_EQ(phase("stamped"), "Pending");
  EXPECT_EQ(phase("by-hand"), "Bound");
}

TEST_F(PreemptionTest, ThoseWhoWaitAreTriedByPriorityThenByAge) {
  claim("a", "share", {}, {{"gpu", "2"}});
  claim("first", "share", {}, {{"gpu", "2"}});
  claim("second", "share", "middle", {{"gpu", "2"}});
  claim("third", "share", "high", {{"gpu", "2"}});
  claim("fourth", "share", "high", {{"gpu", "2"}});
  std::string order;
  for (std::string holder = "a"; order.size() < 24;) {
    world.removeClaim(holder);
    driver->run();
    for (const std::string each : {"first", "second", "third", "fourth"})
      if (world.client.get<cache::Claim>({"default", each}).ok() && phase(each) == "Bound") holder = each;
    order += holder + " ";
    if (holder == "first") break;
  }
  EXPECT_EQ(order, "third fourth second first ");
}

TEST_F(PreemptionTest, ANodeIsKeptForALargeOneThatHasWaitedForLong) {
  claim("a", "share");
  claim("b", "share");
  claim("large", "share", {}, {{"gpu", "2"}});
  world.removeClaim("a");
  driver->run();
  claim("c", "share");
  EXPECT_EQ(phase("c"), "Bound") << "the first ten minutes others may go past";
  world.clock.advance(std::chrono::seconds(601));
  world.removeClaim("b");
  driver->run();
  claim("d", "share");
  EXPECT_EQ(phase("d"), "Pending");
  EXPECT_NE(world.message("d").find("kept for others: room on node n1 for claim default/large"), std::string::npos)
      << world.message("d");
  world.removeClaim("c");
  driver->run();
  EXPECT_EQ(phase("large"), "Bound");
  EXPECT_EQ(phase("d"), "Pending");
  world.removeClaim("large");
  driver->run();
  EXPECT_EQ(phase("d"), "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
