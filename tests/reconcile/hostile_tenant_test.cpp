// A tenant with edit rights removes the objects between a running pod and its cards, in every order. The pod keeps the
// cards until it ends, then they are freed.
#include <array>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using support::World;

enum class Act { stripResourceClaim, disownResourceClaim, deleteResourceClaim, stripClaim, deleteClaim };
constexpr std::array kActs = {Act::stripResourceClaim, Act::disownResourceClaim, Act::deleteResourceClaim,
                              Act::stripClaim, Act::deleteClaim};

std::string textOf(const std::vector<Act>& acts) {
  static const std::map<Act, std::string> names = {{Act::stripResourceClaim, "strip resource claim"},
                                                   {Act::disownResourceClaim, "disown resource claim"},
                                                   {Act::deleteResourceClaim, "delete resource claim"},
                                                   {Act::stripClaim, "strip claim"},
                                                   {Act::deleteClaim, "delete claim"}};
  std::string text;
  for (const auto act : acts) text += (text.empty() ? "" : ", ") + names.at(act);
  return text;
}

/// Performs one act of a tenant on the claim "a" and its ResourceClaim; no effect if the object is gone.
void act(World& world, Act what) {
  const core::ObjectKey key{"default", "a"};
  switch (what) {
    case Act::stripResourceClaim:
      (void)world.client.patch<core::ResourceClaim>(key, kube::PatchType::merge, R"({"metadata":{"finalizers":null}})");
      break;
    case Act::disownResourceClaim:
      (void)world.client.patch<core::ResourceClaim>(key, kube::PatchType::merge,
                                                    R"({"metadata":{"ownerReferences":null}})");
      break;
    case Act::deleteResourceClaim:
      (void)world.client.remove<core::ResourceClaim>(key);
      break;
    case Act::stripClaim:
      (void)world.client.patch<cache::Claim>(key, kube::PatchType::merge, R"({"metadata":{"finalizers":null}})");
      break;
    case Act::deleteClaim:
      (void)world.client.remove<cache::Claim>(key);
      break;
  }
}

class TenantTest : public ReconcileTest {
 protected:
  enum class Pace { eachSeen, lastSeen, restarted };

  /// Claim "a" has both cards, pod "p" runs on them. Returns the device's name.
  std::string begin(const std::string& cls = "share") {
    world.addClaim("a", cls, {{"gpu", "2"}});
    world.addPod("p", {"a"});
    settle();
    world.schedule("p");
    driver->run();
    const auto device = deviceOf("a");
    EXPECT_EQ(world.gpu(device).status.phase, "Bound");
    return device;
  }
  void attack(const std::vector<Act>& acts, Pace pace) {
    for (const auto one : acts) {
      act(world, one);
      if (pace == Pace::lastSeen) continue;
      if (pace == Pace::restarted) start();
      driver->run();
    }
    driver->run();
  }
  /// Returns an error if any of the device's cards is allocated to another claim.
  std::string taken(const std::string& device) {
    if (!world.exists(device)) return "the device is gone";
    const auto gpu = world.gpu(device);
    for (const auto& share : gpu.spec.cards)
      if (world.gpu(share.name).spec.allocations.count(gpu.metadata.uid) == 0) return "an entry is gone";
    return {};
  }
  std::string holdsUntilThePodEnds(const std::vector<Act>& acts, Pace pace) {
    const auto device = begin();
    attack(acts, pace);
    if (auto why = taken(device); !why.empty()) return why;
    world.addClaim("rival", "share", {{"gpu", "1"}});
    driver->run();
    if (world.claim("rival").status.phase == "Bound") return "the rival got a card";
    attack(acts, pace);  // the tenant removes restored objects again
    if (auto why = taken(device); !why.empty()) return why + ", the second time";
    world.removePod("p");
    driver->run();
    if (world.exists(device)) return "not freed after the pod";
    if (world.claim("rival").status.phase != "Bound") return "the rival waits on";
    if (world.resourceClaim("a")) return "its ResourceClaim is left";
    if (driver->stores.devices.size() != 1) return "devices are left";
    return {};
  }
  void everyOrder(Pace pace) {
    auto acts = std::vector<Act>(kActs.begin(), kActs.end());
    do {
      EXPECT_EQ(holdsUntilThePodEnds(acts, pace), "") << textOf(acts);
      world.removeClaim("rival");
      driver->run();
      EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0) << textOf(acts);
      if (HasFailure()) break;
    } while (std::next_permutation(acts.begin(), acts.end()));
  }
  const core::Condition* held(const cache::Gpu& device) { return findCondition(device.status.conditions, kHeld); }
  /// Removes every object that leads to the device, while the pod runs.
  void tearOut() { attack({Act::stripResourceClaim, Act::deleteClaim, Act::stripClaim}, Pace::eachSeen); }
};

