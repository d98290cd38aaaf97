// DeviceTaintRules: which claims they keep off which cards, which conditions report that, and that the effect ends with
// the rule.
#include <string>

#include "api/v1alpha/keys.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

namespace reason = v1alpha::keys::reason;

class TaintRulesTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    if (!driver->taintRules.served()) GTEST_SKIP() << "this API server has no DeviceTaintRules";
  }
  void TearDown() override {
    if (driver && driver->taintRules.served())
      for (const auto& rule : support::World::must(world.client.listAll<core::DeviceTaintRule>({})))
        remove(rule.metadata.name);
    ReconcileTest::TearDown();
  }
  void add(const std::string& name, const std::string& driverName, const std::string& pool, const std::string& device,
           const std::string& effect = "NoSchedule", bool selects = true) {
    core::DeviceTaintRule rule;
    rule.metadata.name = name;
    rule.selects = selects;
    rule.driver = driverName;
    rule.pool = pool;
    rule.device = device;
    rule.taint = {"example.com/repair", "", effect};
    support::World::must(world.client.create(rule));
    settle();
  }
  void remove(const std::string& name) {
    support::World::mustOk(world.client.remove<core::DeviceTaintRule>({"", name}));
    settle();
  }
  /// Returns the Healthy condition of the claim's device in one line; "" = none.
  std::string onDevice(const std::string& claim) {
    const auto device = world.gpu(deviceOf(claim));
    const auto* healthy = findCondition(device.status.conditions, kHealthy);
    return healthy ? healthy->status + " " + healthy->reason + " " + healthy->message : "";
  }
  bool offered(const std::string& card) { return driver->cluster.allocationMap().quarantineReason(card).empty(); }
};

TEST_F(TaintRulesTest, RepelsNewClaimsFromTheCardWhileItStands) {
  add("repair", "elasticgpu.io", "n1", "gpu-n1-0");
  EXPECT_EQ(driver->cluster.allocationMap().quarantineReason("gpu-n1-0"), reason::kTainted);
  world.addClaim("one", "share", {{"gpu", "1"}});
  world.addClaim("two", "share", {{"gpu", "1"}});
  settle();
  const auto waits = world.claim("one").status.phase == "Bound" ? "two" : "one";
  EXPECT_EQ(world.reason(waits), "NoFit");
  const std::string message = "gpu-n1-0 on node n1 (Tainted: DeviceTaintRule repair: example.com/repair:NoSchedule)";
  EXPECT_NE(world.message(waits).find(message), std::string::npos) << world.message(waits);
  remove("repair");
  EXPECT_EQ(world.claim(waits).status.phase, "Bound") << "at once, no clock was turned";
}

TEST_F(TaintRulesTest, AFieldThatIsNotGivenMeansAny) {
  add("driver", "elasticgpu.io", "", "");
  EXPECT_FALSE(offered("gpu-n1-0") || offered("gpu-n1-1"));
  remove("driver");
  EXPECT_TRUE(offered("gpu-n1-0") && offered("gpu-n1-1"));
  add("pool", "", "n1", "");
  EXPECT_FALSE(offered("gpu-n1-0") || offered("gpu-n1-1"));
  remove("pool");
  add("everything", "", "", "");
  EXPECT_FALSE(offered("gpu-n1-0") || offered("gpu-n1-1"));
  world.addNode("n2");
  world.addCard("n2", 0);
  settle();
  EXPECT_FALSE(offered("gpu-n2-0")) << "one that comes while the rule stands";
  remove("everything");
  EXPECT_TRUE(offered("gpu-n2-0"));
  add("device", "", "", "gpu-n1-1", "NoExecute");
  EXPECT_TRUE(offered("gpu-n1-0"));
  EXPECT_FALSE(offered("gpu-n1-1"));
}

TEST_F(TaintRulesTest, WhatMeansOthersRepelsNobody) {
  add("other-driver", "gpu.example.com", "", "");
  add("other-node", "elasticgpu.io", "n2", "");
  add("other-device", "elasticgpu.io", "n1", "gpu-n1-7");
  add("no-effect", "elasticgpu.io", "n1", "gpu-n1-0", "None");
  add("no-selector", "", "", "", "NoExecute", false);
  EXPECT_TRUE(offered("gpu-n1-0") && offered("gpu-n1-1"));
}

