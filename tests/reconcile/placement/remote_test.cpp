// Claims of remote GPUs: the device has no card and no node, its endpoint comes from the provisioner (W3b), and pods
// run on any node with an agent.
#include <memory>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using plugin::ReplyCode;
using support::World;

constexpr const char* kRemote = World::kRemotePlugin;

class RemoteTest : public ReconcileTest {
 protected:
  void SetUp() override {
    remote.replySource({{}, {}, "10.0.0.1:7000"});
    world.registry.add(remote);
    ReconcileTest::SetUp();
    world.addClass("pool", "Delete", "Immediate", {}, kRemote);
    world.addClass("late-pool", "Delete", "WaitForFirstConsumer", {}, kRemote);
    settle();
  }
  void claim(const std::string& name, core::StringMap requests = {{"gpu", "1"}}, const std::string& cls = "pool",
             const std::string& gpu = {}) {
    world.addClaim(name, cls, std::move(requests), gpu);
    settle();
  }
  std::string phase(const std::string& name) { return world.claim(name).status.phase; }
  void addDevice(const std::string& name, const std::string& cls, core::StringMap capacity = {},
                 const std::string& node = {}) {
    createDevice(name, cls, std::move(capacity), node);
    settle();
  }
  void createDevice(const std::string& name, const std::string& cls, core::StringMap capacity = {},
                    const std::string& node = {}) {
    cache::Gpu device;
    device.metadata.name = name;
    device.spec.source.emplace();
    device.spec.source->kind = v1alpha::SourceKind::remote;
    device.spec.source->endpoint = "10.9.9.9:1";
    device.spec.className = cls;
    device.spec.capacity = std::move(capacity);
    device.spec.nodeName = node;
    device.spec.reclaimPolicy = "Retain";
    (void)World::must(world.client.create(device));
  }
  /// The reply of a pool without a free GPU.
  static plugin::Reply full() { return {ReplyCode::reschedule, "pool https://p is full: all 2 GPUs are leased"}; }

  support::FakeProvisioner& remote = world.remote;
};

TEST_F(RemoteTest, W4_AClaimIsBoundWithoutCardAndNode) {
  claim("a");
  const auto a = world.claim("a");
  ASSERT_EQ(a.status.phase, "Bound") << world.message("a");
  EXPECT_EQ(a.status.nodeName, "");
  const auto device = world.gpu(deviceOf("a"));
  EXPECT_EQ(device.spec.source->endpoint, "10.0.0.1:7000");
  EXPECT_TRUE(device.spec.cards.empty());
  EXPECT_EQ(device.spec.nodeName, "");
  EXPECT_FALSE(device.spec.nodeAffinityRequired);
  EXPECT_EQ(device.spec.capacity, (core::StringMap{{std::string(kRemote) + "/gpu", "1"}}));
  for (const auto* card : {"gpu-n1-0", "gpu-n1-1"}) EXPECT_TRUE(world.gpu(card).spec.allocations.empty());
  EXPECT_EQ(remote.made().size(), 1u);
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.exists(device.metadata.name));
  EXPECT_TRUE(remote.made().empty()) << "the lease has ended";
}

TEST_F(RemoteTest, W3_AFullPoolIsReportedOnTheClaimAndAskedAgain) {
  remote.answer({full()}, true);
  claim("a");
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_EQ(world.message("a"), std::string(kRemote) + ": pool https://p is full: all 2 GPUs are leased");
  const auto device = deviceOf("a");
  EXPECT_TRUE(world.exists(device)) << "the intent stays";
  remote.answer({});
  driver->run();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_EQ(deviceOf("a"), device);
}

