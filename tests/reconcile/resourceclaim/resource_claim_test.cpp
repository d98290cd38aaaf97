// The ResourceClaim that represents a bound claim to scheduler and kubelet: which pods may use it, when it is repaired,
// and the order of its deletion.
#include <algorithm>
#include <memory>

#include "tests/reconcile/fixture.h"
#include "tests/support/recording_transport.h"
#include "tests/support/stock_scheduler.h"

namespace egpu::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using support::StockScheduler;
using support::World;

class ResourceClaimTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    startOver(line);
  }
  void TearDown() override {
    ReconcileTest::TearDown();
    // In all tests: the scheduler decides which pods use a claim, and this finalizer would hand the claim over to the
    // controller manager.
    for (const auto& write : line.writes) {
      EXPECT_EQ(write.body.find("reservedFor"), std::string::npos) << write.path << " " << write.body;
      EXPECT_EQ(write.body.find("delete-protection"), std::string::npos) << write.path;
    }
    driver.reset();
  }
  /// A ResourceClaim of another driver's device, with the name of a claim.
  void addForeignResourceClaim(const std::string& name) {
    core::ResourceClaim foreign;
    foreign.metadata.name = name;
    foreign.metadata.namespace_ = "default";
    foreign.deviceClassName = "other";
    foreign.requestName = "x";
    (void)World::must(world.client.create(foreign));
  }
  void pod(const std::string& name, const std::vector<std::string>& claims, const std::string& cpu,
           int64_t priority = 0, bool gate = true) {
    auto made = World::podOf(name, claims, gate);
    made.priority = priority;
    made.containers[0].requests = {{"cpu", cpu}};
    (void)World::must(world.client.create(made));
  }
  bool allocated(const std::string& claim) {
    const auto resourceClaim = world.resourceClaim(claim);
    return resourceClaim && resourceClaim->allocation;
  }
  std::size_t allocationsWritten() const {
    return static_cast<std::size_t>(std::count_if(line.writes.begin(), line.writes.end(), [](const auto& write) {
      return write.path.find("/resourceclaims/") != std::string::npos &&
             write.body.find("allocationTimestamp") != std::string::npos;
    }));
  }
  support::RecordingTransport line{*world.transport};
  StockScheduler scheduler{world};
};

TEST_F(ResourceClaimTest, W8_TheAllocationIsWhatSchedulerAndKubeletNeed) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  const auto resourceClaim = world.resourceClaim("a");
  ASSERT_TRUE(resourceClaim && resourceClaim->allocation);
  EXPECT_EQ(resourceClaim->deviceClassName, "elasticgpu.io");
  EXPECT_EQ(resourceClaim->allocation->driver, "elasticgpu.io");
  EXPECT_EQ(resourceClaim->allocation->request, resourceClaim->requestName);
  EXPECT_EQ(resourceClaim->allocation->pool, "n1");
  EXPECT_NE(resourceClaim->allocation->allocationTimestamp, "");
  EXPECT_EQ(resourceClaim->metadata.finalizers, std::vector<std::string>{"elasticgpu.io/resource-claim"});
  EXPECT_TRUE(resourceClaim->metadata.ownerReferences.at(0).controller);
}

TEST_F(ResourceClaimTest, W8_AClearedAllocationIsWrittenEverMoreSeldom) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false);
  settle();
  const auto first = allocationsWritten();
  EXPECT_EQ(first, 1u);
  for (int i = 0; i < 720; ++i) {  // each time cleared as soon as it is seen, for two hours
    if (allocated("a")) world.clearAllocation("a");
    driver->run(seconds(10));
    world.clock.advance(seconds(10));
  }
  EXPECT_GT(allocationsWritten(), first + 10);
  EXPECT_LT(allocationsWritten(), first + 40);
  world.removePod("p");
}

