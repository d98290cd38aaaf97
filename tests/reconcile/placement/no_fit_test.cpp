// (C6): claims that do not fit, the events after which they are tried again, and their conditions meanwhile.
#include "controller/reconcile/claim/conditions.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using NoFitTest = ReconcileTest;
using support::kGi;

TEST_F(NoFitTest, C6_NoFitIsTriedAgainWhenACardComes) {
  world.addClaim("a", "share", {{"gpu", "3"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_FALSE(world.message("a").empty());
  EXPECT_EQ(driver->reconciler.waitingForCapacity(), 1u);
  world.addCard("n1", 2);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(driver->reconciler.waitingForCapacity(), 0u);
}

TEST_F(NoFitTest, C6_MemoryWithoutAUnitIsExplainedOnce) {
  world.addClaim("mib", "share", {{"gpu-memory", "3000"}});
  world.addClaim("neither", "share", {{"gpu-memory", "300000"}});
  settle();
  const auto mib = world.message("mib"), neither = world.message("neither");
  EXPECT_NE(mib.find("was 3000Mi meant?"), std::string::npos) << mib;
  EXPECT_EQ(mib.find("the largest card"), std::string::npos) << mib;
  EXPECT_NE(neither.find("gpu-memory 300000 without a suffix is 300000Gi, and the largest card has"), std::string::npos)
      << neither;
}

TEST_F(NoFitTest, C6_NoFitIsTriedAgainWhenAClaimLeaves) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  world.addClaim("b", "share", {{"gpu-core", "50"}});
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  world.removeClaim("a");
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(NoFitTest, C6_ExhaustionFillsTheCardsExactly) {
  for (int i = 0; i < 25; ++i)
    world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "10"}, {"gpu-memory", "1"}});
  settle();
  int bound = 0, noFit = 0;
  for (int i = 0; i < 25; ++i) {
    bound += world.claim("c" + std::to_string(i)).status.phase == "Bound";
    noFit += world.reason("c" + std::to_string(i)) == "NoFit";
  }
  EXPECT_EQ(bound, 20);
  EXPECT_EQ(noFit, 5);
}

TEST_F(NoFitTest, C6_APodWithoutGateFollowsALabelThatItWaitsFor) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"x"}}})");
  settle();
  ASSERT_TRUE(world.resourceClaim("a"));
  EXPECT_TRUE(world.resourceClaim("a")->allocation);
}

TEST_F(NoFitTest, C6_ACordonedNodeIsTriedAgainWhenItIsBack) {
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":true}})");
  settle();
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("cordoned"), std::string::npos) << world.message("a");
  world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":null}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(NoFitTest, C6_ATaintIsNotBlamedOnAPodThatAnImmediateClassDoesNotWaitFor) {
  world.taint("n1", R"([{"key":"gpu","value":"yes","effect":"NoSchedule"}])");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("with a taint that the claim's class does not tolerate"), std::string::npos)
      << world.message("a");
  EXPECT_EQ(world.message("a").find("for the pod"), std::string::npos) << world.message("a");
}

TEST_F(NoFitTest, C6_ANodeThatIsGoneIsNotCalledCordoned) {
  world.addClaim("fills", "share", {{"gpu", "2"}});
  settle();
  world.removeNode("n1");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("1 without a Node object"), std::string::npos) << world.message("a");
  EXPECT_EQ(world.message("a").find("cordoned"), std::string::npos) << world.message("a");
}

TEST_F(NoFitTest, C6_AModelThatNoCardHasNamesThoseThatExist) {
  world.addClass("large", "Delete", "Immediate", {{"model", "H1OO|H200"}});
  world.addClaim("a", "large", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("of another model (the cluster has T4)"), std::string::npos) << world.message("a");
  const auto condition = [&] {
    const auto cls = world.must(world.client.get<cache::Class>({"", "large"}));
    const auto* found = findCondition(cls.conditions, kModelsExist);
    return found == nullptr ? std::string() : found->status + " " + found->reason + " " + found->message;
  };
  EXPECT_EQ(condition(), "False NoSuchModel parameters[model]: no card is of model H1OO or H200; the cluster has T4");
  world.addCard("n1", 2, 16 * kGi, "H200");
  settle();
  EXPECT_EQ(condition(), "True Found ");
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  const auto share = world.must(world.client.get<cache::Class>({"", "share"}));
  EXPECT_EQ(findCondition(share.conditions, kModelsExist), nullptr) << "it names no model";
}

TEST_F(NoFitTest, C6_ARetainedDeviceThatIsDeletedFreesCapacity) {
  world.addClaim("a", "keep", {{"gpu", "2"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  world.addClaim("b", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(NoFitTest, C6_NoFitReportsWhyNodesDontSuitThePod) {
  world.addClass("later", "Delete", "WaitForFirstConsumer");
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("nodes that don't suit pod p: 1 not labelled zone=x as the pod selects"),
            std::string::npos)
      << world.message("a");
}

TEST_F(NoFitTest, C6_AFirstConsumerWithoutCapacityReportsItAndIsTriedAgain) {
  world.addClaim("a", "late", {{"gpu", "3"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.addCard("n1", 2);
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

}  // namespace
}  // namespace egpu::reconcile