TEST_F(RemoteTest, W3_AClaimOfAFullPoolCanBeDeleted) {
  remote.answer({full()}, true);
  claim("a");
  const auto device = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(RemoteTest, W1_AnotherProcessContinuesWithTheIntent) {
  remote.answer({full()}, true);
  claim("a");
  remote.answer({});
  start();
  driver->run();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_EQ(remote.made().size(), 1u);
}

TEST_F(RemoteTest, W3b_AnotherProcessContinuesWithTheEndpoint) {
  remote.answer({full()}, true);
  claim("a");
  world.json<cache::Gpu>({"", deviceOf("a")}, R"({"spec":{"remote":{"endpoint":"10.0.0.7:7"}}})");
  remote.answer({});
  start();
  driver->run();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_EQ(world.gpu(deviceOf("a")).spec.source->endpoint, "10.0.0.7:7");
  EXPECT_EQ(remote.sources().back().endpoint, "10.0.0.7:7");
}

TEST_F(RemoteTest, W3_AReplyWithoutEndpointIsNoSuccess) {
  remote.replySource({});
  claim("a");
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_NE(world.message("a").find("it replied no endpoint"), std::string::npos) << world.message("a");
  remote.replySource({{}, {}, "10.0.0.1:7000"});
  driver->run();
  EXPECT_EQ(phase("a"), "Bound");
}

TEST_F(RemoteTest, W9_AnyNodeWithAnAgentSuitsThePod) {
  claim("a");
  world.addPod("p", {"a"});
  settle();
  const auto pod = world.pod("p");
  EXPECT_TRUE(pod.schedulingGates.empty());
  EXPECT_FALSE(pod.requiredNodeAffinity) << "the pod is not pinned";
  kube::HttpRequest get;
  get.target = kube::Client::path(core::kindOf<core::ResourceClaim>, "default", "a");
  const auto text = World::must(world.client.call(std::move(get))).body;
  EXPECT_NE(text.find(R"("pool":"remote")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("key":"elasticgpu.io/agent","operator":"In","values":["true"])"), std::string::npos) << text;
  EXPECT_EQ(text.find("metadata.name"), std::string::npos) << text;
  const auto before = writes();
  driver->run();
  EXPECT_EQ(writes(), before) << "the allocation is as wanted";
  world.schedule("p");
  settle();
  world.removeClaim("a");
  settle();
  EXPECT_EQ(phase("a"), "Bound") << "the pod uses it";
  world.finishPod("p");
  world.unreserve("a", "p");
  settle();
  EXPECT_TRUE(remote.made().empty());
}

TEST_F(RemoteTest, W9_APodWithACardToo_IsPinnedToTheNodeOfTheCard) {
  claim("a");
  claim("b", {{"gpu", "1"}}, "share");
  world.addPod("p", {"a", "b"});
  settle();
  const auto pod = world.pod("p");
  EXPECT_TRUE(pod.schedulingGates.empty());
  ASSERT_TRUE(pod.requiredNodeAffinity);
  EXPECT_EQ(pod.requiredNodeAffinity->terms.front().matchFields.front().values, std::vector<std::string>{"n1"});
}

TEST_F(RemoteTest, C5_ACardForThePodIsChosenOnceThePoolHasAGpu) {
  remote.answer({full()}, true);
  claim("a");
  claim("b", {{"gpu", "1"}}, "late");
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_FALSE(world.exists(deviceOf("b"))) << "it would be held for a pod that can't run";
  EXPECT_NE(world.message("b").find("claim a"), std::string::npos) << world.message("b");
  remote.answer({});
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.schedule("p");
  settle();
  EXPECT_EQ(phase("b"), "Bound") << world.message("b");
}

TEST_F(RemoteTest, C5_AClassWithWaitForFirstConsumerLeasesForAPod) {
  claim("a", {{"gpu", "1"}}, "late-pool");
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  EXPECT_EQ(remote.provisions(), 0);
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(RemoteTest, C5_AnIntentIsRolledBackWithItsLastPod) {
  remote.answer({full()}, true);
  claim("a", {{"gpu", "1"}}, "late-pool");
  world.addPod("p", {"a"});
  settle();
  ASSERT_TRUE(world.exists(deviceOf("a")));
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(deviceOf("a")));
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
}

TEST_F(RemoteTest, C4_DemandsThatOnlyCardsMeetAreRefused) {
  const auto refused = [&](const std::string& name, const std::string& field) {
    settle();
    EXPECT_EQ(world.reason(name, "Accepted"), "InvalidParameter") << name;
    EXPECT_EQ(world.message(name, "Accepted").find(field + ": class pool provides remote GPUs"), 0u)
        << world.message(name, "Accepted");
    EXPECT_FALSE(world.exists(deviceOf(name)));
  };
  claim("named", {{"gpu", "1"}}, "pool", "gpu-n1-0");
  refused("named", "spec.elasticGPUName");
  world.addMember("member", "pool", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
  refused("member", "metadata.annotations[elasticgpu.io/gang]");
  cache::Claim models;
  models.metadata.name = "models";
  models.metadata.namespace_ = "default";
  models.spec.className = "pool";
  models.spec.requests = {{"elasticgpu.io/gpu", "1"}};
  models.spec.models = {"T4"};
  (void)World::must(world.client.create(models));
  refused("models", "spec.models");
}

TEST_F(RemoteTest, C4_ParametersOfCardsMakeTheClassUnready) {
  world.addClass("wrong", "Delete", "Immediate", {{"cardPolicy", "spread"}}, kRemote);
  claim("a", {{"gpu", "1"}}, "wrong");
  EXPECT_EQ(world.reason("a"), "InvalidParameter");
  EXPECT_NE(world.message("a").find("parameters.cardPolicy: describes cards"), std::string::npos) << world.message("a");
  world.addClass("right", "Delete", "Immediate", {{"hostPaths", "/opt/vendor"}, {"pool", "p"}}, kRemote);
  claim("b", {{"gpu", "1"}}, "right");
  EXPECT_EQ(phase("b"), "Bound") << world.message("b");
}

TEST_F(RemoteTest, QuotasCountGpusAndClaims) {
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "default";
  quota.spec.hard = {{"gpu", "2"}, {"gpu-core", "0"}, {"gpu-memory", "0Gi"}};
  (void)World::must(world.client.create(quota));
  quota.metadata.name = "models";
  quota.spec.hard = {{"gpu", "0"}};
  quota.spec.models = {"T4"};
  (void)World::must(world.client.create(quota));
  settle();
  claim("a");
  claim("b", {{"gpu", "1"}, {"gpu-memory", "8Gi"}});
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_EQ(phase("b"), "Bound") << world.message("b");
  claim("c");
  EXPECT_EQ(world.reason("c"), "QuotaExceeded") << world.message("c");
  EXPECT_FALSE(world.exists(deviceOf("c")));
  start();
  EXPECT_EQ(world.reason("c"), "QuotaExceeded") << "the usage is counted again";
  const auto now = World::must(world.client.get<cache::Quota>({"default", "team"}));
  EXPECT_EQ(now.status.used.at("gpu"), "2");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(phase("c"), "Bound") << world.message("c");
}

TEST_F(RemoteTest, C9_ADeviceOfAnAdministratorIsBoundByName) {
  addDevice("by-hand", "");
  ASSERT_EQ(world.gpu("by-hand").status.phase, "Available");
  claim("a", {}, "", "by-hand");
  ASSERT_EQ(phase("a"), "Bound") << world.message("a");
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, "by-hand");
  EXPECT_EQ(world.gpu("by-hand").spec.source->endpoint, "10.9.9.9:1");
}

TEST_F(RemoteTest, D3_ADeviceWithoutAClaimHasNoLosses) {
  world.addClass("by-hand", "Retain", "Immediate", {}, kRemote);
  addDevice("by-hand", "by-hand");
  claim("a", {}, "by-hand", "by-hand");
  ASSERT_EQ(phase("a"), "Bound") << world.message("a");
  world.json<cache::Gpu>({"", "by-hand"},
                         R"({"status":{"accessLost":{"gone":{"reason":"LeaseLost","message":"no node any more"}}}})",
                         "status");
  settle();
  EXPECT_EQ(world.gpu("by-hand").status.accessLost.size(), 1u);
  world.removeClaim("a");
  settle();
  EXPECT_NE(world.gpu("by-hand").status.phase, "Bound");
  EXPECT_TRUE(world.gpu("by-hand").status.accessLost.empty()) << "nothing else removes the report of a deleted node";
}

TEST_F(RemoteTest, C9_ADeviceWithANodeIsUsedThereOnly) {
  addDevice("by-hand", "", {}, "n1");
  claim("a", {}, "", "by-hand");
  ASSERT_EQ(phase("a"), "Bound") << world.message("a");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.resourceClaim("a")->allocation->nodeName, "n1");
  EXPECT_TRUE(world.pod("p").requiredNodeAffinity);
}

