// Preemption for one claim: capacity is freed and nominated to it.
#include "controller/reconcile/priority/preemption.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reconcile/priority/preempting.h"

namespace egpu::reconcile {
namespace {

using support::World;

TEST_F(PreemptionTest, C13_V4_V5_V6_TheYoungestOfTheLowestFreesCapacityAndWaitsAgain) {
  claim("older", "spare");
  claim("younger", "spare");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("older"), "Bound");
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("younger"), "Pending");
  EXPECT_EQ(world.reason("younger"), "NoFit");
  EXPECT_EQ(world.message("younger", "Preempted").rfind("preempted for claim default/big of priority 1000 since 20", 0),
            0u)
      << world.message("younger", "Preempted");
  EXPECT_EQ(countEvents("younger Warning Preempted"), 1);
  EXPECT_EQ(countEvents("big Normal Preempting"), 1);
  EXPECT_FALSE(world.claim("big").status.nominated);
  EXPECT_EQ(world.claim("big").status.priority, 1000);
  world.removeClaim("big");
  driver->run();
  EXPECT_EQ(phase("younger"), "Bound");
  EXPECT_EQ(world.reason("younger", "Preempted"), "") << "it is over";
}

TEST_F(PreemptionTest, AGangAnnotationThatNamesNoGangExemptsNoBoundClaim) {
  claim("low", "spare", "", {{"gpu", "2"}});
  const auto annotate = [&](const std::string& annotations) {
    world.json<cache::Claim>({"default", "low"}, R"({"metadata":{"annotations":)" + annotations + "}}");
    settle();
  };
  for (const auto* annotations :
       {R"({"elasticgpu.io/gang":"x"})", R"({"elasticgpu.io/gang":"no name!!","elasticgpu.io/gang-size":"2"})",
        R"({"elasticgpu.io/gang":"x","elasticgpu.io/gang-size":"1"})",
        R"({"elasticgpu.io/gang-pod-group":"absent"})"}) {
    annotate(annotations);
    ASSERT_EQ(phase("low"), "Bound") << annotations;
    claim("vip", "share", "high");
    driver->run();
    EXPECT_EQ(phase("vip"), "Bound") << annotations << ": " << world.message("vip");
    EXPECT_NE(phase("low"), "Bound") << annotations;
    world.removeClaim("vip");
    annotate(R"({"elasticgpu.io/gang":null,"elasticgpu.io/gang-size":null,"elasticgpu.io/gang-pod-group":null})");
    driver->run();
    ASSERT_EQ(phase("low"), "Bound") << annotations;
  }
}

