// Values of a device's object that only its provisioner knows (W3b).
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

class SourceTest : public ReconcileTest {
 protected:
  void SetUp() override {
    world.plugin.provides("qGPU");
    world.plugin.replySource({"q0", {"/dev/q0"}, ""});
    ReconcileTest::SetUp();
  }
  v1alpha::Source sourceOf(const std::string& device) { return *world.gpu(device).spec.source; }
};

TEST_F(SourceTest, W3b_TheObjectGetsTheValuesOfItsProvisioner) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  const auto source = sourceOf(deviceOf("a"));
  EXPECT_EQ(source.deviceName, "q0");
  EXPECT_EQ(source.paths, std::vector<std::string>{"/dev/q0"});
  EXPECT_EQ(source.gpuNames, std::vector<std::string>{world.gpu(deviceOf("a")).spec.cards[0].name});
}

TEST_F(SourceTest, W3b_AnotherProcessContinuesBeforeW4) {
  // The device has the values, but is not Bound.
  world.plugin.answer({{plugin::ReplyCode::inProgress, "not yet"}}, true);
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  ASSERT_NE(world.gpu(deviceOf("a")).status.phase, "Bound");
  world.json<cache::Gpu>({"", deviceOf("a")}, R"({"spec":{"qGPU":{"deviceName":"q0","paths":["/dev/q0"]}}})");
  world.plugin.answer({});
  start();
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  EXPECT_EQ(sourceOf(deviceOf("a")).deviceName, "q0");
  EXPECT_EQ(world.plugin.sources().back(), (plugin::SourceValues{"q0", {"/dev/q0"}, ""}))
      << "a repeated provision gets the values of the object";
}

TEST_F(SourceTest, ValuesOfAnAdministratorAreKept) {
  cache::Gpu device;
  device.metadata.name = "by-hand";
  device.spec.source.emplace();
  device.spec.source->kind = v1alpha::SourceKind::qGPU;
  device.spec.source->gpuNames = {"gpu-n1-0"};
  device.spec.source->deviceName = "own";
  device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", 100, kGi, 100, kGi}};
  device.spec.nodeName = "n1";
  device.spec.provisioner = support::World::kPlugin;
  (void)support::World::must(world.client.create(device));
  settle();
  world.addClaim("a", "", {}, "by-hand");
  settle();
  ASSERT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  EXPECT_EQ(sourceOf("by-hand").deviceName, "own");
  EXPECT_EQ(sourceOf("by-hand").paths, std::vector<std::string>{"/dev/q0"}) << "it had none";
}

TEST_F(SourceTest, ADeviceOfAnotherKindGetsNone) {
  world.plugin.provides("gpuShare");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  EXPECT_EQ(sourceOf(deviceOf("a")).kind, v1alpha::SourceKind::gpuShare);
  EXPECT_TRUE(sourceOf(deviceOf("a")).deviceName.empty());
}

}  // namespace
}  // namespace egpu::reconcile