TEST_F(RemoteTest, C9_DevicesOfTheClassAreBoundBeforeThePoolIsAsked) {
  addDevice("small", "pool", {{"elasticgpu.io/gpu-memory", "8Gi"}});
  addDevice("large", "pool", {{"elasticgpu.io/gpu-memory", "40Gi"}});
  claim("a", {{"gpu", "1"}, {"gpu-memory", "16Gi"}});
  EXPECT_EQ(world.claim("a").status.elasticGPUName, "large") << world.message("a");
  claim("b");
  EXPECT_EQ(world.claim("b").status.elasticGPUName, "small") << world.message("b");
  claim("c");
  EXPECT_EQ(world.claim("c").status.elasticGPUName, deviceOf("c")) << world.message("c");
  EXPECT_EQ(remote.provisions(), 1);
  claim("d", {{"gpu", "1"}, {"gpu-memory", "16Gi"}}, "pool", "large");
  EXPECT_EQ(world.reason("d"), "StaticNotAvailable");
}

TEST_F(RemoteTest, C9_ADeviceOnACordonedNodeLeavesTheClaimToTheNextDeviceAndThenToThePool) {
  world.addNode("n9");
  world.json<core::Node>({"", "n9"}, R"({"spec":{"unschedulable":true}})");
  addDevice("a-lab", "pool", {}, "n9");
  addDevice("b-lab", "pool", {}, "gone");
  addDevice("c-lab", "pool");
  claim("a");
  EXPECT_EQ(world.claim("a").status.elasticGPUName, "c-lab") << world.message("a");
  claim("b");
  EXPECT_EQ(world.claim("b").status.elasticGPUName, deviceOf("b")) << world.message("b");
  world.json<core::Node>({"", "n9"}, R"({"spec":{"unschedulable":null}})");
  settle();
  claim("c");
  EXPECT_EQ(world.claim("c").status.elasticGPUName, "a-lab") << world.message("c");
}

