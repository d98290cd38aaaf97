// (C1) to (C8): from a claim to a device, and why not.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using BindTest = ReconcileTest;

TEST_F(BindTest, C8_ImmediateClaimIsBoundWithFiveWrites) {
  world.addClaim("a", "share", {{"gpu-core", "10"}, {"gpu-memory", "4"}});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 5u);  // W1, W2, W4, W5, W6
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.status.elasticGPUName, deviceOf("a"));
  EXPECT_EQ(claim.spec.elasticGPUName, deviceOf("a"));
  EXPECT_EQ(claim.status.nodeName, "n1");
  EXPECT_EQ(claim.status.capacity.at("core"), "10%");
  EXPECT_EQ(claim.status.capacity.at("memory"), "4Gi");
  EXPECT_TRUE(claim.metadata.hasFinalizer(v1alpha::keys::kClaimFinalizer));
  EXPECT_EQ(world.reason("a"), "Bound");
  EXPECT_EQ(world.reason("a", "Accepted"), "Accepted");
  const auto device = world.gpu(deviceOf("a"));
  EXPECT_EQ(device.status.phase, "Bound");
  ASSERT_EQ(device.spec.cards.size(), 1u);
  EXPECT_EQ(device.spec.cards[0].core, 100);
  EXPECT_EQ(device.spec.cards[0].memory, 4 * kGi);
  EXPECT_EQ(device.spec.source.kind, v1alpha::SourceKind::gpuShare);
  EXPECT_EQ(device.spec.reclaimPolicy, "Delete");
  const auto card = world.gpu(device.spec.cards[0].name);
  EXPECT_EQ(card.spec.allocations.at(device.metadata.uid).claim, "default/a");
  EXPECT_EQ(world.plugin.made().count(device.metadata.uid), 1u);
}

TEST_F(BindTest, C8_NothingIsWrittenWhenNothingChanges) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu-core", "300"}});
  world.addClaim("c", "nosuch", {{"gpu-core", "10"}});
  driver->run();
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
}

TEST_F(BindTest, C8_TwoCardsOfOneNode) {
  world.addClaim("two", "share", {{"gpu", "2"}});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 6u);  // one entry more
  const auto device = world.gpu(deviceOf("two"));
  ASSERT_EQ(device.spec.cards.size(), 2u);
  EXPECT_EQ(device.spec.cards[0].core, 1000);
  EXPECT_EQ(device.spec.cards[1].memory, 16 * kGi);
}

