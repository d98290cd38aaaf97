// (S1) to (S5): garbage of cards, plugins and ResourceClaims.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using SweeperTest = ReconcileTest;

TEST_F(SweeperTest, S1_GarbageEntriesAreSwept) {
  world.json<cache::Gpu>(
      {"", "gpu-n1-0"},
      R"({"spec":{"allocations":{"dead":{"device":"egpu-dead","claim":"a/b","core":10,"memory":1}}}})");
  settle();
  EXPECT_TRUE(world.gpu("gpu-n1-0").spec.allocations.empty());
}

TEST_F(SweeperTest, S2_WhatAPluginHasWithoutADeviceIsSwept) {
  world.plugin.make("11111111-dead-dead-dead-000000000000");
  start();
  EXPECT_TRUE(world.plugin.made().empty());
}

TEST_F(SweeperTest, S3_ADeletedCardLeavesWhenItsLedgerIsEmpty) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  settle();
  support::World::mustOk(world.client.remove<cache::Gpu>({"", "gpu-n1-0"}));
  driver->run();
  EXPECT_FALSE(world.exists("gpu-n1-0"));            // the claim was unused and released its card
  EXPECT_EQ(world.claim("a").status.phase, "Lost");  // until the card that it names returns
  world.addCard("n1", 0);
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(SweeperTest, S4_AResourceClaimWhoseClaimWasTornOutIsReleased) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  ASSERT_TRUE(world.resourceClaim("a"));
  world.removePod("p");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  world.removeClaim("a");
  driver->run();
  EXPECT_FALSE(world.resourceClaim("a"));
}

/// A compromised agent creates an unlimited number of cards of its own node.
TEST_F(SweeperTest, S5_CardsThatANodeCannotHaveAreDeleted) {
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-1");
  settle();
  for (int i = 2; i < 140; ++i) world.addCard("n1", i);
  world.addCard("n2", 0);
  driver->run();
  int left = 0;
  for (int i = 0; i < 140; ++i) left += world.exists("gpu-n1-" + std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(left, 128);
  EXPECT_TRUE(world.exists("gpu-n1-1")) << "a claim has it";
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.exists("gpu-n2-0"));
  EXPECT_GT(countEvents("n1 Warning TooManyCards"), 0) << "one event of the node, however many cards there are";
  EXPECT_EQ(countEvents("gpu-n1-139 Warning TooManyCards"), 0);
  world.addCard("n1", 200);
  driver->run();
  for (int i = 0; i < 140; ++i) left -= world.exists("gpu-n1-" + std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(left, world.exists("gpu-n1-200") ? 1 : 0) << "128 again, whatever their names";
}

}  // namespace
}  // namespace egpu::reconcile
