// spec.adminAccess: a claim with admin access gets cards without any charge, if its namespace has the label for it.
#include <utility>

#include "tests/reconcile/fixture.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::reconcile {
namespace {

using support::World;

/// One node of two cards of 16Gi.
class ObserverTest : public ReconcileTest {
 protected:
  void allow() { world.labelNamespace("default", R"({"resource.kubernetes.io/admin-access":"true"})"); }
  void observe(const std::string& name, core::StringMap requests, const std::string& card = {},
               const std::string& cls = "share") {
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.spec.className = cls;
    made.spec.requests = std::move(requests);
    made.spec.elasticGPUName = card;
    made.spec.adminAccess = true;
    (void)World::must(world.client.create(made));
    settle();
  }
  void take(const std::string& name, core::StringMap requests) {
    world.addClaim(name, "share", std::move(requests));
    settle();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
};

TEST_F(ObserverTest, C4_WithoutTheLabelItIsRefusedAndComesWithIt) {
  observe("eye", {{"elasticgpu.io/gpu", "2"}});
  EXPECT_EQ(phase("eye"), "Pending");
  EXPECT_EQ(world.reason("eye", "Accepted"), "InvalidParameter");
  EXPECT_EQ(world.message("eye", "Accepted"),
            "spec.adminAccess: only in namespaces that an administrator labelled "
            "resource.kubernetes.io/admin-access=true, and namespace default is not");
  allow();
  settle();
  EXPECT_EQ(phase("eye"), "Bound");
  world.labelNamespace("default", R"({"resource.kubernetes.io/admin-access":null})");
  settle();
  EXPECT_EQ(phase("eye"), "Bound") << "what it has it keeps";
}

TEST_F(ObserverTest, W1_W2_ItsDeviceAndItsEntriesAreOfNothing) {
  allow();
  observe("eye", {{"elasticgpu.io/gpu", "2"}});
  const auto device = world.gpu(deviceOf("eye"));
  EXPECT_TRUE(device.spec.adminAccess);
  EXPECT_EQ(device.status.phase, "Bound");
  ASSERT_EQ(device.spec.cards.size(), 2u);
  for (const auto& share : device.spec.cards) {
    EXPECT_EQ(share.core + share.memory + share.chargedCore + share.chargedMemory, 0);
    const auto entry = world.gpu(share.name).spec.allocations.at(device.metadata.uid);
    EXPECT_EQ(entry.core + entry.memory, 0);
    EXPECT_EQ(entry.claim, "default/eye");
  }
  world.removeClaim("eye");
  driver->run();
  EXPECT_FALSE(world.exists(device.metadata.name));
  EXPECT_TRUE(world.gpu("gpu-n1-0").spec.allocations.empty());
}

TEST_F(ObserverTest, C6_OnFullCardsAndInNobodysWay) {
  allow();
  take("full", {{"gpu", "1"}});
  observe("eye", {{"elasticgpu.io/gpu", "2"}});
  EXPECT_EQ(phase("eye"), "Bound");
  take("whole", {{"gpu", "1"}});  // a card with admin access counts as empty
  EXPECT_EQ(phase("whole"), "Bound");
  take("more", {{"gpu-memory", "1Gi"}});
  EXPECT_EQ(world.reason("more"), "NoFit");
  world.removeClaim("eye");
  settle();
  EXPECT_EQ(world.reason("more"), "NoFit") << "nothing came free with it";
  world.removeClaim("whole");
  settle();
  EXPECT_EQ(phase("more"), "Bound");
}

TEST_F(ObserverTest, C6_QuotasDontCountIt) {
  allow();
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "1"}, {"claims", "1"}};
  (void)World::must(world.client.create(quota));
  settle();
  observe("eye", {{"elasticgpu.io/gpu", "2"}});
  observe("other", {{"elasticgpu.io/gpu", "1"}});
  EXPECT_EQ(phase("eye"), "Bound");
  EXPECT_EQ(phase("other"), "Bound");
  take("a", {{"gpu", "1"}});
  EXPECT_EQ(phase("a"), "Bound");
  driver->run();
  EXPECT_EQ(World::must(world.client.get<cache::Quota>({"default", "team"})).status.used,
            (core::StringMap{{"gpu", "1"}, {"claims", "1"}}));
}

TEST_F(ObserverTest, C6_OfTheCardThatItNames) {
  allow();
  take("full", {{"gpu", "2"}});
  observe("eye", {}, "gpu-n1-1");
  EXPECT_EQ(phase("eye"), "Bound");
  ASSERT_EQ(world.gpu(deviceOf("eye")).spec.cards.size(), 1u);
  EXPECT_EQ(world.gpu(deviceOf("eye")).spec.cards.front().name, "gpu-n1-1");
}

TEST_F(ObserverTest, C9_NoDeviceOfAnotherKind) {
  allow();
  world.addClaim("old", "keep", {{"gpu-memory", "4Gi"}});
  settle();
  const auto device = deviceOf("old");
  world.removeClaim("old");
  settle();
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  settle();
  observe("eye", {}, device, "keep");
  EXPECT_EQ(world.reason("eye"), "StaticNotAvailable");
  EXPECT_NE(world.message("eye").find("is not for admin access"), std::string::npos) << world.message("eye");
  world.removeClaim("eye");
  settle();
  World::mustOk(world.client.remove<cache::Gpu>({"", device}));
  driver->run();
}

TEST_F(ObserverTest, C5_AFirstConsumerMayUseItBesideAClaimOfItsOwn) {
  allow();
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "2"}};
  (void)World::must(world.client.create(quota));
  observe("eye", {{"elasticgpu.io/gpu", "2"}}, {}, "late");
  world.addClaim("own", "late", {{"gpu", "2"}});
  runPod("p", {"eye", "own"});
  EXPECT_EQ(phase("eye"), "Bound");
  EXPECT_EQ(phase("own"), "Bound");
}

TEST_F(ObserverTest, C6_MoreCardsThanANodeHasAreNowhere) {
  allow();
  observe("eye", {{"elasticgpu.io/gpu", "3"}});
  EXPECT_EQ(world.reason("eye"), "NoFit");
}

}  // namespace
}  // namespace egpu::reconcile