TEST_F(TenantTest, EveryOrderOfStrippingAndDeletingHoldsTheCards) { everyOrder(Pace::eachSeen); }
TEST_F(TenantTest, EveryOrderSeenOnlyAfterwardsHoldsTheCards) { everyOrder(Pace::lastSeen); }
TEST_F(TenantTest, EveryOrderWithAControllerThatStartsAnewHoldsTheCards) { everyOrder(Pace::restarted); }

TEST_F(TenantTest, WithoutARunningPodEveryOrderFreesTheCards) {
  auto acts = std::vector<Act>(kActs.begin(), kActs.end());
  int number = 0;
  do {
    const auto device = begin();
    switch (++number % 3) {
      case 0:
        world.finishPod("p");
        break;
      case 1:
        world.removePod("p");
        break;
      default:
        world.removePod("p");
        world.addPod("p", {"a"}, false);  // not placed yet
    }
    driver->run();
    attack(acts, number % 2 == 0 ? Pace::eachSeen : Pace::lastSeen);
    EXPECT_FALSE(world.exists(device)) << number << ": " << textOf(acts);
    EXPECT_EQ(driver->cluster.allocationMap().totals().usedCore, 0) << textOf(acts);
    world.removePod("p");
    driver->run();
    EXPECT_FALSE(world.resourceClaim("a")) << textOf(acts);
    if (HasFailure()) break;
  } while (std::next_permutation(acts.begin(), acts.end()));
}

TEST_F(TenantTest, AHeldDeviceReportsForWhomAndCounts) {
  const auto device = begin();
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 0);
  tearOut();
  const auto gpu = world.gpu(device);
  ASSERT_NE(held(gpu), nullptr);
  EXPECT_EQ(held(gpu)->status, "True");
  EXPECT_EQ(held(gpu)->reason, "ClaimGone");
  EXPECT_EQ(held(gpu)->message, "claim default/a is gone; retained, waits for pod p to end");
  EXPECT_EQ(gpu.status.phase, "Bound");
  EXPECT_EQ(gpu.status.reason, "InUse");
  EXPECT_EQ(countEvents(device + " Warning InUse claim default/a is gone"), 1);
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 1);
  const auto before = writes();
  start();
  driver->run();
  EXPECT_EQ(writes(), before);
  EXPECT_EQ(countEvents(device), 0) << "said already";
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 1) << "another controller counts it too";
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 0);
}

TEST_F(TenantTest, AResourceClaimTornOutUnderAClaimThatIsBeingDeletedIsReportedOnTheDevice) {
  const auto device = begin();
  attack({Act::deleteClaim, Act::stripResourceClaim}, Pace::eachSeen);
  EXPECT_FALSE(world.resourceClaim("a"));
  const auto gpu = world.gpu(device);
  ASSERT_NE(held(gpu), nullptr);
  EXPECT_EQ(held(gpu)->reason, "ResourceClaimDeleted");
  EXPECT_EQ(world.message("a"), "is being deleted; waits for pod p to end");
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 1);
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(TenantTest, ARetainedDeviceIsReleasedOnlyAfterThePodAndReportsItNoMore) {
  const auto device = begin("keep");
  tearOut();
  EXPECT_EQ(world.gpu(device).status.phase, "Bound");
  world.removePod("p");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Released");
  EXPECT_EQ(held(world.gpu(device)), nullptr);
  EXPECT_EQ(world.gpu(device).status.reason, "");
  EXPECT_EQ(driver->metrics.gauge("elasticgpu_devices_held"), 0);
}

