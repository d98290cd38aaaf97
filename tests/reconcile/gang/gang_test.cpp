// Gangs: no device is held while a member is missing or doesn't fit, all members are bound together, and pods lose
// their gates with the last one.
#include "api/v1alpha/gang.h"

#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

class GangTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addNode("n2", {{"rack", "y"}});
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    settle();
  }
  void member(const std::string& name, const std::string& size = "3", core::StringMap more = {},
              const std::string& gang = "train", core::StringMap requests = {{"gpu", "1"}}) {
    more["elasticgpu.io/gang"] = gang;
    more["elasticgpu.io/gang-size"] = size;
    world.addMember(name, "share", std::move(requests), std::move(more));
    settle();
    world.nextSecond();
  }
  /// Creates a member with the mode WaitForFirstConsumer, and its pod.
  void late(const std::string& name, const std::string& size, const std::function<void(core::Pod&)>& change = {},
            core::StringMap requests = {{"gpu-core", "10"}}) {
    world.addMember(name, "late", std::move(requests),
                    {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", size}});
    auto pod = support::World::podOf("p-" + name, {name});
    if (change) change(pod);
    (void)support::World::must(world.client.create(pod));
    settle();
    world.nextSecond();
  }
  /// Gang train of a, b and c, for which nodes are reserved, so that claim `later` does not fit. Returns false if no
  /// node is reserved.
  bool waitsWithReservedNodes() {
    for (const auto* node : {"n3", "n4"}) {
      world.addNode(node);
      world.addCard(node, 0);
    }
    for (int i = 0; i < 6; ++i) world.addClaim("small-" + std::to_string(i), "share", {{"gpu", "1"}});
    settle();
    world.nextSecond();
    for (const auto* name : {"a", "b", "c"}) member(name, "3");
    world.clock.advance(std::chrono::seconds(601));
    world.removeClaim("small-0");
    settle();
    world.nextSecond();
    world.addClaim("later", "share", {{"gpu", "1"}});
    settle();
    return !driver->cluster.queries().nodeReservations().empty() && phase("later") == "Pending";
  }
  /// Number of events of the pod of late(name) whose message begins with the text.
  int64_t countPodEvents(const std::string& name, const std::string& message) const {
    return countEvents("p-" + name + " Warning WaitingForClaim claim " + name + ": " + message);
  }
  std::string nodeOf(const std::string& claim) { return world.claim(claim).status.nodeName; }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  support::RefusingTransport line{*world.transport};
  int comesNext = 0;
  int64_t used() { return driver->cluster.allocationMap().totals().usedCore; }
};

TEST_F(GangTest, C14_ThePodsOfAGangReportEachReasonInOrder) {
  const core::StringMap whole = {{"gpu", "2"}};
  late("a", "3", {}, whole);
  late("b", "3", {}, whole);
  EXPECT_EQ(countPodEvents("a", "WaitingForGang"), 1);
  late("c", "3", {}, whole);
  ASSERT_EQ(world.reason("a"), "NoFit") << world.message("a");
  EXPECT_EQ(countPodEvents("a", "NoFit: 2 of 3 members of gang train fit"), 1);
}

TEST_F(GangTest, C14_HoldsNothingWhileOneIsMissing) {
  member("a");
  member("b");
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.reason("a"), "WaitingForGang");
  EXPECT_NE(world.message("a").find("2 of 3 members of gang train are here"), std::string::npos) << world.message("a");
  EXPECT_EQ(world.reason("b"), "WaitingForGang");
  member("c");
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

/// Ages are whole seconds, and equal ages are ordered by uid: any new member may come before existing ones.
TEST_F(GangTest, C14_OneMemberReportsTheNumber_OfAnyOrder) {
  for (int size = 1; size < 12; ++size) {
    world.addMember("m" + std::to_string(size), "share", {{"gpu", "1"}},
                    {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "12"}});
    settle();
    std::vector<std::string> reports;
    for (int i = 1; i <= size; ++i)
      if (auto message = world.message("m" + std::to_string(i)); message.find(" of 12 members") != std::string::npos)
        reports.push_back(std::move(message));
    EXPECT_EQ(reports, std::vector{std::to_string(size) + " of 12 members of gang train " + (size > 1 ? "are" : "is") +
                                   " here"});
  }
}

