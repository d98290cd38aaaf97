// Claims of MIG instances: quotas by profile, and devices that an administrator creates.
#include <string>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using support::World;

constexpr const char* kMigProvisioner = "mig.provisioner.elasticgpu.io";

/// Outlives the reconciles of the test.
struct MigPlugin {
  support::FakeProvisioner mig{kMigProvisioner, "mig"};
};

/// The card gpu-n1-0 is in MIG mode, with two profiles of one slot.
class MigClaimTest : private MigPlugin, public ReconcileTest {
 protected:
  void SetUp() override {
    world.registry.add(mig);
    ReconcileTest::SetUp();
    world.addClass("mig", "Delete", "Immediate", {}, kMigProvisioner);
    world.json<cache::Gpu>({"", "gpu-n1-0"},
                           R"({"spec":{"card":{"mig":[
            {"profile":"1g.2gb+me","memory":2147483648,"compute":1,"size":1,"starts":[0,1],"media":true},
            {"profile":"1g.2gb","memory":2147483648,"compute":1,"size":1,"starts":[0,1,2,3]}]}}})");
    settle();
  }
  cache::Quota quota() { return World::must(world.client.get<cache::Quota>({"default", "team"})); }
  void claim(const std::string& name, core::StringMap requests, const std::string& device = {}) {
    world.addClaim(name, "mig", std::move(requests), device);
    settle();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }

  /// Returns a device of two instances in these slots.
  static cache::Gpu byHand(const std::string& name, uint16_t slots) {
    constexpr int64_t kCore = 284, kMemory = 4 * kGi;
    cache::Gpu device;
    device.metadata.name = name;
    device.spec.source.emplace();
    device.spec.source->kind = v1alpha::SourceKind::mig;
    device.spec.source->gpuNames = {"gpu-n1-0"};
    device.spec.source->profile = "1g.2gb";
    device.spec.cards = {{"gpu-n1-0", "GPU-n1-0", kCore, kMemory, kCore, kMemory, {slots}}};
    device.spec.nodeName = "n1";
    device.spec.provisioner = kMigProvisioner;
    return device;
  }
  cache::Gpu add(const cache::Gpu& device) {
    (void)World::must(world.client.create(device));
    settle();
    return world.gpu(device.metadata.name);
  }
};

TEST_F(MigClaimTest, Quota_EachProfileHasItsOwnLimit) {
  cache::Quota team;
  team.metadata.name = "team";
  team.metadata.namespace_ = "default";
  team.spec.hard = {{"mig-1g.2gb", "2"}, {"mig-1g.2gb.me", "5"}, {"claims", "9"}};
  (void)World::must(world.client.create(team));
  settle();
  EXPECT_EQ(quota().status.summary.at("mig-1g.2gb"), "0/2");
  claim("a", {{"mig-1g.2gb", "2"}});
  ASSERT_EQ(phase("a"), "Bound") << world.message("a");
  claim("b", {{"mig-1g.2gb", "1"}});
  ASSERT_EQ(world.reason("b"), "QuotaExceeded") << world.message("b");
  for (const auto* text : {"quota team allows mig-1g.2gb 2, 2 is used: 1 too little for another 1",
                           "mig-1g.2gb 3 in its spec.hard would be enough", "held by default/a 2"})
    EXPECT_NE(world.message("b").find(text), std::string::npos) << world.message("b");
  claim("c", {{"mig-1g.2gb.me", "1"}});
  EXPECT_EQ(phase("c"), "Bound") << world.message("c");
  driver->run();
  EXPECT_EQ(quota().status.used, (core::StringMap{{"claims", "2"}, {"mig-1g.2gb", "2"}, {"mig-1g.2gb.me", "1"}}));
  EXPECT_EQ(quota().status.summary.at("mig-1g.2gb.me"), "1/5");
  EXPECT_EQ(findCondition(quota().status.conditions, "NearLimit")->message, "95% or more is used of mig-1g.2gb");
  world.json<cache::Quota>({"default", "team"}, R"({"spec":{"hard":{"mig-1g.2gb":null}}})");
  settle();
  EXPECT_EQ(phase("b"), "Bound") << world.message("b");
  driver->run();
  EXPECT_FALSE(quota().status.used.contains("mig-1g.2gb")) << "it is not limited any more";
}

TEST_F(MigClaimTest, D6_DevicesMadeByHand_NeedSlotsThatAreFree) {
  EXPECT_EQ(add(byHand("first", 0b11)).status.phase, "Available");
  const auto overlapping = add(byHand("second", 0b110));
  EXPECT_EQ(overlapping.status.phase, "Failed");
  EXPECT_NE(overlapping.status.message.find("slot of the card in common"), std::string::npos)
      << overlapping.status.message;
  auto share = byHand("share", 0);
  share.spec.source->kind = v1alpha::SourceKind::gpuShare;
  share.spec.source->profile.clear();
  share = add(share);
  EXPECT_EQ(share.status.phase, "Failed");
  EXPECT_NE(share.status.message.find("add the line slots: [SLOT] to spec.cards"), std::string::npos)
      << share.status.message;
  EXPECT_EQ(world.gpu("gpu-n1-0").spec.allocations.size(), 1u);
  const auto refused = world.client.create(byHand("none", 0));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("add the line slots: [SLOT]"), std::string::npos) << refused.status().str();
}

TEST_F(MigClaimTest, C9_ADeviceMadeByHand_MustHaveTheInstances) {
  auto device = byHand("by-hand", 0b11);
  device.spec.className = "mig";
  ASSERT_EQ(add(device).status.phase, "Available");
  claim("three", {{"mig-1g.2gb", "3"}}, "by-hand");
  EXPECT_NE(world.message("three").find("smaller than requested"), std::string::npos) << world.message("three");
  claim("media", {{"mig-1g.2gb.me", "1"}}, "by-hand");
  EXPECT_NE(world.message("media").find("smaller than requested"), std::string::npos) << world.message("media");
  claim("two", {{"mig-1g.2gb", "2"}}, "by-hand");
  EXPECT_EQ(phase("two"), "Bound") << world.message("two");
}

}  // namespace
}  // namespace egpu::reconcile