TEST_F(TenantTest, APodThatIsBeingDeletedRunsUntilItsNodeReportsIt) {
  const auto device = begin();
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"finalizers":["example.com/slow"]}})");
  (void)world.client.remove<core::Pod>({"default", "p"}, R"({"gracePeriodSeconds":0})");
  tearOut();
  ASSERT_TRUE(world.pod("p").metadata.deleting());
  EXPECT_EQ(taken(device), "");
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"finalizers":null}})");
  world.unreserve("a", "p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(TenantTest, APodThatFinishesHoldsNoMore) {
  const auto device = begin();
  tearOut();
  EXPECT_EQ(taken(device), "");
  world.finishPod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  world.removePod("p");
}

TEST_F(TenantTest, APodThatNamesTheClaimByAnnotationOnlyHoldsToo) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  const auto device = deviceOf("a");
  auto pod = World::podOf("p", {}, false);
  pod.nodeName = "n1";
  pod.metadata.annotations = {{"egpuc.elasticgpu.io/main", "a"}};
  (void)World::must(world.client.create(pod));
  driver->run();
  tearOut();
  EXPECT_EQ(taken(device), "");
  world.json<core::Pod>({"default", "p"}, R"({"metadata":{"annotations":{"egpuc.elasticgpu.io/main":null}}})");
  driver->run();
  EXPECT_FALSE(world.exists(device)) << "it names the claim no more";
  world.removePod("p");
}

/// A tenant makes the claim's ResourceClaim look like one generated for the pod: only the pod's status names it.
TEST_F(TenantTest, APodWhoseTemplateStandsForTheClaimHoldsToo) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  const auto device = deviceOf("a");
  auto pod = World::podOf("p", {"template"}, false);
  pod.nodeName = "n1";
  (void)World::must(world.client.create(pod));
  world.json<core::Pod>({"default", "p"},
                        R"({"status":{"resourceClaimStatuses":[{"name":"template","resourceClaimName":"a"}]}})",
                        "status");
  driver->run();
  tearOut();
  EXPECT_EQ(taken(device), "");
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

/// An administrator removes the claimRef, as is right for a Released device. The pod still runs, so the claimRef is
/// restored.
TEST_F(TenantTest, AHeldDeviceWhoseClaimRefIsTakenOffStaysItsPods) {
  const auto device = begin("keep");
  tearOut();
  ASSERT_NE(held(world.gpu(device)), nullptr);
  const auto before = *world.gpu(device).spec.claimRef;
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  world.addClaim("rival", "keep", {}, device);
  driver->run();
  EXPECT_EQ(taken(device), "");
  EXPECT_EQ(world.gpu(device).status.phase, "Bound");
  EXPECT_EQ(world.gpu(device).spec.claimRef, before);
  EXPECT_EQ(world.claim("rival").status.phase, "Pending");
  world.removePod("p");
  driver->run();
  EXPECT_EQ(world.gpu(device).status.phase, "Released");
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  driver->run();
  EXPECT_EQ(world.claim("rival").status.phase, "Bound");
  world.removeClaim("rival");
  driver->run();
  world.mustOk(world.client.remove<cache::Gpu>({"", device}));
}

TEST_F(TenantTest, ADeviceOfNobodyWhoseClaimRefIsTakenOffIsReleased) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  settle();
  const auto device = deviceOf("a");
  driver.reset();
  act(world, Act::stripClaim);
  act(world, Act::deleteClaim);
  world.json<cache::Gpu>({"", device}, R"({"spec":{"claimRef":null}})");
  start();
  driver->run();
  EXPECT_FALSE(world.exists(device)) << "its class says Delete";
}

TEST_F(TenantTest, APodThatTheCacheHasNotSeenPlacedHolds) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  world.addPod("p", {"a"});
  settle();
  const auto device = deviceOf("a");
  driver->pods.faults.delay = driver->pods.events();
  world.schedule("p");
  for (const auto one : {Act::stripResourceClaim, Act::deleteResourceClaim, Act::stripClaim, Act::deleteClaim})
    act(world, one);
  settle();
  EXPECT_EQ(taken(device), "");
  driver->run();
  EXPECT_EQ(taken(device), "");
  driver->pods.faults.delay = -1;
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(TenantTest, APodThatEndsWhileTheCacheLagsHoldsNotForEver) {
  world.addClaim("a", "share", {{"gpu", "2"}});
  world.addPod("p", {"a"});
  settle();
  const auto device = deviceOf("a");
  driver->pods.faults.lose = driver->pods.events();  // the pod's placement event; then a relist
  world.schedule("p");
  for (const auto one : {Act::stripResourceClaim, Act::deleteResourceClaim, Act::stripClaim, Act::deleteClaim})
    act(world, one);
  while (driver->stepOnce()) {
  }
  (void)driver->poll();
  while (driver->stepOnce()) {
  }
  EXPECT_EQ(taken(device), "");
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
}