TEST_F(GangTest, HoldsNothingWhileOneDoesNotFit) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  settle();
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 2000);
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("2 of 3 members of gang train fit; claim c does not: 0/2 nodes fit: "),
            std::string::npos)
      << world.message("a");
  EXPECT_NE(world.message("a").find("in use"), std::string::npos) << "the stage: " << world.message("a");
  EXPECT_NE(world.message("a").find("; free "), std::string::npos) << "the remedy: " << world.message("a");
  world.removeClaim("full");
  settle();
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

/// Small claims that come and go take every freed card, until nodes are reserved for the gang.
TEST_F(GangTest, NodesAreReservedForOneThatHasWaitedForLong) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  for (const auto* node : {"n3", "n4"}) {
    world.addNode(node);
    world.addCard(node, 0);
    world.addCard(node, 1);
  }
  std::deque<std::string> small;
  const auto comes = [&] {
    small.push_back("small-" + std::to_string(comesNext++));
    world.addClaim(small.back(), "share", {{"gpu", "1"}});
    settle();
    world.nextSecond();
  };
  for (int i = 0; i < 8; ++i) comes();
  member("a", "2", {}, "train", {{"gpu", "2"}});
  member("b", "2", {}, "train", {{"gpu", "2"}});
  for (int i = 0; i < 3; ++i) comes();
  const auto oneGoes = [&] {
    world.removeClaim(small.front());
    small.pop_front();
    settle();
    comes();
    world.clock.advance(std::chrono::seconds(20));
  };
  for (int i = 0; i < 20; ++i) oneGoes();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_EQ(used(), 8000) << "who comes later goes past it";
  int rounds = 0;
  for (; phase("a") != "Bound" && rounds < 40; ++rounds) oneGoes();
  EXPECT_LT(rounds, 40) << world.message("a");
  EXPECT_GE(rounds, 4) << "not before its ten minutes are over";
  for (const auto* name : {"a", "b"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
}

TEST_F(GangTest, NoNodesAreReservedForOneThatIsWholeNoMore) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  ASSERT_TRUE(waitsWithReservedNodes());
  world.removeClaim("c");
  settle();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

TEST_F(GangTest, NoNodesAreReservedForMembersThatAreNoneAnyMore) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  ASSERT_TRUE(waitsWithReservedNodes());
  for (const auto* name : {"a", "b", "c"})
    world.json<cache::Claim>({"default", name}, R"({"metadata":{"annotations":{"elasticgpu.io/gang-size":"x"}}})");
  settle();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

TEST_F(GangTest, NoNodesAreReservedForMembersThatAreToHaveADevice) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  ASSERT_TRUE(waitsWithReservedNodes());
  for (const auto* name : {"a", "b", "c"})
    world.json<cache::Claim>({"default", name}, R"({"spec":{"elasticGPUName":"nope"}})");
  settle();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

TEST_F(GangTest, NoNodesAreReservedForMembersThatOthersBlock) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  ASSERT_TRUE(waitsWithReservedNodes());
  for (const auto* name : {"a", "b", "c"}) {
    world.json<cache::Claim>({"default", name}, R"({"metadata":{"finalizers":["example.com/mine"]}})");
    world.removeClaim(name);
  }
  settle();
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

TEST_F(GangTest, NodesAreReservedWhoseHoldersHaveTheirCpuToo) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  for (const auto* node : {"n3", "n4"}) {
    world.addNode(node);
    world.addCard(node, 0);
  }
  const auto cpu = [](const char* amount) {
    return [amount](core::Pod& pod) { pod.containers[0].requests = {{"cpu", amount}}; };
  };
  for (int i = 0; i < 6; ++i) {
    const auto name = "small-" + std::to_string(i);
    world.addClaim(name, "share", {{"gpu", "1"}});
    settle();
    auto pod = support::World::podOf("of-" + name, {name});
    cpu("30")(pod);
    (void)support::World::must(world.client.create(pod));
    settle();
    world.schedule("of-" + name);
    settle();
  }
  world.nextSecond();
  for (const auto* name : {"a", "b"}) late(name, "2", cpu("40"), {{"gpu", "1"}});
  world.clock.advance(std::chrono::seconds(601));
  driver->run();
  EXPECT_EQ(driver->cluster.queries().nodeReservations().size(), 2u)
      << "one has room for one of these pods: " << world.message("a");
}