TEST_F(ResourceClaimTest, W8_AnotherPodOrNodeIsWorthATryAtOnce) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false);
  settle();
  for (int i = 0; i < 8; ++i) {
    world.clearAllocation("a");
    driver->run(minutes(5));
    ASSERT_TRUE(allocated("a"));
  }
  world.clearAllocation("a");
  settle();
  EXPECT_FALSE(allocated("a")) << "it is being waited";
  world.addPod("q", {"a"}, false);
  settle();
  EXPECT_TRUE(allocated("a")) << "another pod";
  world.clearAllocation("a");
  settle();
  EXPECT_FALSE(allocated("a"));
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"changed":"yes"}}})");
  settle();
  EXPECT_TRUE(allocated("a")) << "another node";
  world.clearAllocation("a");
  settle();
  EXPECT_FALSE(allocated("a"));
  world.removePod("p");
  settle();
  EXPECT_TRUE(allocated("a")) << "whom it did not help is gone";
  world.removePod("q");
}

TEST_F(ResourceClaimTest, C12_ReleaseGoesInOrder) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.removePod("p");
  settle();
  const auto device = deviceOf("a");
  const auto card = world.gpu(device).spec.cards[0].name;
  line.writes.clear();
  world.removeClaim("a");
  settle();
  const std::string gpus = "v1alpha/elasticgpus/";
  EXPECT_EQ(line.about({"/"}),
            (std::vector<std::string>{
                "DELETE v1/namespaces/default/resourceclaims/a",  // no new reservations
                "PATCH v1/namespaces/default/resourceclaims/a",   // its finalizer: no pod uses it
                "PATCH " + gpus + device + "/status",             // Released
                "DELETE " + gpus + device,
                "PATCH " + gpus + card,    // the ledger entry
                "PATCH " + gpus + device,  // its finalizer
                "PATCH v1alpha/namespaces/default/elasticgpuclaims/a",
            }));
}

TEST_F(ResourceClaimTest, PodsThatWriteResourceClaimsThemselves) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addClaim("late", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false);
  world.addPod("q", {"late"}, false);
  settle();
  (void)scheduler.round();
  settle();
  EXPECT_EQ(world.pod("p").nodeName, "n1");
  EXPECT_EQ(world.pod("q").nodeName, "n1");
  EXPECT_EQ(world.claim("late").status.phase, "Bound");
  EXPECT_EQ(scheduler.count("p cleared") + scheduler.count("q cleared"), 0);
  world.removePod("p");
  world.removePod("q");
}

TEST_F(ResourceClaimTest, SeveralPodsShareAClaimAndAllMustEnd) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  for (const auto* name : {"p", "q", "r"}) world.addPod(name, {"a"}, std::string(name) != "r");
  settle();
  (void)scheduler.round();
  settle();
  EXPECT_EQ(world.resourceClaim("a")->reservedFor.size(), 3u);
  world.removeClaim("a");
  settle();
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p and others to end");
  world.finishPod("p");
  world.removePod("q");
  settle();
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod r to end");
  EXPECT_EQ(countEvents("a Normal InUse"), 1);
  world.removePod("r");
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(ResourceClaimTest, APodWithSeveralClaimsIsPinnedOnceAllAreAllocated) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  world.plugin.answer({{}, {plugin::ReplyCode::inProgress, ""}}, true);
  world.addPod("p", {"a", "b"});
  settle();
  EXPECT_FALSE(world.pod("p").schedulingGates.empty()) << "one of them is still being provisioned";
  world.plugin.answer({});
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  (void)scheduler.round();
  settle();
  EXPECT_EQ(world.pod("p").nodeName, "n1");
  world.removePod("p");
}

TEST_F(ResourceClaimTest, AForceDeletedPodHoldsTheClaimUntilItsReservationIsGone) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  (void)scheduler.round();
  settle();
  World::mustOk(world.client.remove<core::Pod>({"default", "p"}, R"({"gracePeriodSeconds":0})"));
  world.removeClaim("a");
  settle();
  EXPECT_EQ(world.gpu(deviceOf("a")).status.phase, "Bound");
  EXPECT_EQ(world.message("a"), "is being deleted; waits for its ResourceClaim to be no longer reserved");
  world.unreserve("a", "p");  // as the controller manager does
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(ResourceClaimTest, AFinishedPodHoldsNothing) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  (void)scheduler.round();
  settle();
  world.finishPod("p");
  settle();
  world.removeClaim("a");
  settle();
  EXPECT_FALSE(world.client.get<cache::Claim>({"default", "a"}).ok());
}

