// (C7), W3: a plugin that is slow, refuses, or is down.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using ProvisioningTest = ReconcileTest;

TEST_F(ProvisioningTest, C7_ProvisioningInTheBackgroundIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::inProgress, "half way"}, {plugin::ReplyCode::inProgress, "half way"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "Provisioning");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.plugin.provisions(), 3);
}

TEST_F(ProvisioningTest, C7_RescheduleGoesToAnotherNode) {
  world.addNode("n2");
  world.addCard("n2", 0);
  settle();
  world.plugin.answer({{plugin::ReplyCode::reschedule, "not here"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(world.plugin.made().size(), 1u);
  EXPECT_EQ(world.plugin.provisions(), 2);
}

TEST_F(ProvisioningTest, C7_ProvisionFailedIsNotRepeatedUntilThePluginChanges) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "no such profile"}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  EXPECT_EQ(world.plugin.provisions(), 1);
  EXPECT_FALSE(world.exists(deviceOf("a")));
  world.plugin.answer({});
  world.registry.changed(support::World::kPlugin);
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ProvisioningTest, C7_AKeyThatIsInUseWithOtherContentIsNoSuccess) {
  world.plugin.answer({{plugin::ReplyCode::exists, "key is in use with other content"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  EXPECT_NE(world.message("a").find("in use with other content"), std::string::npos);
  EXPECT_FALSE(world.exists(deviceOf("a"))) << "given up: the next one has a key of its own";
  world.registry.changed(support::World::kPlugin);
  driver->run(std::chrono::seconds(10));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ProvisioningTest, C7_APluginThatIsDownIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::crashed, "signal 11"}, {plugin::ReplyCode::crashed, "signal 11"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ProvisioningTest, W3_AClaimReportsThatItsPluginTakesItsTime) {
  std::string during;
  world.plugin.before = [&] {
    world.clock.advance(std::chrono::seconds(2));
    (void)driver->reconciler.step(callsKey(support::World::kPlugin));
    during = world.claim("a").status.phase + " " + world.reason("a");
  };
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  driver->run();
  EXPECT_EQ(during, "Pending Provisioning");
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.plugin.before = nullptr;
  const auto before = writes();
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(writes() - before, 6u) << "the usual call is not worth a word";
}

TEST_F(ProvisioningTest, W3_WhatCameOfASlowCallIsReportedAtOnce) {
  world.plugin.before = [&] {
    world.clock.advance(std::chrono::seconds(2));
    (void)driver->reconciler.step(callsKey(support::World::kPlugin));
  };
  world.plugin.answer({{plugin::ReplyCode::crashed, "signal 11"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.plugin.provisions(), 1);
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.plugin.before = nullptr;
}

TEST_F(ProvisioningTest, C7_ACrowdBeforeABusyPluginComesSeldom) {
  base::NoMetrics metrics;
  Provisioning provisioning(world.registry, driver->stores, world.clock, kDefaultTimeouts, 0);
  cache::Gpu device;
  device.spec.provisioner = support::World::kPlugin;
  EXPECT_EQ(provisioning.delay(device), std::chrono::milliseconds(50));
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(provisioning.provision(device));
  EXPECT_EQ(provisioning.delay(device), std::chrono::milliseconds(1000));
}

TEST_F(ProvisioningTest, C7_TheOnlyNodeRefusedForAWhileIsTriedAgainAfterIt) {
  world.plugin.answer({{plugin::ReplyCode::reschedule, "no slot"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("no slot"), std::string::npos) << world.message("a");
  driver->run(std::chrono::minutes(4));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ProvisioningTest, C7_ARefusalByThePluginEnds) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "no such profile"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  driver->run(std::chrono::minutes(6));
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(ProvisioningTest, C7_ARefusalOfAFirstConsumersClaimEnds) {
  world.plugin.answer({{plugin::ReplyCode::invalid, "no such profile"}, {}});
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  world.removePod("p");
  settle();
  world.addPod("q", {"a"});
  driver->run(std::chrono::minutes(6));
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.schedule("q");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("q");
}

TEST_F(ProvisioningTest, C7_ARescheduleUnderAReservationReportsItAndIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::reschedule, "no slot"}}, true);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  EXPECT_EQ(world.reason("a"), "ProvisionFailed");
  EXPECT_NE(world.message("a").find("no slot"), std::string::npos) << world.message("a");
  world.plugin.answer({});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

}  // namespace
}  // namespace egpu::reconcile