TEST_F(GangTest, WhatAQuotaWithholdsFromItNamesWhoHasIt) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "3"}};
  (void)support::World::must(world.client.create(quota));
  world.addClaim("before", "share", {{"gpu", "1"}});
  settle();
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 1000);
  EXPECT_EQ(world.reason("a"), "QuotaExceeded");
  for (const auto* part : {"members of gang train fit; claim c does not: quota team allows gpu 3",
                           "gpu 4 in its spec.hard would be enough", "held by default/before 1"})
    EXPECT_NE(world.message("a").find(part), std::string::npos) << part << ": " << world.message("a");
  world.removeClaim("before");
  settle();
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, OfAQuotaThatLeavesLessThanAllNeedNoRemedyIsReported) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "1"}};
  (void)support::World::must(world.client.create(quota));
  settle();
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(world.message("a"),
            "1 of 3 members of gang train fit; claim b does not: quota team allows gpu 1, 0 is used and 1 would be "
            "used by claims that are decided with it: 1 too little for another 1");
}

TEST_F(GangTest, WhatAQuotaWithholdsFromItWaitsForWhatPodsLackElsewhere) {
  for (const auto* card : {"gpu-n2-0", "gpu-n2-1"})
    world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"model":"A100"}}})");
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "1"}};
  quota.spec.models = {"T4"};
  (void)support::World::must(world.client.create(quota));
  world.occupy("full", "n2", "60");
  const auto cpu = [](core::Pod& pod) { pod.containers.front().requests["cpu"] = "8"; };
  for (const auto* name : {"a", "b"}) late(name, "2", cpu, {{"gpu", "1"}});
  EXPECT_EQ(world.reason("a"), "QuotaExceeded") << world.message("a");
  driver->run(std::chrono::minutes(1));
  world.removePod("full");
  driver->run(std::chrono::seconds(10));
  for (const auto* name : {"a", "b"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
}

TEST_F(GangTest, AQuotaThatRefusesRefusesTheWholeGang) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "2"}};
  quota.spec.enforcement = "Refuse";
  (void)support::World::must(world.client.create(quota));
  settle();
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.reason("a", "Accepted"), "QuotaExceeded") << world.message("a");
  (void)support::World::must(world.client.patch<cache::Quota>({"default", "team"}, kube::PatchType::merge,
                                                              R"({"spec":{"hard":{"gpu":3}}})", {}));
  settle();
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, OfTwoThatNeedTheSameCardsOneIsWhole) {
  for (const auto* name : {"a", "b", "c"}) {
    member(name);
    member(std::string(name) + "2", "3", {}, "other");
  }
  int bound = 0;
  for (const auto* name : {"a", "b", "c"}) bound += phase(name) == "Bound";
  EXPECT_EQ(bound, 3);
  EXPECT_EQ(used(), 3000);
  for (const auto* name : {"a", "b", "c"}) world.removeClaim(name);
  settle();
  for (const auto* name : {"a2", "b2", "c2"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
}

TEST_F(GangTest, StaysWithinOneValueOfANodeLabel) {
  for (const auto* name : {"a", "b"}) member(name, "2", {{"elasticgpu.io/gang-topology", "rack"}});
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(name).status.nodeName, "n2") << world.message(name);
}

TEST_F(GangTest, ItsPodsGoWithTheLastMember) {
  world.addPod("p", {"a"});
  member("a", "2");
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
  member("b", "2");
  EXPECT_EQ(phase("b"), "Bound");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(GangTest, C13_AllOfItsMembersFreeCapacityTogether) {
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  (void)support::World::must(world.client.create(high));
  for (const auto* name : {"a", "b"})
    world.addMember(name, "spare", {{"gpu", "2"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  settle();
  cache::Claim urgent;
  urgent.metadata.name = "urgent";
  urgent.metadata.namespace_ = "default";
  urgent.spec.className = "share";
  urgent.spec.priorityClassName = "high";
  urgent.spec.requests["elasticgpu.io/gpu"] = "1";
  (void)support::World::must(world.client.create(urgent));
  settle();
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(phase("urgent"), "Bound") << world.message("urgent");
  for (const auto* name : {"a", "b"}) EXPECT_NE(phase(name), "Bound") << name << " is of no use without the other";
  EXPECT_EQ(used(), 1000);
  world.removeClaim("urgent");
  driver->run(std::chrono::seconds(30));
  for (const auto* name : {"a", "b"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, MistakesAreReported) {
  member("a", "1");
  EXPECT_EQ(world.reason("a"), "InvalidParameter");
  member("b", "2", {}, "x");
  member("c", "3", {}, "x");
  EXPECT_NE(world.message("b").find("a different size"), std::string::npos) << world.message("b");
}

TEST_F(GangTest, AClaimThatStatesAnotherSizeDoesNotBlockTheOthers) {
  member("a", "2");
  member("b", "3");
  EXPECT_EQ(world.message("b"), "claim a sets a different size or topology for gang train");
  EXPECT_EQ(world.message("a"),
            "1 of 2 members of gang train is here; claim b sets a different size or topology for gang train");
  member("c", "2");
  for (const auto* name : {"a", "c"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
  EXPECT_NE(phase("b"), "Bound");
}

TEST_F(GangTest, ASizeThatChangesOnAllMembersIsObeyed) {
  member("a", "2");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"annotations":{"elasticgpu.io/gang-size":"4"}}})");
  settle();
  EXPECT_EQ(world.message("a"), "1 of 4 members of gang train is here");
  for (const auto* name : {"b", "c", "d"}) member(name, "4", {}, "train");
  for (const auto* name : {"a", "b", "c", "d"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, C14_NoClaimTakesThePlaceOfAMemberThatIsDecided) {
  const auto comes = [&](const std::string& name) {
    world.addMember(name, "share", {{"gpu-core", "10"}},
                    {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  };
  for (const auto* name : {"m0", "m1"}) comes(name);
  settle();
  for (const auto* name : {"m0", "m1"}) ASSERT_EQ(phase(name), "Bound") << world.message(name);
  for (int n = 2; n < 12; ++n) comes("m" + std::to_string(n));  // created in the same second, some with smaller uids
  settle();
  start();  // the next leader
  for (int n = 2; n < 12; ++n) {
    const auto name = "m" + std::to_string(n);
    EXPECT_NE(phase(name), "Bound") << name;
    EXPECT_EQ(world.message(name), "gang g has its 2 members already");
  }
  world.removeClaim("m0");
  settle();
  EXPECT_EQ(used(), 200) << "one of them takes the place that is free";
}

TEST_F(GangTest, AClaimBeyondTheSizeThatComesWithTheLastMemberReportsSo) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  settle();
  for (const auto* name : {"a", "b"}) member(name, "3", {}, "train", {{"gpu", "2"}});
  for (const auto* name : {"c", "d", "e"})
    world.addMember(name, "share", {{"gpu", "2"}}, {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "3"}});
  settle();
  std::multiset<std::string> reports;
  for (const auto* name : {"c", "d", "e"}) reports.insert(world.message(name));
  EXPECT_EQ(reports, (std::multiset<std::string>{"see claim a for what gang train waits for",
                                                 "gang train has its 3 members already",
                                                 "gang train has its 3 members already"}));
}

TEST_F(GangTest, MembersWaitNoLongerForOneThatHasLeft) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  world.addClaim("full2", "share", {{"gpu", "2"}});
  settle();
  world.nextSecond();
  for (const auto* name : {"a", "b", "c"}) member(name, "2");
  EXPECT_EQ(world.message("c"), "gang train has its 2 members already");
  world.json<cache::Claim>(
      {"default", "a"}, R"({"metadata":{"annotations":{"elasticgpu.io/gang":null,"elasticgpu.io/gang-size":null}}})");
  settle();
  EXPECT_EQ(world.message("c"), "see claim b for what gang train waits for");
  world.removeClaim("a");
  for (const auto* name : {"full", "full2"}) world.removeClaim(name);
  settle();
  for (const auto* name : {"b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, AChangedAnnotationWakesTheOldAndTheNewGang) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  world.addClaim("full2", "share", {{"gpu", "2"}});
  settle();
  world.nextSecond();
  member("a", "2");
  member("b", "2");
  member("x", "2", {}, "other");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"annotations":{"elasticgpu.io/gang":"other"}}})");
  settle();
  EXPECT_EQ(world.message("b"), "1 of 2 members of gang train is here");
  EXPECT_EQ(world.message("x"), "see claim a for what gang other waits for");
  for (const auto* name : {"full", "full2"}) world.removeClaim(name);
  settle();
  for (const auto* name : {"a", "x"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
  EXPECT_NE(phase("b"), "Bound");
}

TEST_F(GangTest, ClaimsBeyondTheSizeWakeNoOthers) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  world.addClaim("full2", "share", {{"gpu", "2"}});
  settle();
  world.nextSecond();
  for (const auto* name : {"a", "b"}) member(name, "2");
  driver->steps = 0;
  for (int n = 0; n < 60; ++n) member("m" + std::to_string(n), "2");
  EXPECT_LT(driver->steps, 60 * 6);
  EXPECT_EQ(world.message("m59"), "gang train has its 2 members already");
  driver->steps = 0;
  world.removeClaim("m30");
  settle();
  EXPECT_LT(driver->steps, 20);
}

TEST_F(GangTest, AMistakeOnABoundClaimHoldsNoPodBehindItsGate) {
  world.addClaim("a", "share", {{"gpu", "1"}});
  settle();
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"annotations":{"elasticgpu.io/gang":"x"}}})");
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(GangTest, C14_AMemberThatGetsNoDeviceFreesTheRestAfterAMinute) {
  auto devices = std::make_shared<int>(0);
  line.code = 422;
  line.refuses = [devices](const kube::HttpRequest& request) {
    const bool creates =
        request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos;
    return creates && ++*devices > 2;  // the third device, and all later ones
  };
  startOver(line);
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 2000);
  for (const auto* name : {"a", "b", "c"}) EXPECT_NE(phase(name), "Bound") << name;
  driver->run(std::chrono::seconds(70));
  EXPECT_EQ(used(), 0) << "what stands is kept though the gang can't be whole";
  for (const auto* name : {"a", "b", "c"}) EXPECT_NE(phase(name), "Bound") << name;
  EXPECT_EQ(world.plugin.provisions(), 0);
  line.refuses = nullptr;
  driver->run(std::chrono::minutes(10));
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(GangTest, C14_AMemberThatGoesWhileTheOthersWaitIsNoticed) {
  auto devices = std::make_shared<int>(0);
  line.code = 422;
  line.refuses = [devices](const kube::HttpRequest& request) {
    return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos &&
           ++*devices > 2;
  };
  startOver(line);
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 2000);
  for (const auto* name : {"a", "b", "c"})
    if (!world.exists(deviceOf(name))) world.removeClaim(name);
  driver->run(std::chrono::seconds(70));
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(GangTest, OfALateClassIsBoundOnceAllItsPodsAreThere) {
  world.addMember("a", "late", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "2"}});
  world.nextSecond();  // a is the member that reports
  late("b", "2", {}, {{"gpu", "1"}});
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.reason("a"), "WaitingForGang");
  EXPECT_NE(world.message("a").find("claim a has no pod yet"), std::string::npos) << world.message("a");
  EXPECT_FALSE(world.pod("p-b").schedulingGates.empty());
  world.addPod("p-a", {"a"});
  settle();
  for (const auto* name : {"a", "b"}) {
    EXPECT_EQ(phase(name), "Bound") << world.message(name);
    const auto pod = world.pod(std::string("p-") + name);
    EXPECT_TRUE(pod.schedulingGates.empty());
    ASSERT_TRUE(pod.requiredNodeAffinity) << "pinned, as nothing of it can move";
    EXPECT_EQ(pod.requiredNodeAffinity->terms.at(0).matchFields.at(0).values.at(0), nodeOf(name));
  }
}

TEST_F(GangTest, ATaintIsNotBlamedOnAPodThatAnImmediateClassDoesNotWaitFor) {
  world.taint("n1", R"([{"key":"k","effect":"NoSchedule"}])");
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_NE(world.message("a").find("1 with a taint that the claim's class does not tolerate"), std::string::npos)
      << world.message("a");
  EXPECT_EQ(world.message("a").find("for the pod"), std::string::npos) << world.message("a");
}

TEST_F(GangTest, OfALateClassGoesWhereItsPodsCan) {
  late("a", "2", [](core::Pod& pod) { pod.nodeSelector = {{"rack", "y"}}; });
  world.taint("n1", R"([{"key":"k","effect":"NoSchedule"}])");
  late("b", "2", [](core::Pod& pod) { pod.nodeSelector = {{"rack", "z"}}; });
  EXPECT_EQ(used(), 0);
  for (const auto* part : {"1 of 2 members of gang train fit; claim b does not: 0/2 nodes fit: ",
                           "not suitable for the pod", "; nodes that don't suit pod p-b: "})
    EXPECT_NE(world.message("a").find(part), std::string::npos) << part << ": " << world.message("a");
  world.removePod("p-b");
  auto pod = support::World::podOf("p-b", {"b"});
  pod.tolerations.push_back({"k", "Exists", "", "NoSchedule"});
  pod.nodeSelector = {{"kubernetes.io/hostname", "n1"}};
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"kubernetes.io/hostname":"n1"}}})");
  (void)support::World::must(world.client.create(pod));
  settle();
  EXPECT_EQ(nodeOf("a"), "n2") << world.message("a");
  EXPECT_EQ(nodeOf("b"), "n1") << world.message("b");
}

