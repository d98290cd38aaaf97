// Preemption for quota: victims release quota, which is held for the preemptor; quota that becomes free in several
// steps is reserved.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reconcile/priority/preempting.h"

namespace egpu::reconcile {
namespace {

using support::World;
using Names = std::vector<std::string>;

/// Two nodes of two cards.
class PreemptionForQuotaTest : public PreemptionTest {
 protected:
  void SetUp() override {
    PreemptionTest::SetUp();
    world.addNode("n2");
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    settle();
  }
  void quota(core::StringMap hard, const std::string& name = "team", const std::string& enforcement = "Wait") {
    cache::Quota made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.hard = std::move(hard);
    made.spec.enforcement = enforcement;
    (void)World::must(world.client.create(made));
    settle();
  }
  std::string nodeOf(const std::string& claim) { return world.gpu(deviceOf(claim)).spec.nodeName; }
};

TEST_F(PreemptionForQuotaTest, C13_AClaimBehindItsOwnPreemptibleClaimsIsServedThoughCardsAreEmpty) {
  quota({{"gpu", "1"}});
  claim("low", "spare");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound") << world.message("big");
  EXPECT_EQ(phase("low"), "Pending");
  EXPECT_EQ(world.reason("low"), "QuotaExceeded");
  EXPECT_EQ(countEvents("big Normal Preempting"), 1);
  EXPECT_FALSE(world.claim("big").status.nominated);
}

TEST_F(PreemptionForQuotaTest, OfOthersOrOfHigherPriorityNoneGoes) {
  world.addNamespace("other");
  quota({{"gpu", "2"}});
  claim("mine", "spare", "high");
  claim("fixed", "share");
  claim("theirs", "spare", {}, {{"gpu", "1"}}, "other");
  claim("big", "share", "middle");
  driver->run();
  EXPECT_EQ(world.reason("big"), "QuotaExceeded");
  EXPECT_EQ(phase("mine"), "Bound");
  EXPECT_EQ(World::must(world.client.get<cache::Claim>({"other", "theirs"})).status.phase, "Bound");
  World::mustOk(world.client.remove<cache::Claim>({"other", "theirs"}));
  settle();
}

TEST_F(PreemptionForQuotaTest, TheFewestGoForQuotaAndCardsAtOnce) {
  quota({{"gpu", "3"}});
  world.addNamespace("other");
  claim("a", "spare");
  claim("b", "spare");
  claim("c", "spare");
  claim("theirs", "spare", {}, {{"gpu", "1"}}, "other");
  claim("big", "share", "high");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound") << world.message("big");
  EXPECT_EQ(World::must(world.client.get<cache::Claim>({"other", "theirs"})).status.phase, "Bound")
      << "one that gives back both goes rather than two";
  int bound = 0;
  for (const auto* name : {"a", "b", "c"}) bound += phase(name) == "Bound";
  EXPECT_EQ(bound, 2);
  World::mustOk(world.client.remove<cache::Claim>({"other", "theirs"}));
  settle();
}

TEST_F(PreemptionForQuotaTest, WhileVictimsGoWhatBecomesFreeIsHeldForThePreemptorAlsoAfterARestart) {
  quota({{"gpu", "2"}});
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  claim("big", "share", "high", {{"gpu", "2"}});
  EXPECT_EQ(world.reason("big"), "Preempting") << world.message("big");
  EXPECT_EQ(victims("big").size(), 2u);
  EXPECT_FALSE(podIsThere("runs-a"));
  EXPECT_FALSE(podIsThere("runs-b"));
  ends("runs-a", "a");
  claim("small", "share");
  EXPECT_EQ(world.reason("small"), "QuotaExceeded");
  EXPECT_NE(world.message("small").find(
                "quota team allows gpu 2, 1 is used and 1 is reserved for claim default/big, ahead in "
                "the queue: 1 too little for another 1"),
            std::string::npos)
      << world.message("small");
  start();  // the next leader
  claim("tiny", "share", {}, {{"gpu-core", "10"}});
  EXPECT_EQ(world.reason("tiny"), "QuotaExceeded") << world.message("tiny");
  EXPECT_EQ(phase("small"), "Pending");
  EXPECT_EQ(world.reason("big"), "Preempting");
  ends("runs-b", "b");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound") << world.message("big");
  for (const auto* name : {"a", "b", "big"}) world.removeClaim(name);
  driver->run();
  EXPECT_EQ(phase("small"), "Bound") << "nothing is held any more: " << world.message("small");
  EXPECT_EQ(phase("tiny"), "Bound");
}

TEST_F(PreemptionForQuotaTest, APreemptorThatGoesLeavesWhatWasHeldToOthers) {
  quota({{"gpu", "2"}});
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  claim("big", "share", "high", {{"gpu", "2"}});
  ends("runs-a", "a");
  world.removeClaim("a");
  claim("small", "share");
  ASSERT_EQ(world.reason("small"), "QuotaExceeded");
  world.removeClaim("big");
  driver->run();
  EXPECT_EQ(phase("small"), "Bound") << world.message("small");
}

TEST_F(PreemptionForQuotaTest, VictimsOnOtherNodesGoForAllClaimsOfAPod) {
  quota({{"gpu", "2"}});
  claim("a", "spare");
  claim("b", "spare");
  ASSERT_EQ(nodeOf("a"), nodeOf("b"));
  const std::string free = nodeOf("a") == "n1" ? "n2" : "n1";
  world.json<core::Node>({"", free}, R"({"metadata":{"labels":{"zone":"z"}}})");
  settle();
  for (const auto* name : {"x", "y"}) claim(name, "late", "high");
  world.addPod("both", {"x", "y"}, true, {{"zone", "z"}});
  driver->run();
  world.schedule("both");
  driver->run();
  EXPECT_EQ(phase("x"), "Bound") << world.message("x");
  EXPECT_EQ(phase("y"), "Bound") << world.message("y");
  EXPECT_EQ(nodeOf("x"), free);
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_EQ(phase("b"), "Pending");
}

TEST_F(PreemptionForQuotaTest, OfAFirstConsumerOneVictimGoes) {
  quota({{"gpu-memory", "20Gi"}});
  claim("a", "spare", {}, {{"gpu-core", "10"}, {"gpu-memory", "8Gi"}});
  claim("b", "spare", {}, {{"gpu-core", "10"}, {"gpu-memory", "10Gi"}});
  claim("x", "late", "high", {{"gpu-core", "10"}, {"gpu-memory", "9Gi"}});
  world.addPod("p", {"x"});
  driver->run();
  world.schedule("p");
  driver->run();
  EXPECT_EQ(phase("x"), "Bound") << world.message("x");
  EXPECT_EQ(phase("a") + phase("b"), "BoundPending") << "b is younger, and gives back enough";
}

TEST_F(PreemptionForQuotaTest, OthersGoForAllMembersOfAGang) {
  quota({{"gpu", "2"}});
  claim("a", "spare");
  claim("b", "spare");
  for (const auto* name : {"x", "y"}) {
    world.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.metadata.annotations = {{"elasticgpu.io/gang", "train"}, {"elasticgpu.io/gang-size", "2"}};
    made.spec.className = "share";
    made.spec.priorityClassName = "high";
    made.spec.requests["elasticgpu.io/gpu"] = "1";
    (void)World::must(world.client.create(made));
    settle();
  }
  driver->run();
  for (const auto* name : {"x", "y"}) EXPECT_EQ(phase(name), "Bound") << world.message(name);
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.reason(name), "QuotaExceeded") << world.message(name);
}

TEST_F(PreemptionForQuotaTest, WhatAQuotaRefusesOrNeverAllowsMakesNoneGo) {
  quota({{"gpu", "1"}}, "strict", "Refuse");
  claim("a", "spare");
  claim("b", "share", "high");
  driver->run();
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_EQ(world.reason("b", "Accepted"), "QuotaExceeded");
  world.removeClaim("b");
  claim("c", "share", "high", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(phase("a"), "Bound");
}

/// Ten claims of 10 % that are not preemptible.
class QuotaPieceByPieceTest : public PreemptionForQuotaTest {
 protected:
  void SetUp() override {
    PreemptionForQuotaTest::SetUp();
    quota({{"gpu-core", "100"}});
    for (int i = 0; i < 10; ++i) part("d" + std::to_string(i));
  }
  void part(const std::string& name) { claim(name, "share", {}, {{"gpu-core", "10"}}); }
  void ends(const std::string& name) {
    world.removeClaim(name);
    settle();
  }
};

TEST_F(QuotaPieceByPieceTest, ItIsReservedForTheFirstThatHasWaitedForLong) {
  claim("big", "share", "high", {{"gpu-core", "60"}});
  ends("d0");
  part("early");
  EXPECT_EQ(phase("early"), "Bound") << "big has not waited for long";
  world.clock.advance(std::chrono::seconds(601));
  driver->run();
  ends("d1");
  part("later");
  EXPECT_EQ(world.reason("later"), "QuotaExceeded");
  EXPECT_NE(world.message("later").find("is reserved for claim default/big, ahead in the queue"), std::string::npos)
      << world.message("later");
  for (int i = 2; i < 6; ++i) {
    ends("d" + std::to_string(i));
    EXPECT_EQ(phase("later"), "Pending") << i;
  }
  EXPECT_EQ(phase("big"), "Pending");
  claim("urgent", "share", "high", {{"gpu-core", "10"}});
  EXPECT_EQ(world.reason("urgent"), "QuotaExceeded") << "it is younger";
  ends("d6");
  driver->run();
  EXPECT_EQ(phase("big"), "Bound") << world.message("big");
  ends("d7");
  driver->run();
  EXPECT_EQ(phase("urgent"), "Bound") << "the higher priority comes first: " << world.message("urgent");
  EXPECT_EQ(phase("later"), "Pending");
  ends("d8");
  driver->run();
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

TEST_F(QuotaPieceByPieceTest, WhatTheQuotaNeverAllowsBlocksNone) {
  claim("never", "share", "high", {{"gpu-core", "100"}});
  world.json<cache::Quota>({"default", "team"}, R"({"spec":{"hard":{"gpu-core":"60"}}})");
  world.clock.advance(std::chrono::seconds(601));
  driver->run();
  for (int i = 0; i < 5; ++i) ends("d" + std::to_string(i));
  part("small");
  EXPECT_EQ(phase("small"), "Bound") << world.message("small");
}

TEST_F(QuotaPieceByPieceTest, AnOwnerThatGoesLeavesItToOthers) {
  claim("big", "share", "high", {{"gpu-core", "60"}});
  world.clock.advance(std::chrono::seconds(601));
  driver->run();
  ends("d1");
  part("later");
  ASSERT_EQ(phase("later"), "Pending");
  world.removeClaim("big");
  driver->run();
  EXPECT_EQ(phase("later"), "Bound") << world.message("later");
}

}  // namespace
}  // namespace egpu::reconcile
