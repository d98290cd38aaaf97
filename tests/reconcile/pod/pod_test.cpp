// (C5), (C10), W9: the pod that uses a claim.
#include <algorithm>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using PodTest = ReconcileTest;

TEST_F(PodTest, W9_AClaimThatTheCacheHasNotSeenYetIsAskedFor) {
  driver->claims.faults.delay = driver->claims.events();
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(countEvents("p Warning WaitingForClaim"), 0);
}

TEST_F(PodTest, C10_AGatedPodIsPinnedOnceItsResourceClaimIsAllocated) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_FALSE(world.resourceClaim("a"));  // no pod needs it
  world.addPod("p", {"a"});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 3u);  // W7, W8, W9
  const auto resourceClaim = world.resourceClaim("a");
  ASSERT_TRUE(resourceClaim);
  EXPECT_TRUE(ResourceClaimBridge::ownedBy(*resourceClaim, world.claim("a").metadata.uid));
  ASSERT_TRUE(resourceClaim->allocation);
  EXPECT_EQ(resourceClaim->allocation->device, deviceOf("a"));
  EXPECT_EQ(resourceClaim->allocation->nodeName, "n1");
  const auto pod = world.pod("p");
  EXPECT_TRUE(pod.schedulingGates.empty());
  ASSERT_TRUE(pod.requiredNodeAffinity);
  EXPECT_EQ(pod.requiredNodeAffinity->terms.at(0).matchFields.at(0).values.at(0), "n1");
}

TEST_F(PodTest, W9_ClaimsOnTwoNodesAreNamed) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  world.addClaim("b", "share", {{"gpu-core", "10"}}, "gpu-n2-0");
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "NodeUnsuitable");
  EXPECT_NE(world.message("b", "ResourceClaimReady").find("claim a is on node n1, claim b on node n2"),
            std::string::npos);
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
}

TEST_F(PodTest, W9_AGatedPodReportsWhatItWaitsFor) {
  const auto countReports = [&](const std::string& text) {
    const auto lines = driver->events.lines();
    return std::count_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line.find("p Warning WaitingForClaim " + text) == 0; });
  };
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(countReports("claim a: there is no such ElasticGPUClaim"), 1);
  world.addClaim("a", "share", {{"gpu", "9"}});
  settle();
  EXPECT_EQ(countReports("claim a: NoFit: 0/"), 1);
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"labels":{"touched":"yes"}}})");
  settle();
  EXPECT_EQ(countReports(""), 2) << "the same again";
}

TEST_F(PodTest, W9_AGatedPodReportsThatThePluginFails) {
  world.plugin.answer({{plugin::ReplyCode::internal, "no room on the disk"}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  driver->run();
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim a: ProvisionFailed: "), 1);
  world.plugin.answer({});
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(PodTest, W9_ANodeThatThePodExcludesIsNamedAndFollowed) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "NodeUnsuitable");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"x"}}})");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimReady");
}

TEST_F(PodTest, C5_WaitForFirstConsumer) {
  world.addNode("n2", {{"zone", "x"}});
  world.addCard("n2", 0);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  // The node suits the pod; the claim is allocated and not provisioned yet; the gate is removed without a pin.
  EXPECT_EQ(world.resourceClaim("a")->allocation->nodeName, "n2");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_FALSE(world.pod("p").requiredNodeAffinity);
  EXPECT_TRUE(world.plugin.made().empty());
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.nodeName, "n2");
  world.removePod("p");
}

TEST_F(PodTest, C5_ClearedByTheSchedulerGoesToAnotherNodeWithAllClaimsOfThePod) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a", "b"});
  settle();
  const auto first = world.resourceClaim("a")->allocation->nodeName;
  EXPECT_EQ(world.resourceClaim("b")->allocation->nodeName, first);
  world.clearAllocation("a");
  driver->run(std::chrono::seconds(5));
  ASSERT_TRUE(world.resourceClaim("a")->allocation);
  ASSERT_TRUE(world.resourceClaim("b")->allocation);
  EXPECT_NE(world.resourceClaim("a")->allocation->nodeName, first);
  EXPECT_EQ(world.resourceClaim("b")->allocation->nodeName, world.resourceClaim("a")->allocation->nodeName);
}

TEST_F(PodTest, C5_AConsumerThatLeavesFreesTheIntent) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.exists(deviceOf("a")));
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(deviceOf("a")));
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
}

TEST_F(PodTest, AnUnsuitableNodeIsForgottenWithItsPod) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "NodeUnsuitable");
  world.removePod("p");
  settle();
  EXPECT_NE(world.reason("a", "ResourceClaimReady"), "NodeUnsuitable");
}

TEST_F(PodTest, TwoClaimsOfOnePodAndThePodGoesBeforeItRan) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "late", {{"gpu-core", "20"}});
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 300);
  world.removePod("p");
  driver->run();
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0);
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.reason(name), "WaitingForConsumer");
  EXPECT_TRUE(world.plugin.made().empty());
  world.addPod("q", {"a", "b"});
  driver->run();  // a cleared allocation stays empty for a moment
  world.schedule("q");
  settle();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(name).status.phase, "Bound");
  world.removePod("q");
}

TEST_F(PodTest, AGateIsLiftedOnce) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  const auto version = world.pod("p").metadata.resourceVersion;
  world.clearAllocation("a");
  driver->run();
  start();
  driver->run();
  EXPECT_EQ(world.pod("p").metadata.resourceVersion, version);
}

}  // namespace
}  // namespace egpu::reconcile