TEST_F(GangTest, WhatItsPodsAskOfANodeCountsForEachOther) {
  const auto cpu = [](core::Pod& pod) { pod.containers.front().requests["cpu"] = "40"; };  // of 64
  late("a", "2", cpu);
  late("b", "2", cpu);
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_NE(nodeOf("a"), nodeOf("b"));
  auto one = support::World::podOf("other", {"x"});
  cpu(one);
  (void)support::World::must(world.client.create(one));
  world.addClaim("x", "late", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("x"), "NoFit") << "the gang's pods count where they were promised a place";
}

TEST_F(GangTest, OfALateClassWaitsForWhatPodsLackUntilItIsThere) {
  world.occupy("full", "n1", "60");
  world.occupy("full-2", "n2", "60");
  const auto cpu = [](core::Pod& pod) { pod.containers.front().requests["cpu"] = "8"; };
  late("a", "2", cpu);
  late("b", "2", cpu);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.removePod("full");
  driver->run(std::chrono::seconds(10));
  for (const auto* name : {"a", "b"}) EXPECT_EQ(nodeOf(name), "n1") << world.message(name);
}

TEST_F(GangTest, MembersOfOnePodGoToOneNode) {
  world.addClaim("half", "share", {{"gpu", "1"}});  // on n1, where one card remains
  settle();
  for (const auto* name : {"a", "b"})
    world.addMember(name, "late", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  world.addPod("both", {"a", "b"});
  settle();
  EXPECT_EQ(nodeOf("a"), "n2") << world.message("a");
  EXPECT_EQ(nodeOf("b"), "n2") << world.message("b");
  EXPECT_TRUE(world.pod("both").schedulingGates.empty());
}

TEST_F(GangTest, AMemberGoesWhereItsPodsOtherClaimIs) {
  world.addClaim("stands", "share", {{"gpu-core", "10"}});
  settle();
  const auto at = nodeOf("stands");
  world.addClaim("full", "share", {{"gpu", "1"}});  // binpack would choose that node's other card next
  settle();
  world.addMember("a", "share", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  world.addMember("b", "share", {{"gpu-core", "10"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "1"}});
  world.addPod("p", {"stands", "a"});
  settle();
  world.removeClaim("b");
  world.nextSecond();
  member("b", "2", {}, "g", {{"gpu-core", "10"}});
  EXPECT_NE(phase("a"), "Bound") << "its pod can't be on another node than " << at;
  world.removeClaim("full");
  settle();
  EXPECT_EQ(nodeOf("a"), at) << world.message("a");
}

TEST_F(GangTest, C14_AMemberWhosePodLeavesBeforeAllHaveTheirCardsGivesUpItsOwn) {
  auto devices = std::make_shared<int>(0);
  line.code = 422;
  line.refuses = [devices](const kube::HttpRequest& request) {
    return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos &&
           ++*devices > 1;
  };
  startOver(line);
  late("a", "2");
  late("b", "2");
  EXPECT_EQ(used(), 100);
  const std::string first = world.exists(deviceOf("a")) ? "a" : "b";
  world.removePod("p-" + first);
  settle();
  EXPECT_EQ(used(), 0);
}

/// One member's provisioner rejects it permanently when the other members are Bound.
class GangFails : public GangTest {
 protected:
  /// Lets the last of three members to be provisioned fail with this code.
  void failing(plugin::ReplyCode code, bool always = false) { world.plugin.answer({{}, {}, {code, "no"}}, always); }
  std::string last() {
    for (const auto* name : {"a", "b", "c"})
      if (phase(name) != "Bound") return name;
    return {};
  }
  int64_t bound() {
    int64_t n = 0;
    for (const auto* name : {"a", "b", "c"}) n += phase(name) == "Bound";
    return n;
  }
};

TEST_F(GangFails, C14_ForGoodFreesTheRestAfterAMinute) {
  for (const auto* name : {"a", "b", "c"}) world.addPod(std::string("p-") + name, {name});
  failing(plugin::ReplyCode::invalid);
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(bound(), 2);
  driver->run(std::chrono::seconds(50));
  EXPECT_EQ(bound(), 2);
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(bound(), 0);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.garbage(), "");
  for (const auto* name : {"a", "b", "c"}) EXPECT_FALSE(world.pod(std::string("p-") + name).schedulingGates.empty());
  driver->run(std::chrono::minutes(10));  // the provisioner is called again
  EXPECT_EQ(bound(), 3);
  for (const auto* name : {"a", "b", "c"}) EXPECT_TRUE(world.pod(std::string("p-") + name).schedulingGates.empty());
}

TEST_F(GangFails, C14_AgainAndAgainFreesTheRestAfterSixMinutes) {
  failing(plugin::ReplyCode::unavailable, true);
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(bound(), 2);
  driver->run(std::chrono::minutes(4));
  EXPECT_EQ(bound(), 2);
  EXPECT_EQ(used(), 3000);
  driver->run(std::chrono::minutes(4));
  EXPECT_EQ(bound(), 0);
  EXPECT_EQ(used(), 0);
  world.plugin.answer({});
  driver->run(std::chrono::minutes(10));
  EXPECT_EQ(bound(), 3) << world.message(last());
}

TEST_F(GangFails, C14_TheRestIsRetainedWhileAPodOfItRuns) {
  for (const auto* name : {"a", "b", "c"}) world.addPod(std::string("p-") + name, {name});
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(bound(), 3);
  world.schedule("p-a");
  world.removePod("p-c");
  world.removeClaim("c");
  driver->run(std::chrono::minutes(5));
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(phase("b"), "Bound") << "its pod went on behind no gate";
  member("c");
  EXPECT_EQ(bound(), 3);
}

TEST_F(GangFails, C14_AMemberThatGoesFreesThoseThatNoPodUses) {
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(bound(), 3);
  world.removeClaim("c");
  driver->run(std::chrono::seconds(50));
  EXPECT_EQ(used(), 2000);
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(world.reason("a"), "WaitingForGang");
  member("c");
  EXPECT_EQ(bound(), 3);
}

TEST_F(GangFails, ADeviceThatAUserDeletesIsHeldAsAnyOther) {
  for (const auto* name : {"a", "b", "c"}) member(name);
  support::World::mustOk(world.client.remove<cache::Gpu>({"", deviceOf("a")}));
  driver->run(std::chrono::minutes(2));
  EXPECT_EQ(bound(), 3);
  const auto before = writes();
  driver->run(std::chrono::minutes(2));
  EXPECT_EQ(writes(), before);
  EXPECT_EQ(world.gpu(deviceOf("a")).status.reason, "InUse");
}

TEST_F(GangFails, C14_WhatIsMarkedIsRetainedIfTheGangIsWholeAgain) {
  for (const auto* name : {"a", "b", "c"}) member(name);
  world.removeClaim("c");
  settle();
  const auto before = deviceOf("a");
  // Sets the mark and fails all later writes.
  auto marked = std::make_shared<bool>(false);
  line.code = 500;
  line.refuses = [marked](const kube::HttpRequest& request) {
    if (request.method == kube::Method::get) return false;
    if (request.body.find("WaitingForGang") != std::string::npos &&
        request.target.find("/elasticgpus/") != std::string::npos)
      return std::exchange(*marked, true);
    return *marked;
  };
  startOver(line);
  driver->run(std::chrono::seconds(65));
  EXPECT_TRUE(*marked);
  line.refuses = nullptr;
  member("c");
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(bound(), 3);
  EXPECT_EQ(deviceOf("a"), before);
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(world.gpu(deviceOf(name)).status.reason, "") << name;
}

TEST_F(GangFails, C14_OfALostNodeIsDecidedAnewBesideTheOthersOrNotAtAll) {
  for (const auto* name : {"a", "b"}) member(name, "2");
  ASSERT_EQ(nodeOf("a"), nodeOf("b"));
  member("c", "2", {}, "other");
  member("d", "2", {}, "other");
  ASSERT_NE(nodeOf("c"), nodeOf("a"));
  for (const auto* card : {"gpu-n1-0"})
    world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Failed"}})", "status");
  driver->run(std::chrono::minutes(3));
  // Three cards are needed and two remain: the gang holds nothing on n1.
  const bool first = world.gpu("gpu-n1-1").spec.allocations.empty();
  EXPECT_TRUE(first);
  EXPECT_EQ(used(), 2000);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"phase":"Bound"}})", "status");
  driver->run(std::chrono::minutes(3));
  for (const auto* name : {"a", "b", "c", "d"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(GangTest, TheLargestGang_IsBoundWithAFewStepsOfEachMember) {
  constexpr int kSize = static_cast<int>(v1alpha::Gang::kMax);
  const core::StringMap gang{{"elasticgpu.io/gang", "large"}, {"elasticgpu.io/gang-size", std::to_string(kSize)}};
  for (int n = 0; n < 12; ++n) {  // a card's ledger has at most 128 entries
    world.addNode("large-" + std::to_string(n));
    world.addCard("large-" + std::to_string(n), 0);
  }
  const auto add = [&](int n) {
    world.addMember("m" + std::to_string(n), "share", {{"gpu-core", "1"}, {"gpu-memory", "64Mi"}}, gang);
  };
  for (int n = 0; n < kSize - 1; ++n) add(n);
  settle();
  for (int n = 0; n < kSize - 1; ++n) ASSERT_EQ(phase("m" + std::to_string(n)), "Pending") << n;
  driver->steps = 0;
  add(kSize - 1);
  settle();
  for (int n = 0; n < kSize; ++n) ASSERT_EQ(phase("m" + std::to_string(n)), "Bound") << world.message("m0");
  EXPECT_LT(driver->steps, kSize * 16) << "each member's events make work for itself, not for all others";
}

/// Two gangs arrive member by member in any order, and capacity for them comes and goes. In the end one gang is
/// complete, and the other one holds nothing.
TEST_F(GangTest, OfTwoThatNeedTheSameCardsOneIsWholeInWhateverOrderTheyCome) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> names{"a1", "a2", "a3", "b1", "b2", "b3"};
    std::shuffle(names.begin(), names.end(), random);
    const bool full = random() % 2 == 0;
    if (full) world.addClaim("full", "share", {{"gpu", "2"}});
    settle();
    for (const auto& name : names) {
      world.addMember(name, "share", {{"gpu", "1"}},
                      {{"elasticgpu.io/gang", name.substr(0, 1)}, {"elasticgpu.io/gang-size", "3"}});
      for (auto n = random() % 12; n-- > 0;) driver->stepOnce();
      if (random() % 3 == 0) driver->poll();
      if (random() % 8 == 0) start();
    }
    settle();
    if (full) {
      EXPECT_EQ(used(), 2000);
      world.removeClaim("full");
    }
    driver->run(std::chrono::seconds(10));
    int bound = 0;
    for (const auto& name : names) bound += phase(name) == "Bound";
    ASSERT_EQ(bound, 3) << "round " << round;
    ASSERT_EQ(phase("a1") == "Bound", phase("a3") == "Bound");
    ASSERT_EQ(used(), 3000);
    for (const auto& name : names) world.removeClaim(name);
    settle();
    ASSERT_EQ(used(), 0);
  }
}

TEST_F(GangTest, WhatADeadLeaderWroteOfItIsCompleted) {
  for (const auto* name : {"a", "b", "c"}) member(name);
  world.removeClaim("c");
  settle();
  start();  // a and b have devices
  member("c");
  EXPECT_EQ(phase("c"), "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
