// Preemption for all claims of a pod at once, and for several pods of a claim.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reconcile/priority/preempting.h"

namespace egpu::reconcile {
namespace {

using support::World;

TEST_F(PreemptionTest, C6_V1_V5_OthersGoForAllClaimsOfAPodAtOnce) {
  claim("a", "spare");
  claim("b", "spare");
  pod("runs-a", "a");
  pod("runs-b", "b");
  for (const auto* name : {"x", "y"}) claim(name, "late", "high");
  world.addPod("both", {"x", "y"});
  settle();
  EXPECT_EQ(world.message("x").rfind(
                "pod both preempts on node n1, where the freed capacity is reserved for it: evicts claims default/", 0),
            0u)
      << world.message("x");
  EXPECT_EQ(world.message("y"), "capacity on node n1 is reserved for it; claim x lists the victims for pod both");
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

TEST_F(PreemptionTest, AnOlderPodThatChoosesForNothingBlocksNobodysPlan) {
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
  EXPECT_TRUE(world.resourceClaim("x") && world.resourceClaim("x")->allocation) << world.message("x");
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
  EXPECT_TRUE(world.resourceClaim("x") && world.resourceClaim("x")->allocation) << world.message("x");
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
  driver->run(std::chrono::seconds(20));  // it is in use, and no capacity becomes free
  EXPECT_EQ(victims("x"), std::vector<std::string>{deviceOf("a")}) << world.message("x");
  ends("runs-a", "a");
  driver->run();
  EXPECT_TRUE(world.resourceClaim("x") && world.resourceClaim("x")->allocation) << world.message("x");
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
  EXPECT_NE(world.message("x").find("free enough capacity for all claims of pod both"), std::string::npos)
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
  line.code = 0;  // marked, but not evicted yet
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
  EXPECT_EQ(world.message("x"), "waits for claim y of pod both: all claims of a pod go to one node");
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.gpu(deviceOf(name)).status.reason, "") << name;
  EXPECT_TRUE(podIsThere("runs-a") && podIsThere("runs-b"));
}

}  // namespace
}  // namespace egpu::reconcile