TEST_F(BindTest, C2_ClassNotFoundUntilItComes) {
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "ClassNotFound");
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  world.addClass("later");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(BindTest, C2_DefaultClass) {
  world.addClaim("a", "", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ClassNotFound");
  world.json<cache::Class>({"", "share"}, R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(BindTest, C3_ProvisionerUnavailableUntilItIsLoaded) {
  support::FakeProvisioner other("other.example.com", "physicalGPU");
  world.addClass("other", "Delete", "Immediate", {}, "other.example.com");
  world.addClaim("a", "other", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  auto cls = support::World::must(world.client.get<cache::Class>({"", "other"}));
  ASSERT_NE(findCondition(cls.conditions, "Ready"), nullptr);
  EXPECT_EQ(findCondition(cls.conditions, "Ready")->reason, "ProvisionerUnavailable");
  world.registry.add(other);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.source.kind, v1alpha::SourceKind::physicalGPU);
  cls = support::World::must(world.client.get<cache::Class>({"", "other"}));
  EXPECT_EQ(findCondition(cls.conditions, "Ready")->status, "True");
  other.deprovision(world.gpu(deviceOf("a")).metadata.uid);
  world.removeClaim("a");
  driver->run();
  driver.reset();
}

TEST_F(BindTest, C4_InvalidParameterOfTheCoreAndOfThePlugin) {
  world.addClass("badcore", "Delete", "Immediate", {{"nodePolicy", "nonsense"}});
  world.addClass("badplugin", "Delete", "Immediate", {{"refuse", "yes"}});
  world.addClaim("a", "badcore", {{"gpu-core", "10"}});
  world.addClaim("b", "badplugin", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "InvalidParameter");
  EXPECT_EQ(world.reason("b", "Accepted"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("binpack"), std::string::npos) << world.message("a");
}

TEST_F(BindTest, C4_NotRepresentable) {
  world.addClaim("a", "share", {{"gpu-core", "150"}});
  settle();
  EXPECT_EQ(world.reason("a", "Accepted"), "NotRepresentable");
  EXPECT_EQ(world.reason("a"), "NotRepresentable");
}

TEST_F(BindTest, C6_NoFitIsTriedAgainWhenACardComes) {
  world.addClaim("a", "share", {{"gpu", "3"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_FALSE(world.message("a").empty());
  EXPECT_EQ(driver->reconciler.waitingForRoom(), 1u);
  world.addCard("n1", 2);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(driver->reconciler.waitingForRoom(), 0u);
}

TEST_F(BindTest, C6_NoFitIsTriedAgainWhenAClaimLeaves) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  world.addClaim("b", "share", {{"gpu-core", "50"}});
  settle();
  EXPECT_EQ(world.reason("b"), "NoFit");
  world.removeClaim("a");
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(BindTest, C6_ExhaustionFillsTheCardsExactly) {
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

TEST_F(BindTest, C7_ProvisioningInTheBackgroundIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::inProgress, "half way"}, {plugin::ReplyCode::inProgress, "half way"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "Provisioning");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.plugin.provisions(), 3);
}

TEST_F(BindTest, C7_RescheduleGoesToAnotherNode) {
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

TEST_F(BindTest, C7_ProvisionFailedIsNotRepeatedUntilThePluginChanges) {
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

TEST_F(BindTest, C7_AKeyThatIsInUseWithOtherContentIsNoSuccess) {
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

TEST_F(BindTest, C7_APluginThatIsDownIsAskedAgain) {
  world.plugin.answer({{plugin::ReplyCode::crashed, "signal 11"}, {plugin::ReplyCode::crashed, "signal 11"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "ProvisionerUnavailable");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(BindTest, C7_AnIntentOfAnEarlierProcessIsAdopted) {
  // Another controller wrote the intent for the second card; this one would have chosen the first.
  auto claim = world.addClaim("a", "share", {{"gpu-core", "10"}});
  cache::Gpu device;
  device.metadata.name = deviceNameFor(claim);
  device.metadata.finalizers = {std::string(v1alpha::keys::kDeviceFinalizer)};
  device.spec.cards = {{"gpu-n1-1", "GPU-n1-1", 100, kGi, 100, kGi}};
  device.spec.nodeName = "n1";
  device.spec.provisioner = support::World::kPlugin;
  device.spec.reclaimPolicy = "Delete";
  device.spec.claimRef = v1alpha::ClaimRef{"default", "a", claim.metadata.uid};
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-1").spec.allocations.size(), 1u);
  EXPECT_EQ(world.gpu("gpu-n1-0").spec.allocations.size(), 0u);
}

TEST_F(BindTest, D1_AnIntentWhoseClaimIsGoneIsRolledBack) {
  cache::Gpu device;
  device.metadata.name = "egpu-00000000-dead-dead-dead-000000000000";
  device.metadata.finalizers = {std::string(v1alpha::keys::kDeviceFinalizer)};
  device.spec.cards = {{"gpu-n1-1", "GPU-n1-1", 100, kGi, 100, kGi}};
  device.spec.nodeName = "n1";
  device.spec.provisioner = support::World::kPlugin;
  device.spec.claimRef = v1alpha::ClaimRef{"default", "a", "00000000-dead-dead-dead-000000000000"};
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_FALSE(world.exists(device.metadata.name));
}

TEST_F(BindTest, D1_ALedgerThatRefusesRollsBackAndDecidesAnew) {
  // A foreign entry that this controller has not seen yet takes the room of its choice.
  world.addClaim("a", "share", {{"gpu-core", "60"}});
  settle();
  const auto first = world.gpu(deviceOf("a")).spec.cards[0].name;
  const auto second = first == "gpu-n1-0" ? "gpu-n1-1" : "gpu-n1-0";
  world.addClaim("b", "share", {{"gpu-core", "60"}});
  driver->poll();
  world.json<cache::Gpu>({"", second},
                         R"({"spec":{"allocations":{"foreign":{"device":"x","claim":"y/z","core":600,"memory":0}}}})");
  // Without polling again: the cache is stale.
  while (driver->stepOnce()) {
  }
  EXPECT_EQ(world.violation(), "");
  driver->run();
  // The foreign entry is garbage (its device does not exist) and was swept; then the claim fits.
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
}

TEST_F(BindTest, WarningsAreTold) {
  world.addClaim("a", "nosuch", {{"gpu-core", "10"}});
  settle();
  const auto lines = driver->events.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].rfind("a Warning ClassNotFound", 0), 0u);
}

}  // namespace
}  // namespace egpu::reconcile