TEST_F(ResourceClaimTest, W7_AResourceClaimTornOutUnderItsPodsIsRecreated) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  const auto uid = world.resourceClaim("a")->metadata.uid;
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  ASSERT_TRUE(allocated("a"));
  EXPECT_NE(world.resourceClaim("a")->metadata.uid, uid);
  world.removePod("p");
}

TEST_F(ResourceClaimTest, W8_AnAllocationBySomebodyElseIsNotTouched) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"}, false);
  settle();
  world.clearAllocation("a");
  world.json<core::ResourceClaim>(
      {"default", "a"},
      R"({"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"elasticgpu.io","pool":"n9",)"
      R"("device":"egpu-x"}]}}}})",
      "status");
  driver->run();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, "egpu-x");
  world.clearAllocation("a");
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimReady");
  world.removePod("p");
}

/// Another client wrote another claim's device there while no controller ran, and the pod was deleted.
TEST_F(ResourceClaimTest, W8_AnAllocationBySomebodyElseIsTakenBackOnceNoPodHasTheClaim) {
  for (const auto* name : {"a", "b"}) {
    world.addClaim(name, "share", {{"gpu-core", "10"}});
    world.addPod(std::string("of-") + name, {name});
  }
  settle();
  const auto others = deviceOf("b");
  driver.reset();
  world.clearAllocation("a");
  world.json<core::ResourceClaim>(
      {"default", "a"},
      R"({"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"elasticgpu.io","pool":"n1",)"
      R"("device":")" +
          others + R"("}]}}}})",
      "status");
  auto reserved = *world.resourceClaim("a");
  reserved.reservedFor.push_back({"pods", "of-a", world.pod("of-a").metadata.uid});
  world.reserve(reserved);
  start();
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, others) << "a pod has it reserved";
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  EXPECT_NE(world.message("a", "ResourceClaimReady").find("is for device " + others + " on node"), std::string::npos);

  driver.reset();
  world.removePod("of-a");
  start();
  settle();
  EXPECT_FALSE(world.resourceClaim("a")->allocation) << "the scheduler may be about to reserve what it read before";
  driver.reset();  // dies before W8
  start();
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimReady");
  EXPECT_EQ(world.resourceClaim("b")->allocation->device, others);
  EXPECT_EQ(world.violation(), "");
  world.removePod("of-b");
}

TEST_F(ResourceClaimTest, AnAnnotatedNameThatIsAForeignResourceClaimIsReportedOnThePod) {
  addForeignResourceClaim("a");
  auto made = World::podOf("p", {"a"});
  made.metadata.annotations = {{"egpuc.elasticgpu.io/x", "a"}};
  (void)World::must(world.client.create(made));
  settle();
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim a: there is no such ElasticGPUClaim"), 1);
  EXPECT_TRUE(world.resourceClaim("a")->metadata.finalizers.empty());
  world.removePod("p");
}

TEST_F(ResourceClaimTest, APinnedPodThatCannotFitStarvesNobodyAndEvictsNobodyTwice) {
  world.addNode("n2");
  world.occupy("victim", "n1", "40");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  pod("huge", {"a"}, "100", 1000);  // fits nowhere
  pod("high", {"a"}, "60", 100);    // fits after the victim is evicted
  pod("good", {"a"}, "1");
  settle();
  for (int i = 0; i < 20; ++i) {
    (void)scheduler.round();
    if (i == 3) world.occupy("victim-again", "n1", "2");  // the evicted pod is recreated, smaller
    driver->run(seconds(10));
    world.clock.advance(seconds(10));
  }
  EXPECT_EQ(world.pod("good").nodeName, "n1");
  EXPECT_EQ(world.pod("high").nodeName, "n1");
  EXPECT_EQ(world.pod("huge").nodeName, "");
  EXPECT_EQ(scheduler.count("high evicted"), 1);
  EXPECT_EQ(scheduler.count("huge evicted"), 0);
  for (const auto* name : {"huge", "high", "good"}) EXPECT_EQ(scheduler.count(std::string(name) + " cleared"), 0);
  EXPECT_EQ(allocationsWritten(), 1u);
  for (const auto* name : {"huge", "high", "good"}) world.removePod(name);
}

