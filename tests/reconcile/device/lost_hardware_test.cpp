// (C11): cards and nodes that disappear and return.
#include <algorithm>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using LostHardwareTest = ReconcileTest;

TEST_F(LostHardwareTest, C11_NodeGoneMeansLostAndBoundAnewElsewhere) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto was = world.claim("a").status.nodeName;
  world.removeNode(was);
  driver->run();
  for (const auto& card : support::World::must(world.client.listAll<cache::Gpu>({})))
    if (card.isCard() && card.spec.card->nodeName == was) {
      EXPECT_EQ(card.status.phase, "Failed") << card.metadata.name;
    }
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_NE(claim.status.nodeName, was);
  const auto lines = driver->events.lines();
  EXPECT_TRUE(
      std::any_of(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("a Warning CardGone", 0) == 0; }));
}

TEST_F(LostHardwareTest, C11_ALostClaimInUseStaysLostUntilTheNodeIsBack) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  EXPECT_EQ(world.reason("a"), "CardGone");
  world.addNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(LostHardwareTest, ANodeGoesAndComesWithNowhereElseToGo) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.addNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
}

TEST_F(LostHardwareTest, ACardThatIsIllStaysSoWhenItsNodeGoesAndComes) {
  world.json<cache::Gpu>({"", "gpu-n1-0"},
                         R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})",
                         "status");
  settle();
  const auto health = [&] {
    const auto card = world.gpu("gpu-n1-0");
    const auto* healthy = findCondition(card.status.conditions, kHealthy);
    return healthy == nullptr ? std::string("nothing") : healthy->status + " " + healthy->reason;
  };
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Failed");
  EXPECT_EQ(health(), "False Xid79");
  world.addNode("n1");
  driver->run();
  EXPECT_NE(world.gpu("gpu-n1-0").status.phase, "Failed");
  EXPECT_EQ(health(), "False Xid79");
  EXPECT_EQ(driver->cluster.allocationMap().quarantineReason("gpu-n1-0"), "Xid79");
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit") << "one works";
}

TEST_F(LostHardwareTest, ACardDeletedUnderAClaimInUseLeavesWithItsPod) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  runPod("p", {"a"});
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  EXPECT_TRUE(world.exists("gpu-n1-0"));
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));
  EXPECT_NE(world.claim("a").status.phase, "Bound");
  world.removeClaim("a");
  driver->run();
}

TEST_F(LostHardwareTest, ANewPodIsNotPinnedToACardThatIsGone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  const auto card = world.gpu(deviceOf("a")).spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Failed","reason":"Xid79"}})", "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  world.addPod("q", {"a"});
  settle();
  EXPECT_FALSE(world.pod("q").schedulingGates.empty());
  EXPECT_EQ(countEvents("q Warning WaitingForClaim claim a: " + world.reason("a") + ": "), 1) << "why it stays gated";
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Available","reason":null}})", "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("p");
  world.removePod("q");
}

TEST_F(LostHardwareTest, ACardThatIsBeingDeletedReportsThatItGoesAndWhatIsUsedOfIt) {
  start(std::chrono::seconds(1));
  world.addClaim("a", "share", {}, "gpu-n1-0");
  runPod("p", {"a"});
  // Before its summary is written.
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  auto card = world.gpu("gpu-n1-0");
  EXPECT_EQ(card.status.phase, "Terminating");
  EXPECT_EQ(card.status.reason, "Deleting");
  EXPECT_EQ(card.status.message, "is being deleted; waits for claim default/a to leave it");
  ASSERT_TRUE(card.status.allocated);
  EXPECT_EQ(card.status.allocated->coreText, "100%");
  EXPECT_EQ(card.status.allocated->claims, 1);
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.message,
            "is being deleted; node n1 is gone; waits for claim default/a to leave it");
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));
}

TEST_F(LostHardwareTest, AClaimAndItsDeviceNameEveryLostCard) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  runPod("p", {"a"});
  const auto device = deviceOf("a");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_EQ(world.message("a"), "card gpu-n1-0 is being removed");
  EXPECT_EQ(world.gpu(device).status.message, "card gpu-n1-0 is being removed");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-1"}));
  driver->run();
  EXPECT_EQ(world.message("a"), "cards gpu-n1-0, gpu-n1-1 are being removed");
  EXPECT_EQ(world.gpu(device).status.message, "cards gpu-n1-0, gpu-n1-1 are being removed");
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));
  EXPECT_FALSE(world.exists("gpu-n1-1"));
}

TEST_F(LostHardwareTest, AClaimThatIsBeingDeletedNamesItsLostCard) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  runPod("p", {"a"});
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p to end");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p to end; card gpu-n1-0 is being removed");
  world.removePod("p");
}

TEST_F(LostHardwareTest, ADeviceWithoutAClaimNamesItsLostCard) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("a");
  const auto card = world.gpu(device).spec.cards[0].name;
  world.removeClaim("a");
  settle();
  ASSERT_EQ(world.gpu(device).status.phase, "Released");
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Failed","reason":"Xid79","message":"off the bus"}})",
                         "status");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Released");
  EXPECT_EQ(world.gpu(device).status.reason, "CardGone");
  EXPECT_EQ(world.gpu(device).status.message, "card " + card + " failed: off the bus");
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Available");
  EXPECT_EQ(world.gpu(device).status.reason, "CardGone");
  world.json<cache::Gpu>({"", card}, R"({"status":{"phase":"Available","reason":null,"message":null}})", "status");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Available");
  EXPECT_EQ(world.gpu(device).status.reason, "");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", device}));
}

TEST_F(LostHardwareTest, AClaimWhoseDeviceCannotBeUndoneReportsWhatItWaitsFor) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  const auto device = deviceOf("a");
  world.removeClaim("a");
  settle();
  world.plugin.answerDeprovisions({plugin::ReplyCode::internal, "busy"});
  world.removePod("p");
  driver->run(std::chrono::seconds(1));
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  EXPECT_EQ(world.message("a"), "is being deleted; waits for its device " + device +
                                    " to be removed: " + support::World::kPlugin + ": deprovision: internal: busy");
  world.plugin.answerDeprovisions({});
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(LostHardwareTest, AClaimWhoseIntentCannotBeUndoneReportsWhatItWaitsFor) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "not this one"}});
  world.plugin.answerDeprovisions({plugin::ReplyCode::internal, "busy"});
  const auto device = "egpu-" + world.addClaim("a", "share", {{"gpu-core", "10"}}).metadata.uid;
  driver->run(std::chrono::seconds(1));
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  EXPECT_EQ(world.message("a"), "waits for its device " + device + ", which is rolled back: " +
                                    support::World::kPlugin + ": deprovision: internal: busy");
  world.plugin.answerDeprovisions({});
  driver->run(std::chrono::minutes(10));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
