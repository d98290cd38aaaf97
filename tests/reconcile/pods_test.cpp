// The carrier and the pods: W7 to W9, the first consumer, claims in use, and the real threads.
#include "controller/reconcile/controller.h"
#include "controller/reconcile/queue_key.h"
#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using PodsTest = ReconcileTest;

TEST_F(PodsTest, C10_AGatedPodIsPinnedOnceItsClaimIsCarried) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_FALSE(world.carrier("a"));  // nobody needs it
  world.addPod("p", {"a"});
  const auto before = writes();
  settle();
  EXPECT_EQ(writes() - before, 3u);  // W7, W8, W9
  const auto carrier = world.carrier("a");
  ASSERT_TRUE(carrier);
  EXPECT_TRUE(Carrier::ownedBy(*carrier, world.claim("a").metadata.uid));
  ASSERT_TRUE(carrier->allocation);
  EXPECT_EQ(carrier->allocation->device, deviceOf("a"));
  EXPECT_EQ(carrier->allocation->nodeName, "n1");
  const auto pod = world.pod("p");
  EXPECT_TRUE(pod.schedulingGates.empty());
  ASSERT_TRUE(pod.requiredNodeAffinity);
  EXPECT_EQ(pod.requiredNodeAffinity->terms.at(0).matchFields.at(0).values.at(0), "n1");
}

TEST_F(PodsTest, C12_AClaimInUseIsNotReleased) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  settle();
  const auto device = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Bound");
  EXPECT_TRUE(world.claim("a").metadata.deleting());
  EXPECT_TRUE(world.carrier("a")->metadata.deleting());  // no new reservations
  EXPECT_EQ(world.reason("a"), "InUse");
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p to end");
  EXPECT_EQ(told("a Normal InUse is being deleted; waits for pod p to end"), 1);
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
  EXPECT_EQ(told("a Normal InUse"), 0);
  world.finishPod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_FALSE(world.carrier("a"));
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(PodsTest, W7_CarrierTaken) {
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  (void)support::World::must(world.client.create(foreign));
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a", "Carried"), "CarrierTaken");
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
}

TEST_F(PodsTest, W7_CarrierTakenIsWhyAFirstConsumersClaimWaits) {
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  foreign = support::World::must(world.client.create(foreign));
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_EQ(world.reason("a"), "CarrierTaken") << world.message("a");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer") << world.message("a");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(PodsTest, W9_ClaimsOnTwoNodesAreNamed) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addClaim("a", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  world.addClaim("b", "share", {{"gpu-core", "10"}}, "gpu-n2-0");
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_EQ(world.reason("a", "Carried"), "NodeUnsuitable");
  EXPECT_NE(world.message("b", "Carried").find("claim a is on node n1, claim b on node n2"), std::string::npos);
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
}

TEST_F(PodsTest, W9_AGatedPodIsToldWhatItWaitsFor) {
  const auto told = [&](const std::string& text) {
    const auto lines = driver->events.lines();
    return std::count_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line.find("p Warning WaitingForClaim " + text) == 0; });
  };
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(told("claim a: there is no such ElasticGPUClaim"), 1);
  world.addClaim("a", "share", {{"gpu", "9"}});
  settle();
  EXPECT_EQ(told("claim a: NoFit: 0/"), 1);
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"labels":{"touched":"yes"}}})");
  settle();
  EXPECT_EQ(told(""), 2) << "the same again";
}

TEST_F(PodsTest, C6_NoFitSaysWhyNodesDontSuitThePod) {
  world.addClass("later", "Delete", "WaitForFirstConsumer");
  world.addClaim("a", "later", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("nodes that don't suit pod p: 1 not labelled zone=x as the pod selects"),
            std::string::npos)
      << world.message("a");
}

TEST_F(PodsTest, W9_ANodeThatThePodExcludesIsNamedAndFollowed) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  EXPECT_EQ(world.reason("a", "Carried"), "NodeUnsuitable");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"zone":"x"}}})");
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "Carried"), "Carried");
}

TEST_F(PodsTest, W8_AClearedAllocationOfABoundClaimIsWrittenAgainWithBackoff) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.clearAllocation("a");
  settle();
  EXPECT_FALSE(world.carrier("a")->allocation);
  driver->run();
  EXPECT_TRUE(world.carrier("a")->allocation);
}

