// Pods that may not be scheduled: with other controllers' gates, of schedulers that are not served, being deleted.
// Nothing is decided, reserved, nominated or counted for them until the obstacle ends.
#include "controller/reconcile/pod/schedulability.h"

#include <algorithm>
#include <functional>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using std::chrono::seconds;
using support::World;

constexpr const char* kQueue = "kueue.x-k8s.io/admission";
constexpr const char* kOurs = "elasticgpu.io/claims";

class SchedulabilityTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addNode("n2", {{"zone", "y"}});
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    settle();
  }
  void create(core::Pod pod) {
    (void)World::must(world.client.create(pod));
    world.nextSecond();
  }
  /// A pod that names claims, with a queue's gate and the project's gate.
  static core::Pod queuedPod(const std::string& name, const std::vector<std::string>& claims) {
    auto pod = World::podOf(name, claims);
    pod.schedulingGates.insert(pod.schedulingGates.begin(), kQueue);
    return pod;
  }
  void queued(const std::string& name, const std::vector<std::string>& claims) {
    create(queuedPod(name, claims));
    settle();
  }
  /// A pod with one claim of a template, and the objects that Kubernetes stamps for it.
  void ofTemplate(const std::string& name, const std::string& cls, int cards,
                  const std::function<void(core::Pod&)>& change, bool reported = true) {
    auto pod = World::podOf(name, {});
    pod.resourceClaims.push_back({"gpu", "", "template"});
    if (change) change(pod);
    create(std::move(pod));
    core::ResourceClaim rc;
    rc.metadata.name = stampOf(name);
    rc.metadata.namespace_ = "default";
    rc.metadata.ownerReferences.push_back({"v1", "Pod", name, world.pod(name).metadata.uid, true, false});
    rc.deviceClassName = "elasticgpu.io";
    rc.requestName = "gpu";
    rc.config.push_back({{},
                         "elasticgpu.io",
                         R"({"egpuClassName":")" + cls + R"(","resources":{"requests":{"elasticgpu.io/gpu":)" +
                             std::to_string(cards) + "}}}"});
    (void)World::must(world.client.create(rc));
    if (reported) reportToPod(name);
    settle();
  }
  void reportToPod(const std::string& name) {
    world.json<core::Pod>(
        {"default", name},
        R"({"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":")" + stampOf(name) + R"("}]}})",
        "status");
  }
  /// Creates the PodGroup train.
  void groupOfTwo() {
    core::PodGroup group;
    group.metadata.name = "train";
    group.metadata.namespace_ = "default";
    group.minCount = 2;
    (void)World::must(world.client.create(group));
    settle();
  }
  static std::string stampOf(const std::string& pod) { return pod + "-gpu-x7x7x"; }
  static void queue(core::Pod& pod) { pod.schedulingGates.insert(pod.schedulingGates.begin(), kQueue); }
  /// Admits a pod as a queue does: removes its gate and sets a node selector in one write.
  void admit(const std::string& pod, const std::string& zone = {}) {
    const auto selector = zone.empty() ? std::string() : R"(,"nodeSelector":{"zone":")" + zone + R"("})";
    world.json<core::Pod>({"default", pod},
                          std::string(R"({"spec":{"schedulingGates":[{"name":")") + kOurs + R"("}])" + selector + "}}");
    settle();
  }
  bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  int64_t cards() { return driver->cluster.allocationMap().totals().usedCore / 1000; }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  std::size_t devices() {
    std::size_t count = 0;
    for (const auto& gpu : World::must(world.client.listAll<cache::Gpu>({}))) count += gpu.isDevice() ? 1 : 0;
    return count;
  }
  bool isPinned(const std::string& pod) { return world.pod(pod).requiredNodeAffinity.has_value(); }
};

