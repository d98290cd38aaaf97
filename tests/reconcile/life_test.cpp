// (C9) to (C12), (D2) to (D6), (S1) to (S3): releasing, static binding, hardware that goes, garbage.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using LifeTest = ReconcileTest;

TEST_F(LifeTest, C12_DeleteFreesTheCardAndTheClaim) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("a");
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
  EXPECT_FALSE(world.exists(device));
  EXPECT_TRUE(world.gpu("gpu-n1-0").spec.allocations.empty());
  EXPECT_TRUE(world.plugin.made().empty());
}

TEST_F(LifeTest, D3_RetainKeepsDeviceAndEntries) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto card = world.gpu(name).spec.cards[0].name;
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
  EXPECT_EQ(world.gpu(name).status.phase, "Released");
  EXPECT_EQ(world.gpu(card).spec.allocations.size(), 1u);
  // (D4) claimRef cleared: the next claim may have it, by name (C9).
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  settle();
  EXPECT_EQ(world.gpu(name).status.phase, "Available");
  world.addClaim("b", "keep", {}, name);
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  EXPECT_EQ(world.claim("b").status.elasticGPUName, name);
  EXPECT_EQ(world.claim("b").spec.elasticGPUName, name);
  EXPECT_EQ(world.gpu(card).spec.allocations.begin()->second.claim, "default/b");
  // Deleting a Released device frees it.
  world.removeClaim("b");
  settle();
  EXPECT_EQ(world.gpu(name).status.phase, "Released");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  EXPECT_FALSE(world.exists(name));
  EXPECT_TRUE(world.gpu(card).spec.allocations.empty());
}

TEST_F(LifeTest, C9_StaticNotAvailable) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  world.addClaim("b", "share", {}, deviceOf("a"));
  world.addClaim("c", "share", {}, "nothing");
  settle();
  EXPECT_EQ(world.reason("b"), "StaticNotAvailable");
  EXPECT_EQ(world.reason("c"), "StaticNotAvailable");
}

TEST_F(LifeTest, C9_ANamedCardIsTakenWhole) {
  world.addClaim("a", "share", {}, "gpu-n1-1");
  settle();
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.spec.elasticGPUName, "gpu-n1-1");  // a user's value is never rewritten
  EXPECT_EQ(claim.status.elasticGPUName, deviceOf("a"));
  EXPECT_EQ(world.gpu("gpu-n1-1").spec.allocations.begin()->second.core, 1000);
  world.addClaim("b", "share", {{"gpu-core", "10"}}, "gpu-n1-1");
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  world.removeClaim("a");
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(LifeTest, D6_ADeviceMadeByHandBecomesAvailable) {
  cache::Gpu device;
  device.metadata.name = "by-hand";
  device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", 500, 8 * kGi, 500, 8 * kGi}};
  device.spec.nodeName = "n1";
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_EQ(world.gpu("by-hand").status.phase, "Available");
  EXPECT_EQ(world.gpu("gpu-n1-0").spec.allocations.size(), 1u);
  world.addClaim("a", "", {}, "by-hand");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(LifeTest, D2_ADeletedDeviceIsHeldWhileItsClaimLives) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  EXPECT_TRUE(world.exists(name));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.exists(name));
}

TEST_F(LifeTest, C12_AClaimWithoutFinalizerLeavesAnOrphanThatIsReleased) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.exists(name));
}

TEST_F(LifeTest, C11_NodeGoneMeansLostAndBoundAnewElsewhere) {
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

TEST_F(LifeTest, C11_ALostClaimInUseStaysLostUntilTheNodeIsBack) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  world.removeNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Lost");
  EXPECT_EQ(world.reason("a"), "CardGone");
  world.addNode("n1");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

TEST_F(LifeTest, UnhealthyCardsAreQuarantinedOneByOne) {
  world.json<cache::Gpu>({"", "gpu-n1-0"},
                         R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})",
                         "status");
  settle();
  EXPECT_EQ(driver->cluster.quarantineReason("gpu-n1-0"), "Xid79");
  world.addClaim("a", "share", {{"gpu", "1"}});
  world.addClaim("b", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ((world.claim("a").status.phase == "Bound") + (world.claim("b").status.phase == "Bound"), 1);
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"conditions":[{"type":"Healthy","status":"True"}]}})",
                         "status");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(LifeTest, S1_GarbageEntriesAreSwept) {
  world.json<cache::Gpu>(
      {"", "gpu-n1-0"},
      R"({"spec":{"allocations":{"dead":{"device":"egpu-dead","claim":"a/b","core":10,"memory":1}}}})");
  settle();
  EXPECT_TRUE(world.gpu("gpu-n1-0").spec.allocations.empty());
}

TEST_F(LifeTest, S2_WhatAPluginHasWithoutADeviceIsSwept) {
  world.plugin.make("11111111-dead-dead-dead-000000000000");
  start();
  EXPECT_TRUE(world.plugin.made().empty());
}

TEST_F(LifeTest, S3_ADeletedCardLeavesWhenItsLedgerIsEmpty) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  settle();
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));            // nobody used the claim: it let go
  EXPECT_EQ(world.claim("a").status.phase, "Lost");  // until the card that it names is back
  world.addCard("n1", 0);
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(LifeTest, AMissingEntryOfABoundDeviceIsPutBack) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  const auto card = device.spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":{")" + device.metadata.uid + R"(":null}}})");
  settle();
  EXPECT_EQ(world.gpu(card).spec.allocations.count(device.metadata.uid), 1u);
  EXPECT_EQ(driver->reconciler.drift().at("entryMissing"), 1);
  EXPECT_EQ(driver->cluster.quarantineReason(card), "");
}

TEST_F(LifeTest, DriftThatWasMendedIsToldAnewWhenItComesAgain) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = world.gpu(deviceOf("a"));
  const auto card = device.spec.cards[0].name;
  for (int times = 1; times <= 2; ++times) {
    world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":{")" + device.metadata.uid + R"(":{"core":90}}}})");
    settle();
    EXPECT_EQ(world.gpu(card).spec.allocations.at(device.metadata.uid).core, 100);
    EXPECT_EQ(driver->reconciler.drift().at("amountDiffers"), times);
  }
}

TEST_F(LifeTest, TheSummaryIsWrittenOnceForABurst) {
  start(std::chrono::milliseconds(1000));
  driver->run();
  for (int i = 0; i < 5; ++i)
    world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "7"}, {"gpu-memory", "1"}});
  settle();
  const auto before = writes();
  driver->run();
  EXPECT_LE(writes() - before, 2u);
  const auto first = world.gpu("gpu-n1-0"), second = world.gpu("gpu-n1-1");
  ASSERT_TRUE(first.status.allocated && second.status.allocated);
  EXPECT_EQ(first.status.allocated->claims + second.status.allocated->claims, 5);
  EXPECT_EQ(first.status.allocated->core + second.status.allocated->core, 350);
}

}  // namespace
}  // namespace egpu::reconcile