TEST_F(ResourceClaimTest, W8_APodWithoutGateGetsTheCapacityThatWasFreedForIt) {
  world.addNode("n2");  // free, so that the scheduler immediately clears an allocation that it can't use
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.occupy("victim", "n1", "40");
  pod("urgent", {"a"}, "60", 100, false);
  settle();
  for (int i = 0; i < 10 && world.pod("urgent").nodeName.empty(); ++i) {
    (void)scheduler.round();
    settle();  // the scheduler tries again after a second: sooner than any back-off ends
    // A replacement of the victim takes its capacity, unless that is nominated.
    if (world.pod("urgent").nominatedNodeName.empty() && world.pod("urgent").nodeName.empty())
      world.occupy("victim-" + std::to_string(i), "n1", "40");
    world.clock.advance(milliseconds(50));
  }
  EXPECT_EQ(world.pod("urgent").nodeName, "n1");
  EXPECT_EQ(scheduler.count("urgent cleared"), 1);
  EXPECT_EQ(scheduler.count("urgent evicted"), 1);
  world.removePod("urgent");
}

TEST_F(ResourceClaimTest, AWholeNamespaceGoes) {
  world.addNamespace("team");
  cache::Claim claim;
  claim.metadata.name = "a";
  claim.metadata.namespace_ = "team";
  claim.spec.className = "share";
  claim.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  (void)World::must(world.client.create(claim));
  auto made = World::podOf("p", {"a"});
  made.metadata.namespace_ = "team";
  (void)World::must(world.client.create(made));
  settle();
  ASSERT_TRUE(world.client.get<core::ResourceClaim>({"team", "a"}).ok());
  (void)world.client.remove<core::Namespace>({"", "team"});
  driver->run();
  EXPECT_FALSE(world.client.get<core::ResourceClaim>({"team", "a"}).ok());
  EXPECT_FALSE(world.client.get<cache::Claim>({"team", "a"}).ok());
  EXPECT_FALSE(world.client.get<core::Namespace>({"", "team"}).ok());
  EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0);
}

TEST_F(ResourceClaimTest, W7_ResourceClaimConflict) {
  addForeignResourceClaim("a");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
}

TEST_F(ResourceClaimTest, W7_ResourceClaimConflictIsWhyAFirstConsumersClaimWaits) {
  addForeignResourceClaim("a");
  world.addClaim("a", "late", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_EQ(world.reason("a"), "ResourceClaimConflict") << world.message("a");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer") << world.message("a");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
}

TEST_F(ResourceClaimTest, W8_AClearedAllocationOfABoundClaimIsWrittenAgainWithBackoff) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  world.clearAllocation("a");
  settle();
  EXPECT_FALSE(world.resourceClaim("a")->allocation);
  driver->run();
  EXPECT_TRUE(world.resourceClaim("a")->allocation);
}

TEST_F(ResourceClaimTest, AResourceClaimWhoseNameIsTakenIsMadeOnceItIsFree) {
  addForeignResourceClaim("a");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  settle();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimReady");
}

TEST_F(ResourceClaimTest, AResourceClaimWhoseNameWasTakenIsNotHeldAgainstAClaimWithoutPods) {
  addForeignResourceClaim("a");
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  settle();
  EXPECT_NE(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
}

TEST_F(ResourceClaimTest, APodReportsThatItsClaimsResourceClaimIsStillUsedByOthers) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  runPod("p", {"a"});
  support::World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  world.addPod("q", {"a"});
  settle();
  EXPECT_EQ(countEvents("q Warning WaitingForClaim claim a: its ResourceClaim is being deleted"), 1);
  world.removePod("p");
  driver->run();
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("q");
}

}  // namespace
}  // namespace egpu::reconcile