TEST_F(TenantTest, AnotherClaimOfTheSameNameGetsOtherCards) {
  world.addClaim("a", "share", {{"gpu", "1"}});
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  driver->run();
  const auto old = deviceOf("a");
  tearOut();
  attack({Act::stripResourceClaim}, Pace::eachSeen);
  ASSERT_FALSE(world.resourceClaim("a"));
  ASSERT_EQ(taken(old), "");
  world.addClaim("a", "share", {{"gpu", "1"}});
  world.addPod("q", {"a"});
  driver->run();
  const auto young = deviceOf("a");
  EXPECT_NE(young, old);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(world.gpu(young).spec.cards[0].name, world.gpu(old).spec.cards[0].name);
  world.schedule("q");
  driver->run();
  EXPECT_EQ(taken(old), "");
  start();
  driver->run();
  // The controller manager may reserve the new ResourceClaim for the old pod: that does not affect its device.
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(old)) << "q came later: it uses the other one";
  EXPECT_EQ(taken(young), "");
  world.removePod("q");
}

TEST_F(TenantTest, AReservedResourceClaimWithoutAnyMarkHoldsAndIsGoneAfterwards) {
  const auto device = begin();
  for (const auto one : {Act::stripResourceClaim, Act::disownResourceClaim, Act::stripClaim, Act::deleteClaim})
    act(world, one);
  (void)world.client.remove<core::Pod>({"default", "p"}, R"({"gracePeriodSeconds":0})");  // its reservation remains
  driver->run();
  EXPECT_EQ(taken(device), "");
  ASSERT_TRUE(world.resourceClaim("a"));
  EXPECT_TRUE(world.resourceClaim("a")->metadata.deleting()) << "no new reservations";
  EXPECT_EQ(held(world.gpu(device))->message,
            "claim default/a is gone; retained, waits for its ResourceClaim to be no longer reserved");
  world.unreserve("a", "p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_FALSE(world.resourceClaim("a"));
}

TEST_F(TenantTest, MarksTakenOffUnderALiveClaimArePutBack) {
  const auto device = begin();
  attack({Act::stripResourceClaim, Act::disownResourceClaim}, Pace::eachSeen);
  ASSERT_TRUE(world.resourceClaim("a"));
  EXPECT_TRUE(ResourceClaimBridge::ownedBy(*world.resourceClaim("a"), world.claim("a").metadata.uid));
  EXPECT_EQ(world.resourceClaim("a")->reservedFor.size(), 1u);
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "");
  EXPECT_EQ(taken(device), "");
  world.removePod("p");
}

TEST_F(TenantTest, AnIntentThatAPodHasReservedStaysWhereMarksAreTakenOff) {
  world.plugin.answer({{plugin::ReplyCode::inProgress, ""}}, true);
  world.addClaim("a", "late", {{"gpu", "2"}});
  runPod("p", {"a"});
  const auto device = deviceOf("a");
  attack({Act::stripResourceClaim, Act::disownResourceClaim}, Pace::eachSeen);
  EXPECT_EQ(taken(device), "");
  world.plugin.answer({});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(deviceOf("a"), device);
  world.removePod("p");
}

TEST_F(TenantTest, CascadeOrphanLeavesNothing) {
  const auto device = begin();
  World::mustOk(world.client.remove<cache::Claim>({"default", "a"}, R"({"propagationPolicy":"Orphan"})"));
  driver->run();
  EXPECT_EQ(taken(device), "");
  ASSERT_TRUE(world.resourceClaim("a"));
  EXPECT_TRUE(world.resourceClaim("a")->metadata.deleting());
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_FALSE(world.resourceClaim("a"));
  world.addClaim("a", "share", {{"gpu", "2"}});
  world.addPod("q", {"a"});
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("q");
}

