// Gangs: nothing is held while a member is missing or doesn't fit, all are bound together, and pods go with the last one.
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
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  support::RefusingTransport line{*world.transport};
  int64_t used() { return driver->cluster.totals().usedCore; }
};

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

TEST_F(GangTest, HoldsNothingWhileOneDoesNotFit) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  settle();
  for (const auto* name : {"a", "b", "c"}) member(name);
  EXPECT_EQ(used(), 2000);
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("2 of 3 members of gang train fit; claim c does not"), std::string::npos)
      << world.message("a");
  world.removeClaim("full");
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

TEST_F(GangTest, NoneOfItsMembersHasToMakeRoom) {
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
  EXPECT_EQ(world.reason("urgent"), "NoFit");
  EXPECT_FALSE(world.claim("urgent").status.nominated);
  for (const auto* name : {"a", "b"}) EXPECT_EQ(phase(name), "Bound") << name;
}

TEST_F(GangTest, MistakesAreSaid) {
  member("a", "1");
  EXPECT_EQ(world.reason("a"), "InvalidParameter");
  member("b", "2", {}, "x");
  member("c", "3", {}, "x");
  EXPECT_NE(world.message("b").find("another size"), std::string::npos) << world.message("b");
}

TEST_F(GangTest, C14_AMemberThatGetsNoDeviceFreesTheRestAfterAMinute) {
  auto devices = std::make_shared<int>(0);
  line.code = 422;
  line.refuses = [devices](const kube::HttpRequest& request) {
    const bool creates =
        request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos;
    return creates && ++*devices > 2;  // the third device, and all after it
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

TEST_F(GangTest, WhatADeadLeaderWroteOfItIsCompleted) {
  for (const auto* name : {"a", "b", "c"}) member(name);
  world.removeClaim("c");
  settle();
  start();  // a and b stand
  member("c");
  EXPECT_EQ(phase("c"), "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