TEST_F(PreemptionTest, ClaimsOfOtherNamespacesAreNotNamed) {
  world.addNamespace("team");
  const auto in = [&](const std::string& name) { return World::must(world.client.get<cache::Claim>({"team", name})); };
  const auto hasCondition = [&](const cache::Claim& of, const char* type) {
    const auto* found = findCondition(of.status.conditions, type);
    return found == nullptr ? std::string() : found->message;
  };
  claim("secret-a", "spare");
  claim("secret-b", "spare");
  pod("a", "secret-a");
  pod("b", "secret-b");
  claim("one", "share", "high", {{"gpu", "2"}}, "team");
  EXPECT_EQ(hasCondition(in("one"), "Bound"),
            "preempts on node n1, where the freed capacity is reserved for it: evicts 2 claims of other namespaces");
  ASSERT_TRUE(in("one").status.nominated);
  EXPECT_EQ(in("one").status.nominated->victims.size(), 2u) << "devices, whose names tell nothing";
  claim("waits", "share");
  EXPECT_NE(world.message("waits").find("capacity reserved for other claims: node n1 (a claim of another namespace)"),
            std::string::npos)
      << world.message("waits");
  ends("a", "secret-a");
  ends("b", "secret-b");
  driver->run();
  EXPECT_EQ(in("one").status.phase, "Bound");
  const auto text = world.message("secret-a", "Preempted");
  EXPECT_EQ(text.rfind("preempted for a claim of another namespace of priority 1000 since 20", 0), 0u) << text;
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
  EXPECT_NE(text.find("of other namespaces; a pod of another namespace may not be evicted now"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("default"), std::string::npos) << text;
  budget(false);
  World::mustOk(world.client.remove<cache::Claim>({"team", "one"}));
  settle();
}

TEST_F(PreemptionTest, ASearchEndsWithTheStopAndInTime) {
  claim("low", "spare");
  Preemption preemption(driver->stores, driver->cluster, world.clock, kDefaultTimeouts);
  int asked = 0;
  std::string message;
  const auto found = [&](const std::string& name, std::chrono::milliseconds perNode, const std::stop_token& stop) {
    cache::Claim who;
    who.metadata.name = who.metadata.uid = name;
    who.metadata.namespace_ = "default";
    allocator::Allocator::SchedulingRequest ask;
    ask.claimUid = name;
    ask.claim = "default/" + name;
    ask.request.cards = 2;
    ask.request.wholeCards = true;
    ask.order.priority = 1000;
    const auto suits = [&](std::string_view) {
      ++asked;
      world.clock.advance(perNode);
      return true;
    };
    const auto plan = preemption.planFor(std::make_shared<const cache::Claim>(who), ask, suits, stop);
    message = preemption.noVictimsMessage(name, "it", "parts");
    world.clock.advance(std::chrono::minutes(1));
    return bool(plan);
  };
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(found("stopped", std::chrono::milliseconds(0), stopped.get_token()));
  EXPECT_FALSE(found("slow", kDefaultTimeouts.victimSearchTimeout, {}));
  EXPECT_GT(asked, 0);
  EXPECT_EQ(message, "preemption: no victims found for it before the search timed out");
  EXPECT_TRUE(found("in time", std::chrono::milliseconds(0), {}));
}

TEST_F(PreemptionTest, VictimSearchesHaveATenthOfTheTimeWhoeverTheyAreFor) {
  claim("low", "spare");
  Preemption preemption(driver->stores, driver->cluster, world.clock, kDefaultTimeouts);
  constexpr std::chrono::milliseconds kPerNode{100};
  int asked = 0;
  const auto searchFor = [&](const std::string& name) {
    cache::Claim who;
    who.metadata.name = who.metadata.uid = name;
    who.metadata.namespace_ = "default";
    allocator::Allocator::SchedulingRequest ask;
    ask.claimUid = name;
    ask.claim = "default/" + name;
    ask.request.perCard = {1000, 1};
    ask.order.priority = 1000;
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
  const auto took = searchFor("a");
  ASSERT_GT(took.count(), 0);
  EXPECT_EQ(preemption.searchBackoff("b"), 9 * took);
  EXPECT_EQ(searchFor("b").count(), 0) << "not now";
  const auto delayForRateLimit = [&](const std::string& name, int64_t priority = 0) {
    return preemption.delayForRateLimit({-priority, {"2026-01-01T00:00:00Z", name}}, "claim/default/" + name);
  };
  EXPECT_GT(delayForRateLimit("c").count(), 0);
  EXPECT_GT(delayForRateLimit("b").count(), 0);
  EXPECT_GT(delayForRateLimit("high", 1).count(), 0);
  EXPECT_EQ(delayForRateLimit("a").count(), 0) << "it has been looked for, in vain";
  EXPECT_EQ(preemption.searchBackoff("a"), std::chrono::seconds(15));
  const auto rests = preemption.nextPlan();
  EXPECT_FALSE(rests.queueKey);
  EXPECT_EQ(rests.again, 9 * took);
  world.clock.advance(9 * took);
  EXPECT_EQ(preemption.nextPlan().queueKey, "claim/default/high");
  EXPECT_TRUE(preemption.planQueue().done("high"));
  EXPECT_EQ(preemption.nextPlan().queueKey, "claim/default/b") << "one after the other";
  EXPECT_EQ(preemption.searchBackoff("b").count(), 0);
  EXPECT_EQ(searchFor("b"), took);
}

TEST_F(PreemptionTest, NoOtherClaimIsPlannedForWhileAPlanIsOnlyPartlyWritten) {
  Preemption preemption(driver->stores, driver->cluster, world.clock, kDefaultTimeouts);
  const auto named = [](const std::string& name) {
    cache::Claim claim;
    claim.metadata.name = claim.metadata.uid = name;
    return std::make_shared<const cache::Claim>(claim);
  };
  AskedTogether asked;
  asked.claims = {named("a"), named("b")};
  std::vector<v1alpha::Nomination> nominations(2);
  nominations[1].nodeName = "n2";
  {
    const auto plans = preemption.tryLockPlanning("a");
    ASSERT_TRUE(plans);
    EXPECT_FALSE(preemption.tryLockPlanning("a")) << "two steps at once";
    preemption.leaveUnwritten(asked, nominations, 1);
  }
  EXPECT_FALSE(preemption.tryLockPlanning("other"));
  {
    const auto plans = preemption.tryLockPlanning("a");
    ASSERT_TRUE(plans);
    const auto [left, written] = preemption.unwritten(asked);
    ASSERT_EQ(left.size(), 2U);
    EXPECT_EQ(left[1].nodeName, "n2");
    EXPECT_EQ(written, 1U);
    EXPECT_TRUE(preemption.unwritten(asked).first.empty()) << "only once";
    preemption.leaveUnwritten(asked, nominations, 1);
    asked.claims.back() = named("c");
    EXPECT_TRUE(preemption.unwritten(asked).first.empty()) << "a plan of other claims";
    preemption.leaveUnwritten(asked, nominations, 1);
  }
  EXPECT_FALSE(preemption.tryLockPlanning("other"));
  world.clock.advance(std::chrono::seconds(5));
  EXPECT_TRUE(preemption.tryLockPlanning("other")) << "the step that writes the rest did not come";
}

TEST_F(PreemptionTest, ANominationStandsAMomentLongerOnceItsLastVictimIsGone) {
  Preemption preemption(driver->stores, driver->cluster, world.clock, kDefaultTimeouts);
  cache::Claim who;
  who.metadata.name = who.metadata.uid = "high";
  who.metadata.namespace_ = "default";
  v1alpha::Nomination nomination;
  nomination.nodeName = "n1";
  nomination.victims = {"egpu-gone"};
  who.status.nominated = nomination;
  allocator::Allocator::SchedulingRequest ask;
  ask.claimUid = "high";
  ask.claim = "default/high";
  ask.request.cards = 1;
  ask.request.wholeCards = true;
  ask.order.priority = 1000;
  const auto plan = [&] { return preemption.planFor(std::make_shared<const cache::Claim>(who), ask, {}, {}); };
  const auto first = plan();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->nodeName, "n1");
  EXPECT_TRUE(first->victims.empty());
  world.clock.advance(std::chrono::seconds(3));
  EXPECT_FALSE(plan()) << "it has not been served: its plan ends";
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

TEST_F(PreemptionTest, NobodyIsEvictedForEqualsNorWithoutPreemptibleClassNorWithRetain) {
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

TEST_F(PreemptionTest, V1_V3_PodsAreEvictedAndTheCapacityIsReservedUntilTheyEnd) {
  claim("a", "spare");
  claim("b", "spare", "high");
  pod("runs", "a");
  claim("big", "share", "high");
  EXPECT_EQ(world.reason("big"), "Preempting");
  EXPECT_EQ(victims("big"), std::vector<std::string>{deviceOf("a")});
  EXPECT_FALSE(podIsThere("runs"));
  EXPECT_EQ(countEvents("runs Warning Preempted"), 1);
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

TEST_F(PreemptionTest, V1_WhoseClaimGoesWithItsPodLeavesItsCapacityToThePreemptor) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  claim("big", "share", "high", {{"gpu", "2"}});
  ASSERT_FALSE(podIsThere("runs-a"));
  ASSERT_FALSE(podIsThere("runs-b"));
  world.removeClaim("a");  // as with the claim of a template's pod
  settle();
  ends("runs-b", "b");
  claim("small", "share", {}, {{"gpu-core", "10"}});  // causes the preemptor to be evaluated again
  EXPECT_EQ(world.reason("big"), "Preempting") << world.message("big");
  EXPECT_EQ(phase("small"), "Pending") << "the room of b is kept";
  ends("runs-a", "a");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound");
  EXPECT_EQ(phase("small"), "Pending");
  EXPECT_EQ(phase("b"), "Pending");
}

TEST_F(PreemptionTest, OnlyTheCapacityThatIsNominatedIsReserved) {
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

TEST_F(PreemptionTest, V3_WhatElseTheServerAnswersIsReportedAndAnotherOneGoes) {
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
  EXPECT_EQ(countEvents("a Warning Preempted"), 0);
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
  ASSERT_EQ(mark.rfind("moving to another device", 0), 0u) << mark;
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run(std::chrono::seconds(40));
  EXPECT_NE(world.message("big").find("pod default/stays may not be evicted now"), std::string::npos)
      << world.message("big");
  EXPECT_TRUE(podIsThere("runs")) << "nobody goes for what can't be done";
  EXPECT_EQ(world.gpu(deviceOf("other")).status.reason, "");
  EXPECT_EQ(world.gpu(deviceOf("moves")).status.message, mark);
  EXPECT_TRUE(world.resourceClaim("moves") && !world.resourceClaim("moves")->metadata.deleting());
  budget(false);
  driver->run(std::chrono::seconds(20));
  EXPECT_FALSE(podIsThere("stays"));
  EXPECT_FALSE(podIsThere("runs"));
  EXPECT_EQ(world.gpu(deviceOf("moves")).status.message.rfind("preempted for claim default/big", 0), 0u)
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

TEST_F(PreemptionTest, V2_WhoIsMarkedRetainsItsDeviceOnceThePreemptorIsGone) {
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
  EXPECT_EQ(countEvents("big Normal Preempting"), 1);
  for (const auto* each : {"a", "b", "c"}) EXPECT_EQ(phase(each), "Pending") << each;
  world.removeClaim("big");
  driver->run();
  for (const auto* each : {"a", "b", "c"}) EXPECT_EQ(phase(each), "Bound") << each;
  claim("half", "share", "high", {{"gpu-core", "50"}});
  driver->run();
  EXPECT_EQ((phase("a") == "Bound") + (phase("b") == "Bound") + (phase("c") == "Bound"), 2);
}

TEST_F(PreemptionTest, AClaimOfAResourceClaimMadeByHandFreesNoCapacityOneOfAPodDoes) {
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
    if (ofAPod)
      world.json<core::Pod>({"default", "p"},
                            R"({"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"stamped"}]}})",
                            "status");
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
  EXPECT_FALSE(podIsThere("p")) << "a stamped claim goes with its pod";
  EXPECT_EQ(phase("by-hand"), "Bound");
}

TEST_F(PreemptionTest, WhatAnEvictedClaimHadIsNotReadWithEachOfItsSteps) {
  int reads = 0;
  line.refuses = [&reads](const kube::HttpRequest& request) {
    reads += request.method == kube::Method::get && request.target.find("/elasticgpus/egpu-") != std::string::npos;
    return false;
  };
  startOver(line);
  for (const auto* name : {"a", "b"}) claim(name, "spare");
  claim("big", "share", "high", {{"gpu", "2"}});
  driver->run();
  for (const auto* name : {"a", "b"}) ASSERT_EQ(phase(name), "Pending");
  reads = 0;
  for (int i = 0; i < 10; ++i) {
    for (const auto* name : {"a", "b"})
      world.json<cache::Claim>({"default", name},
                               R"({"metadata":{"annotations":{"step":")" + std::to_string(i) + R"("}}})");
    settle();
  }
  EXPECT_LE(reads, 2);
  world.removeClaim("big");
  driver->run();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
  for (const auto* name : {"a", "b"}) world.removeClaim(name);
  driver->run();
  TearDown();
  driver.reset();
}

}  // namespace
}  // namespace egpu::reconcile