TEST_F(PodsTest, C5_WaitForFirstConsumer) {
  world.addNode("n2", {{"zone", "x"}});
  world.addCard("n2", 0);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"}, true, {{"zone", "x"}});
  settle();
  // Chosen to suit the pod, allocated, let go without a pin, and not provisioned yet.
  EXPECT_EQ(world.carrier("a")->allocation->nodeName, "n2");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_FALSE(world.pod("p").requiredNodeAffinity);
  EXPECT_TRUE(world.plugin.made().empty());
  world.schedule("p");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.nodeName, "n2");
  world.removePod("p");
}

TEST_F(PodsTest, C5_ClearedByTheSchedulerGoesToAnotherNodeWithAllClaimsOfThePod) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addClaim("b", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a", "b"});
  settle();
  const auto first = world.carrier("a")->allocation->nodeName;
  EXPECT_EQ(world.carrier("b")->allocation->nodeName, first);
  world.clearAllocation("a");
  driver->run(std::chrono::seconds(5));
  ASSERT_TRUE(world.carrier("a")->allocation);
  ASSERT_TRUE(world.carrier("b")->allocation);
  EXPECT_NE(world.carrier("a")->allocation->nodeName, first);
  EXPECT_EQ(world.carrier("b")->allocation->nodeName, world.carrier("a")->allocation->nodeName);
}

TEST_F(PodsTest, C5_AConsumerThatLeavesFreesTheIntent) {
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.exists(deviceOf("a")));
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(deviceOf("a")));
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
}

TEST_F(PodsTest, C6_AFirstConsumerWithoutRoomSaysSoAndIsTriedAgain) {
  world.addClaim("a", "late", {{"gpu", "3"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.addCard("n1", 2);
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST(QueueKeyTest, RoundTrip) {
  for (const std::string text : {"claim/ns/a", "device/egpu-1", "card/gpu-1", "carrier/ns/a", "pod/ns/p", "node/n",
                                 "class/c", "plugin/p.io", "calls/p.io"}) {
    auto key = QueueKey::parse(text);
    ASSERT_TRUE(key) << text;
    EXPECT_EQ(key->str(), text);
  }
  EXPECT_FALSE(QueueKey::parse("claim/only"));
  EXPECT_FALSE(QueueKey::parse("what/ever"));
}

TEST(ControllerTest, ThreadsBindAndReleaseTwoHundredClaims) {
  support::World world;
  world.addNamespace("default");
  for (int n = 0; n < 4; ++n) {
    world.addNode("n" + std::to_string(n));
    for (int i = 0; i < 4; ++i) world.addCard("n" + std::to_string(n), i);
  }
  world.addClass("share");
  base::SystemClock clock;
  kube::Client client(*world.transport, clock, world.random, world.metrics);
  support::EventLog events;
  ControllerOptions options;
  options.workers = 8;
  options.reconciler.auditor.summaryDelay = std::chrono::milliseconds(10);
  Controller controller(client, world.registry, clock, events, world.metrics, options);
  controller.start();
  ASSERT_TRUE(controller.waitUntilReady());
  const auto until = [&](const std::function<bool()>& holds) {
    const auto deadline = clock.now() + std::chrono::seconds(60);
    while (!holds()) {
      ASSERT_LT(clock.now(), deadline);
      clock.sleepFor(std::chrono::milliseconds(5), {});
    }
  };
  for (int i = 0; i < 150; ++i)
    world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "10"}, {"gpu-memory", "1"}});
  until([&] {
    int bound = 0;
    controller.stores().claims.forEach([&](const auto& c) { bound += c->status.phase == "Bound"; });
    return bound == 150 && controller.quiet();
  });
  EXPECT_EQ(world.violation(), "");
  const auto totals = controller.cluster().totals();
  EXPECT_EQ(totals.cards, 16);
  EXPECT_EQ(totals.usedCore, 15'000);
  for (int i = 0; i < 150; ++i) world.removeClaim("c" + std::to_string(i));
  until([&] {
    return controller.stores().claims.size() == 0 && controller.stores().devices.size() == 0 && controller.quiet();
  });
  EXPECT_EQ(world.garbage(), "");
  controller.stop();
  EXPECT_EQ(controller.cluster().totals().usedCore, 0);
  world.registry.forgetListeners();
}

}  // namespace
}  // namespace egpu::reconcile