TEST_F(SchedulabilityTest, TheObstacleOfAPod) {
  core::Namespace ending;
  ending.metadata.name = "ending";
  ending.metadata.uid = "u";
  ending.metadata.resourceVersion = "1";
  ending.phase = "Terminating";
  cache::Stores stores;
  stores.observed(ending);
  const auto reasonOf = [&](const std::function<void(core::Pod&)>& change) {
    auto pod = World::podOf("p", {"a"});
    change(pod);
    const auto obstacle = obstacleOf(stores, pod);
    EXPECT_EQ(isConsumer(stores, pod), !obstacle);
    return std::string(obstacle.reason);
  };
  EXPECT_EQ(reasonOf([](auto&) {}), "") << "our own gate is none";
  EXPECT_EQ(reasonOf([](auto& pod) { pod.schedulerName = "default-scheduler"; }), "");
  EXPECT_EQ(reasonOf([](auto& pod) { queue(pod); }), "WaitingForGates");
  EXPECT_EQ(reasonOf([](auto& pod) { pod.schedulingGates = {kQueue}; }), "WaitingForGates");
  EXPECT_EQ(reasonOf([](auto& pod) { pod.schedulerName = "kai-scheduler"; }), "SchedulerNotServed");
  EXPECT_EQ(reasonOf([](auto& pod) { pod.metadata.namespace_ = "ending"; }), "WaitingForConsumer");
  EXPECT_EQ(reasonOf([](auto& pod) { pod.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"; }), "WaitingForConsumer");
  EXPECT_EQ(reasonOf([](auto& pod) { pod.phase = "Succeeded"; }), "WaitingForConsumer");
  EXPECT_EQ(reasonOf([](auto& pod) {
              pod.nodeName = "n1";
              pod.schedulerName = "kai-scheduler";
            }),
            "")
      << "it runs";
}

TEST_F(SchedulabilityTest, C5_APodBehindAQueuesGateTakesNothing) {
  world.addClaim("both", "late", {{"gpu", "2"}});
  queued("queued", {"both"});
  world.addClaim("others", "late", {{"gpu", "2"}});
  world.addClaim("more", "late", {{"gpu", "2"}});
  world.addPod("p", {"others"});
  world.addPod("q", {"more"});
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty()) << world.message("others");
  EXPECT_TRUE(world.pod("q").schedulingGates.empty()) << world.message("more");
  EXPECT_FALSE(world.exists(deviceOf("both")));
  EXPECT_FALSE(world.resourceClaim("both"));
  EXPECT_EQ(world.pod("queued").schedulingGates, (std::vector<std::string>{kQueue, kOurs}));
  EXPECT_EQ(world.reason("both"), "WaitingForGates");
  EXPECT_TRUE(has(world.message("both"), "pod queued")) << world.message("both");
  EXPECT_TRUE(has(world.message("both"), kQueue)) << world.message("both");
  EXPECT_EQ(countEvents("queued Normal WaitingForGates pod queued is held by scheduling gate kueue.x-k8s.io/admission"),
            1);
}

TEST_F(SchedulabilityTest, C5_AStampedClaimOfEitherModeWaitsForItsPodsQueue) {
  for (const auto* cls : {"late", "share"}) {
    const std::string pod = std::string("of-") + cls;
    ofTemplate(pod, cls, 2, queue);
    EXPECT_FALSE(world.exists(deviceOf(stampOf(pod)))) << cls;
    EXPECT_EQ(world.reason(stampOf(pod)), "WaitingForGates") << cls << world.message(stampOf(pod));
    EXPECT_TRUE(has(world.message(stampOf(pod)), kQueue)) << world.message(stampOf(pod));
  }
  EXPECT_EQ(cards(), 0);
  for (const auto* pod : {"of-late", "of-share"}) {
    admit(pod);
    EXPECT_TRUE(world.pod(pod).schedulingGates.empty()) << pod << world.message(stampOf(pod));
  }
  EXPECT_EQ(phase(stampOf("of-share")), "Bound");
}

TEST_F(SchedulabilityTest, C5_ASelectorThatComesWithTheAdmissionIsObeyed) {
  world.addCard("n2", 2);
  ofTemplate("stamped", "late", 1, queue);
  world.addClaim("made", "late", {{"gpu", "1"}});
  queued("by-hand", {"made"});
  ofTemplate("at-once", "share", 1, queue);
  for (const auto* pod : {"stamped", "by-hand", "at-once"}) {
    admit(pod, "y");
    EXPECT_TRUE(world.pod(pod).schedulingGates.empty()) << pod;
  }
  for (const auto& claim : {stampOf("stamped"), stampOf("at-once"), std::string("made")}) {
    const auto resourceClaim = world.resourceClaim(claim);
    ASSERT_TRUE(resourceClaim && resourceClaim->allocation) << claim;
    EXPECT_EQ(resourceClaim->allocation->nodeName, "n2") << claim;
  }
}

TEST_F(SchedulabilityTest, C5_AStampedClaimOfEitherModeGetsANodeThatSuitsItsPod) {
  world.addNode("n3", {{"zone", "x"}});
  world.addCard("n3", 0);
  world.addCard("n3", 1);
  settle();
  for (const auto* cls : {"late", "share"})
    for (const auto& [zone, node] : {std::pair("x", "n3"), std::pair("y", "n2")}) {
      const auto pod = std::string(cls) + "-" + zone;
      ofTemplate(pod, cls, 1, [&, zone = zone](core::Pod& made) { made.nodeSelector = {{"zone", zone}}; });
      EXPECT_TRUE(world.pod(pod).schedulingGates.empty()) << pod << world.message(stampOf(pod));
      const auto resourceClaim = world.resourceClaim(stampOf(pod));
      ASSERT_TRUE(resourceClaim && resourceClaim->allocation) << pod;
      EXPECT_EQ(resourceClaim->allocation->nodeName, node) << pod;
    }
  ofTemplate("nowhere", "share", 1, [](core::Pod& pod) { pod.nodeSelector = {{"zone", "z"}}; });
  EXPECT_EQ(world.reason(stampOf("nowhere")), "NoFit") << world.message(stampOf("nowhere"));
  EXPECT_FALSE(world.exists(deviceOf(stampOf("nowhere"))));
}

TEST_F(SchedulabilityTest, C14_AStampedMemberOfEitherModeGetsANodeThatSuitsItsPod) {
  if (world.real) GTEST_SKIP() << "tests/cluster/gang_test.py";
  groupOfTwo();
  for (const std::string name : {"a", "b"})
    ofTemplate(name, "share", 1, [](core::Pod& pod) {
      pod.podGroupName = "train";
      pod.nodeSelector = {{"zone", "y"}};
    });
  for (const std::string name : {"a", "b"}) {
    EXPECT_EQ(phase(stampOf(name)), "Bound") << world.message(stampOf(name));
    EXPECT_EQ(world.claim(stampOf(name)).status.nodeName, "n2");
  }
}

TEST_F(SchedulabilityTest, C5_AnAdmittedPodsClaimNamesTheGateNoMore) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  queued("p", {"a", "missing"});
  ASSERT_EQ(world.reason("a"), "WaitingForGates");
  admit("p");
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  EXPECT_EQ(world.message("a"), "waits for claim missing of pod p: all claims of a pod go to one node");
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim missing: "), 1);
}

TEST_F(SchedulabilityTest, C6_AStampedImmediateClaimIsBoundBeforeThePodsStatusNamesIt) {
  ofTemplate("p", "share", 1, queue, false);
  EXPECT_EQ(world.reason(stampOf("p")), "WaitingForGates");
  EXPECT_EQ(cards(), 0);
  admit("p");
  reportToPod("p");
  settle();
  EXPECT_EQ(phase(stampOf("p")), "Bound") << world.message(stampOf("p"));
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(SchedulabilityTest, W9_AClaimOfAUsersIsBoundAtOnceButItsPodRetainsTheGateUntilTheQueueLetsItGo) {
  world.addClaim("mine", "share", {{"gpu", "1"}});
  queued("p", {"mine"});
  EXPECT_EQ(phase("mine"), "Bound") << world.message("mine");
  EXPECT_EQ(world.pod("p").schedulingGates, (std::vector<std::string>{kQueue, kOurs}));
  EXPECT_FALSE(isPinned("p"));
  admit("p");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_TRUE(isPinned("p"));
}

TEST_F(SchedulabilityTest, W9_APodWhoseQueueSelectsAnotherNodeThanItsBoundClaimsIsNotPinned) {
  world.addClaim("mine", "share", {{"gpu", "1"}}, "gpu-n1-0");
  queued("p", {"mine"});
  ASSERT_EQ(phase("mine"), "Bound") << world.message("mine");
  admit("p", "y");
  EXPECT_EQ(world.pod("p").schedulingGates, std::vector<std::string>{kOurs});
  EXPECT_FALSE(isPinned("p"));
  EXPECT_EQ(world.reason("mine", "ResourceClaimReady"), "NodeUnsuitable");
}

TEST_F(SchedulabilityTest, W9_EveryOtherGateHasToGo) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  auto pod = queuedPod("p", {"a"});
  pod.schedulingGates.emplace_back("instaslice.io/accelerator");
  create(pod);
  settle();
  EXPECT_TRUE(has(world.message("a"), "kueue.x-k8s.io/admission, instaslice.io/accelerator")) << world.message("a");
  world.json<core::Pod>({"default", "p"}, R"({"spec":{"schedulingGates":[{"name":"elasticgpu.io/claims"},)"
                                          R"({"name":"instaslice.io/accelerator"}]}})");
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForGates");
  EXPECT_FALSE(has(world.message("a"), kQueue)) << world.message("a");
  EXPECT_EQ(cards(), 0);
  admit("p");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(SchedulabilityTest, C5_OfTwoPodsOfOneClaimTheAdmittedOneIsItsFirstConsumer) {
  world.addClaim("shared", "late", {{"gpu", "1"}});
  queued("older", {"shared"});
  create([] {
    auto pod = World::podOf("younger", {"shared"});
    pod.nodeSelector = {{"zone", "y"}};
    return pod;
  }());
  settle();
  EXPECT_TRUE(world.pod("younger").schedulingGates.empty()) << world.message("shared");
  EXPECT_EQ(world.pod("older").schedulingGates.size(), 2u);
  const auto resourceClaim = world.resourceClaim("shared");
  ASSERT_TRUE(resourceClaim && resourceClaim->allocation);
  EXPECT_EQ(resourceClaim->allocation->nodeName, "n2");
}

TEST_F(SchedulabilityTest, C13_NothingIsNominatedOrReservedForAQueuedPod) {
  if (world.real) GTEST_SKIP() << "times that a real server writes are not this clock's";
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  for (const auto* name : {"s1", "s2", "s3", "s4"}) world.addClaim(name, "spare", {{"gpu", "1"}});
  settle();
  ASSERT_EQ(cards(), 4);
  for (const auto* cls : {"late", "share"})
    ofTemplate(std::string("of-") + cls, cls, 2, [](auto& pod) {
      queue(pod);
      pod.priority = 1000;
    });
  world.clock.advance(seconds(601));
  driver->run(seconds(120));
  EXPECT_EQ(cards(), 4);
  EXPECT_TRUE(driver->cluster.queries().nodeReservations().empty());
  for (const auto* pod : {"of-late", "of-share"}) {
    EXPECT_FALSE(world.claim(stampOf(pod)).status.nominated) << pod;
    EXPECT_EQ(world.reason(stampOf(pod)), "WaitingForGates") << pod;
  }
  admit("of-share");
  driver->run(seconds(60));
  EXPECT_EQ(phase(stampOf("of-share")), "Bound") << world.message(stampOf("of-share"));
}

TEST_F(SchedulabilityTest, C6_AQueuedPodLendsNoPriority) {
  world.addClaim("shared", "late", {{"gpu", "8"}});
  world.addPod("p", {"shared"});
  auto high = queuedPod("high", {"shared"});
  high.priority = 1000;
  create(high);
  settle();
  EXPECT_EQ(world.claim("shared").status.priority, 0);
}

TEST_F(SchedulabilityTest, C14_AMemberWhosePodIsQueuedDoesNotCount) {
  const auto member = [&](const std::string& name, bool isQueued) {
    world.addMember(name, "late", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}});
    create(isQueued ? queuedPod("p-" + name, {name}) : World::podOf("p-" + name, {name}));
    settle();
  };
  member("a", true);
  member("b", false);
  EXPECT_EQ(world.reason("a"), "WaitingForGates");
  EXPECT_EQ(world.message("b"), "1 of 2 members of gang g is here");
  EXPECT_EQ(cards(), 0);
  member("c", false);
  for (const auto* name : {"b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
  EXPECT_FALSE(world.exists(deviceOf("a"))) << "the gang is whole without it";
}

TEST_F(SchedulabilityTest, C14_AGangGoesOnWithTheAdmissionOfItsLastPod) {
  for (const std::string name : {"a", "b", "c"}) {
    world.addMember(name, "late", {{"gpu", "1"}}, {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "3"}});
    queued("p-" + name, {name});
  }
  EXPECT_EQ(cards(), 0);
  for (const auto* pod : {"p-c", "p-a"}) admit(pod);
  EXPECT_EQ(world.message("a"), "2 of 3 members of gang g are here");
  EXPECT_EQ(cards(), 0);
  admit("p-b");
  for (const auto* name : {"a", "b", "c"}) EXPECT_EQ(phase(name), "Bound") << name << world.message(name);
}

TEST_F(SchedulabilityTest, C14_APodGroupCountsNoQueuedPods) {
  if (world.real) GTEST_SKIP() << "tests/cluster/gang_test.py";
  groupOfTwo();
  const auto ofGroup = [](core::Pod& pod) { pod.podGroupName = "train"; };
  const auto queuedOfGroup = [&](core::Pod& pod) {
    ofGroup(pod);
    queue(pod);
  };
  ofTemplate("a", "share", 1, queuedOfGroup);
  ofTemplate("b", "share", 1, ofGroup);
  EXPECT_EQ(world.reason(stampOf("a")), "WaitingForGates");
  EXPECT_EQ(world.message(stampOf("b")), "1 of 2 pods of PodGroup train is here");
  EXPECT_EQ(cards(), 0);
  admit("a");
  for (const auto* pod : {"a", "b"}) {
    EXPECT_EQ(phase(stampOf(pod)), "Bound") << pod << world.message(stampOf(pod));
    EXPECT_TRUE(world.pod(pod).schedulingGates.empty()) << pod;
  }
}

/// An earlier version decided for a queued pod; the next version finds that state.
TEST_F(SchedulabilityTest, C7_AnUnreservedIntentIsRolledBackAndABoundClaimStays) {
  for (const auto* claim : {"intent", "bound"}) {
    world.addClaim(claim, "late", {{"gpu", "1"}});
    world.addPod(std::string("of-") + claim, {claim});
  }
  settle();
  world.schedule("of-bound");
  settle();
  ASSERT_EQ(phase("bound"), "Bound");
  ASSERT_TRUE(world.exists(deviceOf("intent")));
  for (const auto* claim : {"intent", "bound"}) {
    world.removePod(std::string("of-") + claim);
    create(queuedPod(std::string("of-") + claim, {claim}));
  }
  start();
  EXPECT_FALSE(world.exists(deviceOf("intent")));
  EXPECT_EQ(world.reason("intent"), "WaitingForGates");
  EXPECT_EQ(phase("bound"), "Bound");
  EXPECT_EQ(world.pod("of-bound").schedulingGates.size(), 2u);
  admit("of-bound");
  EXPECT_TRUE(isPinned("of-bound"));
}

TEST_F(SchedulabilityTest, C5_PodsOfASchedulerThatIsNotServedHoldNothing) {
  const auto kai = [](core::Pod& pod) { pod.schedulerName = "kai-scheduler"; };
  for (const auto* cls : {"late", "share"}) ofTemplate(std::string("of-") + cls, cls, 2, kai);
  world.addClaim("a", "late", {{"gpu", "1"}});
  auto pod = World::podOf("by-hand", {"a"}, false);
  kai(pod);
  create(pod);
  settle();
  EXPECT_EQ(devices(), 0u);
  for (const auto& claim : {stampOf("of-late"), stampOf("of-share"), std::string("a")}) {
    EXPECT_EQ(world.reason(claim), "SchedulerNotServed") << claim;
    EXPECT_TRUE(has(world.message(claim), "kai-scheduler")) << world.message(claim);
    EXPECT_TRUE(has(world.message(claim), "--schedulers")) << world.message(claim);
  }
  EXPECT_EQ(countEvents("of-late Warning SchedulerNotServed pod of-late"), 1);
  EXPECT_EQ(world.pod("of-late").schedulingGates.size(), 1u);
  ofTemplate("own", "share", 1, [](core::Pod& other) { other.schedulerName = "own-scheduler"; });
  EXPECT_TRUE(world.pod("own").schedulingGates.empty()) << "the extender's scheduler is served";
  EXPECT_EQ(world.message(stampOf("own")), "the scheduler of its pods chooses the node");
}

TEST_F(SchedulabilityTest, C5_APodThatEndsIsNoConsumer) {
  world.addClaim("a", "late", {{"gpu", "8"}});
  auto pod = World::podOf("p", {"a"}, false);
  pod.nodeName = "n1";
  pod.metadata.finalizers = {"example.com/stays"};
  create(pod);
  settle();
  ASSERT_EQ(world.reason("a"), "NoFit") << world.message("a");
  (void)world.client.remove<core::Pod>({"default", "p"});
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer") << world.message("a");
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"finalizers":null}})");
  world.removePod("p");
  settle();
}

TEST_F(SchedulabilityTest, ASchedulerLearnsWhatBlocksThePod) {
  world.addClaim("a", "late", {{"gpu", "1"}});
  auto pod = queuedPod("p", {"a"});
  pod.schedulerName = "own-scheduler";
  EXPECT_TRUE(has(driver->reconciler.demandOf(pod).later, kQueue));
  pod.schedulingGates.clear();
  EXPECT_EQ(driver->reconciler.demandOf(pod).later, "");
  pod.schedulerName = "kai-scheduler";
  EXPECT_TRUE(has(driver->reconciler.demandOf(pod).never, "kai-scheduler"));
}

}  // namespace
}  // namespace egpu::reconcile