TEST_F(RemoteTest, C9_AClaimWithoutAPoolWaitsUntilTheNodeOfTheDeviceIsUsable) {
  remote.answer({{ReplyCode::invalid, "the class has no pool"}}, true);
  world.addNode("n9");
  world.taint("n9", R"([{"key":"lab","value":"x","effect":"NoSchedule"}])");
  addDevice("by-hand", "pool", {}, "n9");
  claim("a");
  EXPECT_EQ(world.reason("a"), "ProvisionFailed") << world.message("a");
  world.taint("n9", "[]");
  settle();
  EXPECT_EQ(world.claim("a").status.elasticGPUName, "by-hand") << world.message("a");
}

TEST_F(RemoteTest, C9_WithAConsumerThePodDecidesWhetherTheNodeOfTheDeviceIsUsable) {
  world.addNode("n9");
  world.json<core::Node>({"", "n9"}, R"({"spec":{"unschedulable":true}})");
  addDevice("by-hand", "late-pool", {}, "n9");
  claim("a", {{"gpu", "1"}}, "late-pool");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.elasticGPUName, deviceOf("a")) << world.message("a");
  world.json<core::Node>({"", "n9"}, R"({"spec":{"unschedulable":null}})");
  settle();
  claim("b", {{"gpu", "1"}}, "late-pool");
  world.addPod("q", {"b"});
  settle();
  EXPECT_EQ(world.claim("b").status.elasticGPUName, "by-hand") << world.message("b");
}

TEST_F(RemoteTest, C9_AClassWithoutAPoolWaitsForDevices) {
  remote.answer({{ReplyCode::invalid, "the class has no pool"}}, true);
  claim("a");
  EXPECT_EQ(world.reason("a"), "ProvisionFailed") << world.message("a");
  addDevice("by-hand", "pool");
  EXPECT_EQ(phase("a"), "Bound") << world.message("a");
  EXPECT_EQ(world.claim("a").status.elasticGPUName, "by-hand");
}

TEST_F(RemoteTest, C9_ADeviceThatBecomesAvailableDuringTheRefusalIsBound) {
  remote.answer({{ReplyCode::invalid, "the class has no pool"}}, true);
  remote.before = [&] {  // (W3) for the claim's own device
    remote.before = nullptr;
    createDevice("by-hand", "pool");
    driver->poll();
    world.json<cache::Gpu>({"", "by-hand"}, R"({"status":{"phase":"Available"}})", "status");
    driver->poll();
  };
  claim("a");
  EXPECT_EQ(world.claim("a").status.elasticGPUName, "by-hand") << world.message("a");
}

TEST_F(RemoteTest, ALostLeaseIsAConditionWhileAPodRunsOnTheNodeThatReportsIt) {
  claim("a");
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  const auto report = [&](const std::string& loss, const std::string& node) {
    world.json<cache::Gpu>({"", deviceOf("a")}, R"({"status":{"accessLost":{")" + node + R"(":)" + loss + "}}}",
                           "status");
    settle();
  };
  const std::string lost = R"({"reason":"LeaseLost","message":"it has ended","since":"2026-01-02T03:04:05Z"})";
  report(lost, "gone");
  EXPECT_EQ(world.reason("a", "AccessLost"), "") << "no pod of the claim runs there";
  report(lost, "n1");
  EXPECT_EQ(world.reason("a", "AccessLost"), "LeaseLost");
  EXPECT_EQ(world.message("a", "AccessLost"), "it has ended");
  report("null", "n1");
  EXPECT_EQ(world.reason("a", "AccessLost"), "Ended");
}

}  // namespace
}  // namespace egpu::reconcile