TEST_F(TenantTest, AResourceClaimLeftByAnEarlierControllerIsRemoved) {
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  auto left = *world.resourceClaim("a");
  world.removePod("p");
  world.removeClaim("a");
  driver->run();
  ASSERT_FALSE(world.resourceClaim("a"));
  // Without owner, with the project's finalizer, allocated to a device that no longer exists.
  const auto allocation = *left.allocation;
  left.metadata = {};
  left.metadata.name = "a";
  left.metadata.namespace_ = "default";
  left.metadata.finalizers = {"elasticgpu.io/resource-claim"};
  const auto made = World::must(world.client.create(left));
  (void)World::must(world.client.patch<core::ResourceClaim>(
      {"default", "a"}, kube::PatchType::merge,
      codec::patch::allocation(made.metadata.uid, made.metadata.resourceVersion, allocation), "status"));
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  world.addPod("q", {"a"});
  driver->run();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "");
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  world.removePod("q");
}

TEST_F(TenantTest, AForeignReservedResourceClaimHoldsNoIntent) {
  world.addClaim("a", "late", {{"gpu", "2"}});
  world.addPod("p", {"a"});
  settle();
  const auto device = deviceOf("a");
  ASSERT_TRUE(world.exists(device));
  // The project's ResourceClaim is deleted, and another client takes its name before it is recreated.
  for (const auto one : {Act::stripResourceClaim, Act::deleteResourceClaim}) act(world, one);
  core::ResourceClaim foreign;
  foreign.metadata.name = "a";
  foreign.metadata.namespace_ = "default";
  foreign.deviceClassName = "other";
  foreign.requestName = "x";
  auto made = World::must(world.client.create(foreign));
  world.json<core::ResourceClaim>(
      {"default", "a"},
      R"({"status":{"allocation":{"devices":{"results":[{"request":"x","driver":"other.example","pool":"n1",)"
      R"("device":"d0"}]}},"reservedFor":[{"resource":"pods","name":"z","uid":"u-z"}]}})",
      "status");
  driver->run();
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device)) << "its consumer left; whom the foreign one is reserved for is nothing to it";
  EXPECT_EQ(world.resourceClaim("a")->deviceClassName, "other");
}

TEST_F(TenantTest, AReleasedDeviceThatLostItsEntryGetsItBack) {
  world.addClaim("a", "keep", {{"gpu-core", "10"}});
  settle();
  const auto device = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  ASSERT_EQ(world.gpu(device).status.phase, "Released");
  const auto card = world.gpu(device).spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":null}})");
  driver->run();
  EXPECT_EQ(taken(device), "");
  EXPECT_EQ(driver->cluster.allocationMap().quarantineReason(card), "");
}

TEST_F(TenantTest, ADeviceWhoseClaimWaitsForItsPodsGetsALostEntryBack) {
  const auto device = begin();
  world.removeClaim("a");
  driver->run();
  const auto card = world.gpu(device).spec.cards[0].name;
  world.json<cache::Gpu>({"", card}, R"({"spec":{"allocations":null}})");
  driver->run();
  EXPECT_EQ(taken(device), "");
  world.removePod("p");
}

/// The scheduler reserves before it binds: a reserved pod counts as much as a running one.
TEST_F(TenantTest, APodThatIsReservedAndNotPlacedYetHoldsToo) {
  const auto device = begin();
  world.addPod("q", {"a"});
  settle();
  auto resourceClaim = *world.resourceClaim("a");
  resourceClaim.reservedFor.push_back({"pods", "q", world.pod("q").metadata.uid});
  world.reserve(resourceClaim);
  act(world, Act::stripClaim);
  act(world, Act::deleteClaim);
  settle();
  kube::HttpRequest bind;
  bind.method = kube::Method::post;
  bind.target = "/api/v1/namespaces/default/pods/q/binding";
  bind.headers = {{"Content-Type", "application/json"}};
  bind.body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}})";
  world.must(world.client.call(bind));
  driver->run();
  act(world, Act::stripResourceClaim);
  driver->run();
  world.removePod("p");
  driver->run();
  ASSERT_EQ(world.pod("q").nodeName, "n1");
  EXPECT_TRUE(world.exists(device));
  world.addClaim("rival", "share", {{"gpu", "2"}});
  driver->run();
  EXPECT_EQ(world.claim("rival").status.phase, "Pending");
  world.removePod("q");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_EQ(world.claim("rival").status.phase, "Bound");
}

}  // namespace
}  // namespace egpu::reconcile