TEST_F(TaintRulesTest, OneOfTwoRulesThatGoesIsNotEnough) {
  add("a", "", "n1", "");
  add("b", "", "", "gpu-n1-0");
  remove("a");
  EXPECT_FALSE(offered("gpu-n1-0"));
  EXPECT_TRUE(offered("gpu-n1-1"));
  remove("b");
  EXPECT_TRUE(offered("gpu-n1-0"));
}

TEST_F(TaintRulesTest, TheCardReportsItAndItsHealthComesFirst) {
  start(std::chrono::milliseconds(1000));
  const auto phase = [&] {
    driver->run();
    const auto card = world.gpu("gpu-n1-0");
    return card.status.phase + "/" + card.status.reason + "/" + card.status.message;
  };
  add("repair", "elasticgpu.io", "", "gpu-n1-0", "NoExecute");
  EXPECT_EQ(phase(), "Tainted/Tainted/DeviceTaintRule repair: example.com/repair:NoExecute");
  world.json<cache::Gpu>({"", "gpu-n1-0"},
                         R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":"Xid79"}]}})",
                         "status");
  EXPECT_EQ(phase(), "Unhealthy/Xid79/");
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"status":{"conditions":[{"type":"Healthy","status":"True"}]}})",
                         "status");
  EXPECT_EQ(phase(), "Tainted/Tainted/DeviceTaintRule repair: example.com/repair:NoExecute");
  remove("repair");
  EXPECT_EQ(phase(), "Available//");
}

TEST_F(TaintRulesTest, AClaimThatHasTheCardOrTheDeviceReportsIt) {
  world.addClaim("one", "share", {}, "gpu-n1-0");
  world.addClaim("two", "share", {}, "gpu-n1-1");
  settle();
  ASSERT_EQ(world.claim("two").status.phase, "Bound");
  EXPECT_EQ(onDevice("one"), "") << "of a card that never failed it needs no word";
  add("card", "elasticgpu.io", "n1", "gpu-n1-0");
  add("device", "elasticgpu.io", "n1", deviceOf("two"), "NoExecute");
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  EXPECT_EQ(world.reason("one", "Healthy"), reason::kTainted);
  EXPECT_EQ(world.message("one", "Healthy"),
            "card gpu-n1-0 on node n1: Tainted: DeviceTaintRule card: example.com/repair:NoSchedule");
  EXPECT_EQ(world.message("two", "Healthy"),
            "device " + deviceOf("two") + ": Tainted: DeviceTaintRule device: example.com/repair:NoExecute");
  EXPECT_EQ(countEvents("one Warning Tainted"), 1);
  EXPECT_EQ(onDevice("one"),
            "False Tainted card gpu-n1-0 on node n1: Tainted: DeviceTaintRule card: "
            "example.com/repair:NoSchedule");
  EXPECT_TRUE(offered("gpu-n1-1")) << "the device is meant, not its card";
  remove("card");
  remove("device");
  EXPECT_EQ(world.reason("one", "Healthy"), "Healthy");
  EXPECT_EQ(world.reason("two", "Healthy"), "Healthy");
  EXPECT_EQ(onDevice("one"), "True Healthy ");
}

TEST_F(TaintRulesTest, AReleasedDeviceReportsNobodysHealth) {
  world.addClaim("one", "keep", {}, "gpu-n1-0");
  settle();
  const auto device = deviceOf("one");
  add("card", "elasticgpu.io", "n1", "gpu-n1-0");
  EXPECT_NE(onDevice("one"), "");
  world.removeClaim("one");
  settle();
  const auto released = world.gpu(device);
  EXPECT_EQ(released.status.phase, "Released");
  EXPECT_EQ(findCondition(released.status.conditions, kHealthy), nullptr);
}

TEST_F(TaintRulesTest, ANamedCardReportsWhyItIsNotOffered) {
  add("repair", "", "", "gpu-n1-0");
  world.addClaim("one", "share", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.message("one"),
            "card gpu-n1-0 is not available: Tainted: DeviceTaintRule repair: example.com/repair:NoSchedule");
}

TEST_F(TaintRulesTest, AControllerThatStartsWhileARuleStandsObeysIt) {
  add("repair", "", "n1", "");
  start();
  world.addClaim("one", "share", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("one"), "NoFit");
}

}  // namespace
}  // namespace egpu::reconcile
