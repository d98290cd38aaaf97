// (C12), (D2), (D3), (D5): claims and devices that are deleted, released, retained, or deleted despite their
// finalizers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/reconcile/fixture.h"
#include "tests/support/request_log.h"

namespace egpu::reconcile {
namespace {

using DeletionTest = ReconcileTest;

TEST_F(DeletionTest, C12_DeleteFreesTheCardAndTheClaim) {
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

TEST_F(DeletionTest, C12_ADeletionCostsSevenRequestsOfWhichOneFindsNothing) {
  support::RequestLog line{*world.transport};
  startOver(line);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("a");
  world.removeClaim("a");
  line.requests.clear();
  line.missed.clear();
  driver->run();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
  EXPECT_FALSE(world.exists(device));
  std::erase_if(line.requests, [](const auto& each) { return each.find("watch=") != std::string::npos; });
  EXPECT_LE(line.requests.size(), 7U) << ::testing::PrintToString(line.requests);
  EXPECT_LE(line.missed.size(), 1U) << ::testing::PrintToString(line.missed);
  TearDown();
  driver.reset();
}

TEST_F(DeletionTest, D3_D4_RetainLeavesDeviceAndEntriesUntilClaimRefIsCleared) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto card = world.gpu(name).spec.cards[0].name;
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
  EXPECT_EQ(world.gpu(name).status.phase, "Released");
  EXPECT_EQ(world.gpu(card).spec.allocations.size(), 1u);
  // (D4) claimRef cleared: the next claim may get it by name (C9).
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

TEST_F(DeletionTest, D2_ADeletedDeviceIsHeldWhileItsClaimLives) {
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

TEST_F(DeletionTest, C12_AClaimWithoutFinalizerLeavesAnOrphanThatIsReleased) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.exists(name));
}

TEST_F(DeletionTest, C12_AClaimInUseIsNotReleased) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  const auto device = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Bound");
  EXPECT_TRUE(world.claim("a").metadata.deleting());
  EXPECT_TRUE(world.resourceClaim("a")->metadata.deleting());  // no new reservations
  EXPECT_EQ(world.reason("a"), "InUse");
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p to end");
  EXPECT_EQ(countEvents("a Normal InUse is being deleted; waits for pod p to end"), 1);
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
  EXPECT_EQ(countEvents("a Normal InUse"), 0);
  world.finishPod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_FALSE(world.resourceClaim("a"));
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(DeletionTest, C1_AClaimMadeAnewAtOnceUnderTheSameName) {
  // Pending, then Provisioning, then Bound: each time the claim is deleted and recreated under its name.
  world.addClaim("a", "share", {{"gpu", "3"}});
  settle();
  world.removeClaim("a");
  world.plugin.answer({{plugin::ReplyCode::inProgress, ""}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "Provisioning");
  const auto old = deviceOf("a");
  world.removeClaim("a");
  world.plugin.answer({});
  world.addClaim("a", "share", {{"gpu-core", "20"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(world.exists(old));
  const auto bound = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  world.addClaim("a", "share", {{"gpu-core", "30"}});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(world.exists(bound));
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 300);
}

TEST_F(DeletionTest, D5_ADeviceTornOutByForceIsReplacedAndItsEffectUndone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto uid = world.gpu(name).metadata.uid;
  world.json<cache::Gpu>({"", name}, R"({"metadata":{"finalizers":null}})");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(world.gpu(name).metadata.uid, uid);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(DeletionTest, D5_ADeviceDeletedAndThenTornOutIsReplacedAndItsEffectUndone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  const auto uid = world.gpu(name).metadata.uid;
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  settle();
  world.json<cache::Gpu>({"", name}, R"({"metadata":{"finalizers":null}})");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(world.gpu(name).metadata.uid, uid);
  EXPECT_EQ(world.garbage(), "");
}

TEST_F(DeletionTest, ADeviceTakenFromItsClaimByHandIsGivenBackToIt) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.elasticGPUName, name);
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 100);
}

TEST_F(DeletionTest, ADeviceBeingDeletedReportsWhatItWaitsFor) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
  driver->run();
  EXPECT_EQ(world.gpu(name).status.phase, "Bound");
  EXPECT_EQ(world.gpu(name).status.reason, "InUse");
  EXPECT_EQ(countEvents(name + " Normal InUse is being deleted; waits for its claim default/a to be deleted"), 1);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
  world.removeClaim("a");
  driver->run();
  EXPECT_FALSE(world.exists(name));
}

TEST_F(DeletionTest, ARetainedDeviceShowsNoClaim) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  const auto device = world.gpu(name);
  EXPECT_EQ(device.status.phase, "Released");
  ASSERT_TRUE(device.status.allocated);
  EXPECT_EQ(device.status.allocated->claims, 0);
  EXPECT_EQ(device.status.allocated->coreText, "10%");
}

}  // namespace
}  // namespace egpu::reconcile
