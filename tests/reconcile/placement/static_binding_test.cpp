// (C9), (D6): a claim gets an existing device; devices created by hand.
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using StaticBindingTest = ReconcileTest;

TEST_F(StaticBindingTest, C9_StaticNotAvailable) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  world.addClaim("b", "share", {}, deviceOf("a"));
  world.addClaim("c", "share", {}, "nothing");
  settle();
  EXPECT_EQ(world.reason("b"), "StaticNotAvailable");
  EXPECT_EQ(world.reason("c"), "StaticNotAvailable");
}

TEST_F(StaticBindingTest, C9_TheOwnerOfADeviceIsReportedByNameInItsOwnNamespaceAlone) {
  world.addNamespace("team");
  world.addClaim("secret", "share", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("secret");
  world.addClaim("here", "share", {}, device);
  cache::Claim there;
  there.metadata.name = "there";
  there.metadata.namespace_ = "team";
  there.spec.className = "share";
  there.spec.elasticGPUName = device;
  (void)support::World::must(world.client.create(there));
  settle();
  EXPECT_NE(world.message("here").find("belongs to claim default/secret"), std::string::npos) << world.message("here");
  const auto now = support::World::must(world.client.get<cache::Claim>({"team", "there"}));
  const auto text = findCondition(now.status.conditions, "Bound")->message;
  EXPECT_NE(text.find("belongs to a claim of another namespace"), std::string::npos) << text;
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
}

TEST_F(StaticBindingTest, C9_ANamedCardIsTakenWhole) {
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

TEST_F(StaticBindingTest, C9_AWholeCardSuitsWhateverMemoryItHadWhenItsDeviceWasMade) {
  cache::Gpu device;
  device.metadata.name = "by-hand";
  device.spec.source.emplace();
  device.spec.source->kind = v1alpha::SourceKind::physicalGPU;
  device.spec.source->gpuNames = {"gpu-n1-0"};
  device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", 1000, 15 * kGi, 1000, 15 * kGi}};
  device.spec.nodeName = "n1";
  device.spec.className = "share";
  (void)support::World::must(world.client.create(device));
  settle();
  world.addClaim("a", "share", {{"gpu", "1"}}, "by-hand");
  driver->run();
  ASSERT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  EXPECT_EQ(world.claim("a").status.capacity.at("memory"), "16Gi") << "it follows the card";
}

TEST_F(StaticBindingTest, D6_ADeviceMadeByHandBecomesAvailable) {
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

TEST_F(StaticBindingTest, C9_APluginThatRefusesANamedDeviceIsNotAskedInALoop) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto name = deviceOf("a");
  world.removeClaim("a");
  settle();
  world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
  settle();
  for (const auto outcome : {plugin::ReplyCode::invalid, plugin::ReplyCode::reschedule}) {
    const auto asked = world.plugin.provisions();
    world.plugin.answer({{outcome, "broken"}}, true);
    world.addClaim("b", "keep", {}, name);
    ASSERT_NO_THROW(settle());
    EXPECT_EQ(world.reason("b"), "ProvisionFailed");
    EXPECT_NE(world.message("b").find("broken"), std::string::npos) << world.message("b");
    EXPECT_LT(world.plugin.provisions() - asked, 5);
    world.plugin.answer({});
    driver->run(std::chrono::minutes(6));
    EXPECT_EQ(world.claim("b").status.phase, "Bound");
    world.removeClaim("b");
    driver->run();
    world.json<cache::Gpu>({"", name}, R"({"spec":{"claimRef":null}})");
    settle();
    EXPECT_EQ(world.gpu(name).status.phase, "Available");
  }
  support::World::mustOk(world.client.remove<cache::Gpu>({"", name}));
}

TEST_F(StaticBindingTest, StaticBindingToWhatIsNotThereYet) {
  world.addClaim("dev", "", {}, "by-hand");
  world.addClaim("card", "share", {}, "gpu-n1-2");
  settle();
  EXPECT_EQ(world.reason("dev"), "StaticNotAvailable");
  EXPECT_NE(world.message("dev").find("by-hand"), std::string::npos);
  EXPECT_EQ(world.reason("card"), "StaticNotAvailable");
  world.addCard("n1", 2);
  settle();
  EXPECT_EQ(world.claim("card").status.phase, "Bound");
  EXPECT_EQ(world.gpu("gpu-n1-2").spec.allocations.begin()->second.core, 1000);
  cache::Gpu device;
  device.metadata.name = "by-hand";
  device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", 500, 8 * kGi, 500, 8 * kGi}};
  device.spec.nodeName = "n1";
  (void)support::World::must(world.client.create(device));
  settle();
  EXPECT_EQ(world.claim("dev").status.phase, "Bound");
}

TEST_F(StaticBindingTest, ANameGivenWhileItIsProvisionedIsFollowed) {
  world.plugin.answer({{plugin::ReplyCode::inProgress, ""}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  const auto was = world.gpu(deviceOf("a")).spec.cards[0].name;
  const std::string other = was == "gpu-n1-0" ? "gpu-n1-1" : "gpu-n1-0";
  world.json<cache::Claim>({"default", "a"}, R"({"spec":{"elasticGPUName":")" + other + R"("}})");
  world.plugin.answer({});
  driver->run();
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.spec.elasticGPUName, other);
  EXPECT_EQ(world.gpu(claim.status.elasticGPUName).spec.cards[0].name, other);
}

TEST_F(StaticBindingTest, ANamedCardUnderAFirstConsumerClass) {
  world.addClaim("a", "late", {{"gpu-core", "10"}}, "gpu-n1-1");
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.cards[0].name, "gpu-n1-1");
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
}

}  // namespace
}  // namespace egpu::reconcile
