// ResourceClaims of other clients, mostly from templates: for each an ElasticGPUClaim is created, bound, represented by
// it, and deleted with it.
#include <memory>

#include "tests/reconcile/fixture.h"
#include "tests/support/changing_transport.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using std::chrono::seconds;
using support::World;

constexpr const char* kTenPercent = R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":10,)"
                                    R"("elasticgpu.io/gpu-memory":"2Gi"}}})";

class StockTest : public ReconcileTest {
 protected:
  static core::ResourceClaim stock(const std::string& name, const std::string& parameters = kTenPercent) {
    core::ResourceClaim rc;
    rc.metadata.name = name;
    rc.metadata.namespace_ = "default";
    rc.deviceClassName = "elasticgpu.io";
    rc.requestName = "accelerator";
    if (!parameters.empty()) rc.config.push_back({{}, "elasticgpu.io", parameters});
    return rc;
  }
  core::ResourceClaim add(const core::ResourceClaim& rc) { return World::must(world.client.create(rc)); }
  /// Stamps a ResourceClaim for an existing pod, as Kubernetes does; `countEvents`: the pod's status names it.
  core::ResourceClaim stamp(const std::string& pod, const std::string& name,
                            const std::string& parameters = kTenPercent) {
    auto rc = stock(pod + "-" + name + "-x7x7x", parameters);
    rc.metadata.ownerReferences.push_back({"v1", "Pod", pod, world.pod(pod).metadata.uid, true, false});
    rc.metadata.annotations["resource.kubernetes.io/pod-claim-name"] = name;
    return add(rc);
  }
  void addPodOfTemplates(const std::string& pod, const std::vector<std::string>& names, bool gate = true) {
    auto made = World::podOf(pod, {}, gate);
    for (const auto& name : names) {
      made.resourceClaims.push_back({name, "", "template"});
      made.containers[0].resourceClaims.push_back(name);
    }
    (void)World::must(world.client.create(made));
  }
  void reportToPod(const std::string& pod, const std::vector<std::string>& names) {
    std::string all;
    for (const auto& name : names)
      all += (all.empty() ? "" : ",") +
             (R"({"name":")" + name + R"(","resourceClaimName":")" + pod + "-" + name + R"(-x7x7x"})");
    world.json<core::Pod>({"default", pod}, R"({"status":{"resourceClaimStatuses":[)" + all + "]}}", "status");
  }
  bool hasClaim(const std::string& name) { return world.client.get<cache::Claim>({"default", name}).ok(); }
  std::size_t devices() {
    std::size_t count = 0;
    for (const auto& gpu : World::must(world.client.listAll<cache::Gpu>({}))) count += gpu.isDevice() ? 1 : 0;
    return count;
  }
  bool nothingIsLeft() {
    driver->run();
    return World::must(world.client.listAll<cache::Claim>({})).empty() &&
           World::must(world.client.listAll<core::ResourceClaim>({})).empty() && devices() == 0;
  }
};

TEST_F(StockTest, AStampedClaimOfARemoteGpuSuitsAnyNode) {
  world.remote.replySource({{}, {}, "10.0.0.1:7000"});
  world.registry.add(world.remote);
  world.addClass("pool", "Delete", "Immediate", {}, World::kRemotePlugin);
  const auto pool = R"({"egpuClassName":"pool","resources":{"requests":{"elasticgpu.io/gpu":1}}})";
  addPodOfTemplates("p", {"gpu"});
  stamp("p", "gpu", pool);
  reportToPod("p", {"gpu"});
  settle();
  const std::string name = "p-gpu-x7x7x";
  EXPECT_EQ(world.claim(name).status.phase, "Bound") << world.message(name);
  ASSERT_TRUE(world.resourceClaim(name)->allocation);
  EXPECT_EQ(world.resourceClaim(name)->allocation->pool, "remote");
  EXPECT_EQ(world.resourceClaim(name)->allocation->nodeName, "");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_FALSE(world.pod("p").requiredNodeAffinity);
  world.removePod("p");
  EXPECT_TRUE(nothingIsLeft());
  EXPECT_TRUE(world.remote.made().empty());
}

TEST_F(StockTest, AnyonesResourceClaimIsBoundAndCarriesItsClaim) {
  auto rc = stock("a");
  rc.metadata.labels["team"] = "blue";
  rc.metadata.annotations = {{"team.example.com/note", "g"}, {"resource.kubernetes.io/pod-claim-name", "gpu"}};
  const auto uid = add(rc).metadata.uid;
  settle();
  const auto claim = world.claim("a");
  EXPECT_EQ(claim.status.phase, "Bound");
  EXPECT_EQ(claim.spec.className, "share");
  EXPECT_EQ(claim.spec.requests.at("elasticgpu.io/gpu-core"), "10");
  EXPECT_EQ(claim.metadata.labels, (core::StringMap{{"team", "blue"}}));
  EXPECT_EQ(claim.metadata.annotations, (core::StringMap{{"team.example.com/note", "g"}}));
  ASSERT_EQ(claim.metadata.ownerReferences.size(), 1u);
  EXPECT_EQ(claim.metadata.ownerReferences[0].uid, uid);
  EXPECT_EQ(claim.metadata.ownerReferences[0].apiVersion, "resource.k8s.io/v1");
  const auto resourceClaim = world.resourceClaim("a");
  ASSERT_TRUE(resourceClaim && resourceClaim->allocation);
  EXPECT_EQ(resourceClaim->allocation->device, deviceOf("a"));
  EXPECT_EQ(resourceClaim->allocation->request, "accelerator");
  EXPECT_EQ(resourceClaim->metadata.finalizers, std::vector<std::string>{"elasticgpu.io/resource-claim"});
  EXPECT_TRUE(resourceClaim->metadata.ownerReferences.empty()) << "it stays its maker's";
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, C14_ThoseOfATemplateMayBeAGang) {
  const auto member = [&](const std::string& name) {
    auto rc = stock(name);
    rc.metadata.annotations = {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}};
    add(rc);
    settle();
  };
  member("a");
  EXPECT_EQ(world.reason("a"), "WaitingForGang");
  EXPECT_FALSE(world.resourceClaim("a")->allocation);
  member("b");
  for (const auto* name : {"a", "b"}) {
    EXPECT_EQ(world.claim(name).status.phase, "Bound") << world.message(name);
    EXPECT_TRUE(world.resourceClaim(name)->allocation) << name;
  }
}

TEST_F(StockTest, W0_ThoseOfPodsThatNameAGangAreOfIt) {
  constexpr const char* late = R"({"egpuClassName":"late","resources":{"requests":{"elasticgpu.io/gpu-core":10}}})";
  const auto member = [&](const std::string& pod, const char* parameters) {
    auto made = World::podOf(pod, {});
    made.metadata.annotations = {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}, {"note", "x"}};
    made.resourceClaims.push_back({"gpu", "", "template"});
    (void)World::must(world.client.create(made));
    (void)stamp(pod, "gpu", parameters);
    reportToPod(pod, {"gpu"});
    settle();
  };
  driver->pods.faults.delay = driver->pods.events();  // its pod is seen later than the stamped claim
  member("a", late);
  EXPECT_EQ(world.reason("a-gpu-x7x7x"), "WaitingForGang");
  EXPECT_EQ(world.claim("a-gpu-x7x7x").metadata.annotations,
            (core::StringMap{{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}}));
  EXPECT_FALSE(world.pod("a").schedulingGates.empty());
  member("b", kTenPercent);
  for (const auto* name : {"a", "b"}) {
    const auto claim = name + std::string("-gpu-x7x7x");
    EXPECT_EQ(world.claim(claim).status.phase, "Bound") << world.message(claim);
    EXPECT_TRUE(world.pod(name).schedulingGates.empty()) << name;
  }
}

TEST_F(StockTest, CapacityRequestsStateTheAmounts) {
  auto rc = stock("a", R"({"egpuClassName":"share"})");
  rc.request.capacity = {{"gpu_core", "10"}, {"elasticgpu.io/gpu_memory", "2147483648"}};
  add(rc);
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.capacity, (core::StringMap{{"core", "10%"}, {"memory", "2Gi"}}));
  auto byDefault = stock("b", "");
  byDefault.request.capacity = {{"gpu", "1"}};
  add(byDefault);
  settle();
  EXPECT_EQ(world.reason("b", "Accepted"), "ClassNotFound") << "there is no default class";
  world.setClass("keep", R"({"metadata":{"annotations":{"elasticgpu.io/is-default-class":"true"}}})");
  settle();
  EXPECT_EQ(world.claim("b").status.phase, "Bound");
  for (const auto* name : {"a", "b"}) World::mustOk(world.client.remove<core::ResourceClaim>({"default", name}));
}

TEST_F(StockTest, APodAndItsClaimsGoTogether) {
  addPodOfTemplates("p", {"gpu"});
  settle();
  EXPECT_FALSE(world.pod("p").schedulingGates.empty()) << "nothing is stamped yet";
  stamp("p", "gpu");
  reportToPod("p", {"gpu"});
  settle();
  const auto pod = world.pod("p");
  EXPECT_TRUE(pod.schedulingGates.empty());
  ASSERT_TRUE(pod.requiredNodeAffinity) << "pinned, as its claim is bound";
  world.removePod("p");
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, TheGateStaysUntilEachClaimIsStamped) {
  addPodOfTemplates("p", {"one", "two"});
  world.addClaim("named", "share", {{"gpu-core", "10"}});
  stamp("p", "one");
  reportToPod("p", {"one"});
  settle();
  EXPECT_EQ(world.claim("p-one-x7x7x").status.phase, "Pending") << "all claims of a pod go to one node";
  EXPECT_FALSE(world.pod("p").schedulingGates.empty());
  stamp("p", "two");
  reportToPod("p", {"one", "two"});
  settle();
  EXPECT_EQ(world.claim("p-one-x7x7x").status.phase, "Bound");
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.removePod("p");
  world.removeClaim("named");
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, DeletedInEveryOrder) {
  const std::string rc = "p-gpu-x7x7x";
  const auto removePod = [&] { world.removePod("p"); };
  const auto removeRc = [&] { (void)world.client.remove<core::ResourceClaim>({"default", rc}); };
  const auto removeClaim = [&] { (void)world.client.remove<cache::Claim>({"default", rc}); };
  const auto finish = [&] {
    world.finishPod("p");
    removeRc();  // as the controller manager does then
  };
  const std::vector<std::vector<std::function<void()>>> orders = {{removePod},
                                                                  {finish, removePod},
                                                                  {removeClaim, removePod},
                                                                  {removeRc, removePod},
                                                                  {removeClaim, removeRc, removePod},
                                                                  {removeRc, removeClaim, removePod}};
  for (std::size_t i = 0; i < orders.size(); ++i)
    for (const bool runs : {false, true})
      for (const bool settles : {false, true}) {
        SCOPED_TRACE(std::to_string(i) + (runs ? " running" : " waiting") + (settles ? "" : " at once"));
        addPodOfTemplates("p", {"gpu"});
        stamp("p", "gpu");
        reportToPod("p", {"gpu"});
        settle();
        if (runs) world.schedule("p");
        for (const auto& remove : orders[i]) {
          if (settles) driver->run();
          EXPECT_EQ(world.violation(), "");
          if (runs && settles && world.client.get<core::Pod>({"default", "p"}).ok() && !world.pod("p").finished()) {
            EXPECT_EQ(devices(), 1u) << "the pod runs";
          }
          remove();
        }
        EXPECT_TRUE(nothingIsLeft());
        EXPECT_EQ(driver->reconciler.remembered(), 0u);
      }
}

TEST_F(StockTest, AClaimThatAUserDeletesComesBack) {
  add(stock("a"));
  settle();
  const auto before = world.claim("a").metadata.uid;
  world.removeClaim("a");
  settle();
  EXPECT_NE(world.claim("a").metadata.uid, before);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(world.resourceClaim("a")->allocation) << "somebody may be about to reserve what was taken back";
  driver->run(seconds(5));
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  const auto used = deviceOf("a");
  world.removeClaim("a");
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, used) << "a pod runs with it";
  EXPECT_EQ(world.reason("a"), "InUse");
  world.removePod("p");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(deviceOf("a"), used);
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, AClaimThatIsTornOutIsNotReplacedWhileItsPodRuns) {
  add(stock("a"));
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  const auto device = deviceOf("a");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  world.removeClaim("a");
  driver->run();
  EXPECT_TRUE(world.exists(device)) << "the pod has it";
  EXPECT_FALSE(hasClaim("a"));
  EXPECT_EQ(devices(), 1u);
  world.removePod("p");
  driver->run();
  EXPECT_FALSE(world.exists(device));
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, AnAllocationOfNobodyIsTakenBack) {
  auto rc = add(stock("a", R"({"egpuClassName":"none","resources":{"requests":{"elasticgpu.io/gpu":1}}})"));
  world.json<core::ResourceClaim>(
      {"default", "a"},
      R"({"status":{"allocation":{"devices":{"results":[{"request":"accelerator","driver":"elasticgpu.io",)"
      R"("pool":"n1","device":"egpu-x"}]}}}})",
      "status");
  settle();
  EXPECT_FALSE(world.resourceClaim("a")->allocation);
  EXPECT_TRUE(hasClaim("a"));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, AnAllocationOfAnothersDeviceIsTakenBackOnceNoPodHasTheClaim) {
  add(stock("a"));
  world.addClaim("b", "share", {{"gpu-core", "10"}});
  world.addPod("p", {"a"});
  settle();
  const auto others = deviceOf("b");
  const auto overwrite = [&] {
    world.clearAllocation("a");
    world.json<core::ResourceClaim>(
        {"default", "a"},
        R"({"status":{"allocation":{"devices":{"results":[{"request":"accelerator","driver":"elasticgpu.io",)"
        R"("pool":"n1","device":")" +
            others + R"("}]}}}})",
        "status");
  };
  driver.reset();
  overwrite();
  start();
  driver->run();
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict") << "its pod still wants it";
  driver.reset();
  world.removePod("p");
  start();
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));

  // The claim is deleted as well: nothing is left that would clear the allocation.
  const auto before = world.claim("a").metadata.uid;
  driver.reset();
  overwrite();
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  world.removeClaim("a");
  start();
  driver->run();
  ASSERT_TRUE(hasClaim("a"));
  EXPECT_NE(world.claim("a").metadata.uid, before);
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  EXPECT_TRUE(world.exists(others));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  world.removeClaim("b");
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, OfAlternativesItGetsTheFirstThatFits) {
  world.addClaim("hog", "share", {{"gpu", "1"}});
  add(stock("either",
            R"({"egpuClassName":"share","firstAvailable":[{"name":"two","resources":{"requests":)"
            R"({"elasticgpu.io/gpu":2}}},{"name":"one","resources":{"requests":{"elasticgpu.io/gpu":1}}}]})"));
  settle();
  EXPECT_EQ(world.claim("either").status.phase, "Bound");
  EXPECT_EQ(world.claim("either").status.alternative, "one");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "either"}));
  driver->run();
}

TEST_F(StockTest, WhatCantBeServedIsReportedOnThePod) {
  struct ExternalClaimCase {
    const char* what;
    std::function<void(core::ResourceClaim&)> make;
    const char* message;
  };
  const std::vector<ExternalClaimCase> cases = {
      {"unknown field", [](auto& rc) { rc.config[0].parameters = R"({"egpuClass":"share"})"; },
       "spec.devices.config[0].opaque.parameters: egpuClass: the spec of an ElasticGPUClaim has no such field"},
      {"wrong type", [](auto& rc) { rc.config[0].parameters = R"({"egpuClassName":3})"; },
       "spec.devices.config[0].opaque.parameters: spec.egpuClassName: must be a string"},
      {"unknown field of an alternative",
       [](auto& rc) { rc.config[0].parameters = R"({"firstAvailable":[{"name":"a","model":"T4","resources":{}}]})"; },
       "spec.devices.config[0].opaque.parameters: firstAvailable[0].model: the spec of an ElasticGPUClaim has no such "
       "field"},
      {"unknown key",
       [](auto& rc) { rc.config[0].parameters = R"({"resources":{"requests":{"elasticgpu.io/gpus":1}}})"; },
       "as an ElasticGPUClaim: spec.resources.requests"},
      {"nothing wanted", [](auto& rc) { rc.config[0].parameters = R"({"egpuClassName":"share"})"; },
       "as an ElasticGPUClaim: spec.resources.requests: "},
      {"no parameters at all", [](auto& rc) { rc.config.clear(); }, "spec.devices.config: must say what is wanted"},
      {"twice", [](auto& rc) { rc.config.push_back(rc.config[0]); },
       "spec.devices.config[1].opaque.driver: elasticgpu.io is listed twice"},
      {"amounts twice",
       [](auto& rc) {
         rc.request.capacity = {{"gpu", "1"}};
       },
       "spec.devices.requests[0].exactly.capacity.requests: the parameters for elasticgpu.io"},
      {"several", [](auto& rc) { rc.request.count = 2; }, "spec.devices.requests[0].exactly.count: must be 1"},
      {"all", [](auto& rc) { rc.request.allocationMode = "All"; },
       "spec.devices.requests[0].exactly.allocationMode: must be ExactCount"},
      {"admin", [](auto& rc) { rc.request.adminAccess = true; },
       "spec.devices.requests[0].exactly.adminAccess: must be false"},
      {"selectors", [](auto& rc) { rc.request.selectors = R"([{"cel":{"expression":"true"}}])"; },
       "spec.devices.requests[0].exactly.selectors: must be empty"},
      {"another's class", [](auto& rc) { rc.deviceClassName = "gpu.example.com"; },
       "spec.devices.requests: must be one request, exactly of device class elasticgpu.io"},
  };
  int number = 0;
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    const auto name = "a" + std::to_string(++number);
    auto rc = stock(name);
    one.make(rc);
    add(rc);
    for (const bool gate : {true, false}) world.addPod((gate ? "g" : "p") + name, {name}, gate);
    settle();
    EXPECT_FALSE(hasClaim(name));
    for (const auto& pod : {"g" + name, "p" + name})
      EXPECT_EQ(countEvents(pod + " Warning WaitingForClaim claim " + name +
                            ": its ResourceClaim can't be served: " + one.message),
                1)
          << pod;
    EXPECT_FALSE(world.pod("g" + name).schedulingGates.empty());
    for (const auto& pod : {"g" + name, "p" + name}) world.removePod(pod);
    World::mustOk(world.client.remove<core::ResourceClaim>({"default", name}));
  }
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, AmountsThatNoCardHasAndAMissingClassAreReportedOnThePod) {
  add(stock("big", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu":9}}})"));
  add(stock("none", R"({"egpuClassName":"none","resources":{"requests":{"elasticgpu.io/gpu":1}}})"));
  world.addPod("p", {"big"}, false);
  world.addPod("q", {"none"});
  settle();
  EXPECT_EQ(countEvents("p Warning WaitingForClaim claim big: NoFit"), 1);
  EXPECT_EQ(countEvents("q Warning WaitingForClaim claim none: ClassNotFound"), 1);
  for (const auto* pod : {"p", "q"}) world.removePod(pod);
  for (const auto* name : {"big", "none"}) World::mustOk(world.client.remove<core::ResourceClaim>({"default", name}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, AHandMadeClaimOfTheSameNameIsNeverAdopted) {
  world.addClaim("a", "share", {{"gpu-core", "20"}});
  settle();
  add(stock("a"));
  world.addPod("p", {"a"});
  settle();
  EXPECT_TRUE(world.claim("a").metadata.ownerReferences.empty());
  EXPECT_EQ(world.reason("a", "ResourceClaimReady"), "ResourceClaimConflict");
  EXPECT_FALSE(world.resourceClaim("a")->allocation);
  EXPECT_EQ(
      countEvents("p Warning WaitingForClaim claim a: an ElasticGPUClaim of that name exists and was not made for"), 1);
  EXPECT_EQ(countEvents("a Warning NotServed an ElasticGPUClaim of that name exists"), 1);
  world.removeClaim("a");
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  EXPECT_EQ(world.claim("a").spec.requests.at("elasticgpu.io/gpu-core"), "10");
  world.removePod("p");
  world.addClaim("b", "share", {{"gpu-core", "20"}});
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  EXPECT_FALSE(hasClaim("a"));
  EXPECT_TRUE(hasClaim("b"));
  world.removeClaim("b");
}

TEST_F(StockTest, AForgedOwnerGainsNothing) {
  const auto rc = add(stock("a"));
  settle();
  cache::Claim forged;
  forged.metadata.name = "b";
  forged.metadata.namespace_ = "default";
  forged.metadata.ownerReferences = {{"resource.k8s.io/v1", "ResourceClaim", "a", rc.metadata.uid, true, false}};
  forged.spec.className = "share";
  forged.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  (void)World::must(world.client.create(forged));
  driver->run();
  EXPECT_FALSE(hasClaim("b")) << "there is no such ResourceClaim of its name";
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  // Owner removed from a running pod's claim: it becomes a claim like one created by hand, and the pod keeps its
  // device.
  world.addPod("p", {"a"});
  settle();
  world.schedule("p");
  const auto device = deviceOf("a");
  world.json<cache::Claim>({"default", "a"}, R"({"metadata":{"ownerReferences":null}})");
  driver->run();
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, device);
  world.removePod("p");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  driver->run();
  EXPECT_FALSE(world.resourceClaim("a")) << "nothing holds it up";
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removeClaim("a");
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, ItsClaimGoesWithAResourceClaimThatWentUnseen) {
  add(stock("a"));
  settle();
  driver.reset();  // no controller runs
  world.json<core::ResourceClaim>({"default", "a"}, R"({"metadata":{"finalizers":null}})");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  add(stock("a", R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":30}}})"));
  start();
  driver->run();
  EXPECT_EQ(world.claim("a").spec.requests.at("elasticgpu.io/gpu-core"), "30") << "of the new one, and not adopted";
  EXPECT_EQ(world.resourceClaim("a")->allocation->device, deviceOf("a"));
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(StockTest, W0_ARefusalIsReportedOnThePodAndTriedAgain) {
  support::RefusingTransport line(*world.transport);
  line.code = 403;
  line.refuses = [](const auto& request) {
    return request.method == kube::Method::post && request.target.find("elasticgpuclaims") != std::string::npos;
  };
  startOver(line);
  add(stock("a"));
  world.addPod("p", {"a"});
  driver->run(seconds(2));
  EXPECT_FALSE(hasClaim("a"));
  EXPECT_GE(countEvents("p Warning Refused the API server refuses it"), 1);
  line.refuses = [](const auto&) { return false; };
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  world.removePod("p");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
  TearDown();
  driver.reset();
}

TEST_F(StockTest, W8_OneThatTheApiServerLetsNobodyChangeIsServedWithoutAFinalizer) {
  support::RefusingTransport line(*world.transport);
  line.code = 422;  // Kubernetes' answer if the parameters were written with blanks between their tokens
  line.message = R"(ResourceClaim.resource.k8s.io \"a\" is invalid: spec: Invalid value: null: field is immutable)";
  line.refuses = [](const auto& request) {
    return request.method == kube::Method::patch && request.target.find("/resourceclaims/a") != std::string::npos &&
           request.target.find("/status") == std::string::npos;
  };
  startOver(line);
  add(stock("a"));
  world.addPod("p", {"a"});
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
  ASSERT_TRUE(world.resourceClaim("a") && world.resourceClaim("a")->allocation);
  EXPECT_TRUE(world.resourceClaim("a")->metadata.finalizers.empty());
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  const int asked = line.refused;
  world.addPod("q", {"a"});
  settle();
  EXPECT_TRUE(world.pod("q").schedulingGates.empty());
  EXPECT_EQ(line.refused, asked) << "it is known by now";
  for (const auto* pod : {"p", "q"}) world.removePod(pod);
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
  TearDown();
  driver.reset();
}

TEST_F(StockTest, WaitForFirstConsumerTakesAPodsNodeWithoutAGate) {
  world.addNode("n2", {{"zone", "b"}});
  world.addCard("n2", 0);
  add(stock("a", R"({"egpuClassName":"late","resources":{"requests":{"elasticgpu.io/gpu-core":10}}})"));
  settle();
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  world.addPod("p", {"a"}, false, {{"zone", "b"}});
  settle();
  ASSERT_TRUE(world.resourceClaim("a")->allocation);
  EXPECT_EQ(world.resourceClaim("a")->allocation->nodeName, "n2");
  world.schedule("p");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("p");
  World::mustOk(world.client.remove<core::ResourceClaim>({"default", "a"}));
  EXPECT_TRUE(nothingIsLeft());
}

class TemplateTest : public StockTest {
 protected:
  cache::ClaimTemplate add(const std::string& name, const std::string& core = "10") {
    cache::ClaimTemplate made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.labels = {{"team", "blue"}};
    made.spec.className = "share";
    made.spec.requests = {{"elasticgpu.io/gpu-core", core}};
    return World::must(world.client.create(made));
  }
  base::Result<core::ResourceClaimTemplate> made(const std::string& name) {
    return world.client.get<core::ResourceClaimTemplate>({"default", name});
  }
  core::Condition ready(const std::string& name) {
    const auto claims = World::must(world.client.get<cache::ClaimTemplate>({"default", name}));
    const auto* condition = findCondition(claims.conditions, kReady);
    return condition == nullptr ? core::Condition() : *condition;
  }
  template <class T>
  void remove(const std::string& name) {
    World::mustOk(world.client.remove<T>({"default", name}));
    driver->run();
  }
  /// Stamps from the template's current contents, as the controller manager does.
  void stampFrom(const std::string& source, const std::string& pod, const std::string& name) {
    auto rc = World::must(made(source)).claim;
    rc.metadata.name = pod + "-" + name + "-x7x7x";
    rc.metadata.namespace_ = "default";
    rc.metadata.labels = World::must(made(source)).labels;
    rc.metadata.annotations = World::must(made(source)).annotations;
    rc.metadata.ownerReferences.push_back({"v1", "Pod", pod, world.pod(pod).metadata.uid, true, false});
    (void)World::must(world.client.create(rc));
    reportToPod(pod, {name});
  }
};

TEST_F(TemplateTest, AResourceClaimTemplateIsMaintainedForEach) {
  const auto uid = add("template").metadata.uid;
  settle();
  EXPECT_EQ(ready("template").status, "True");
  const auto first = World::must(made("template"));
  EXPECT_EQ(first.metadata.ownerReferences.at(0).uid, uid);
  EXPECT_EQ(first.claim.deviceClassName, "elasticgpu.io");
  EXPECT_EQ(first.labels, (core::StringMap{{"team", "blue"}}));
  addPodOfTemplates("p", {"gpu"});
  stampFrom("template", "p", "gpu");
  settle();
  EXPECT_EQ(world.claim("p-gpu-x7x7x").status.phase, "Bound");
  EXPECT_EQ(world.claim("p-gpu-x7x7x").metadata.labels, (core::StringMap{{"team", "blue"}}));
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  remove<core::ResourceClaimTemplate>("template");
  EXPECT_NE(World::must(made("template")).metadata.uid, first.metadata.uid) << "made again";
  remove<cache::ClaimTemplate>("template");
  EXPECT_FALSE(made("template").ok());
  EXPECT_EQ(world.claim("p-gpu-x7x7x").status.phase, "Bound") << "what was made of it stays with its pod";
  world.removePod("p");
  EXPECT_TRUE(nothingIsLeft());
}

TEST_F(TemplateTest, ATemplateThatIsBeingDeletedReportsIt) {
  add("template");
  settle();
  world.json<cache::ClaimTemplate>({"default", "template"}, R"({"metadata":{"finalizers":["example.com/keeps"]}})");
  remove<cache::ClaimTemplate>("template");
  EXPECT_EQ(ready("template").status, "False");
  EXPECT_EQ(ready("template").reason, "Deleting");
  world.json<cache::ClaimTemplate>({"default", "template"}, R"({"metadata":{"finalizers":null}})");
  driver->run();
  EXPECT_FALSE(made("template").ok());
}

TEST_F(TemplateTest, APolicyOfTheTemplatesOwnIsItsClaims) {
  world.addClass("chosen", "Delete", "Immediate", {{"claimPolicies", "true"}});
  world.addClaim("beside", "share", {{"gpu-core", "10"}});
  cache::ClaimTemplate choosing;
  choosing.metadata.name = "choosing";
  choosing.metadata.namespace_ = "default";
  choosing.annotations = {{"elasticgpu.io/card-policy", "spread"}};
  choosing.spec.className = "chosen";
  choosing.spec.requests = {{"elasticgpu.io/gpu-core", "10"}};
  (void)World::must(world.client.create(choosing));
  settle();
  addPodOfTemplates("p", {"gpu"});
  stampFrom("choosing", "p", "gpu");
  settle();
  ASSERT_EQ(world.claim("p-gpu-x7x7x").status.phase, "Bound") << world.message("p-gpu-x7x7x");
  EXPECT_NE(world.gpu(deviceOf("p-gpu-x7x7x")).spec.cards.at(0).name,
            world.gpu(deviceOf("beside")).spec.cards.at(0).name)
      << "binpack would have put it there";
}

TEST_F(TemplateTest, SomebodyElsesIsLeftAloneAndThePodsHearOfIt) {
  core::ResourceClaimTemplate others;
  others.metadata.name = "template";
  others.metadata.namespace_ = "default";
  others.claim.deviceClassName = "gpu.example.com";
  others.claim.requestName = "gpu";
  const auto uid = World::must(world.client.create(others)).metadata.uid;
  add("template");
  addPodOfTemplates("p", {"gpu"});
  driver->run();
  EXPECT_EQ(ready("template").reason, "TemplateTaken");
  EXPECT_EQ(World::must(made("template")).metadata.uid, uid);
  EXPECT_EQ(
      countEvents("p Warning WaitingForClaim template template: TemplateTaken: a ResourceClaimTemplate of that name"),
      1);
  remove<core::ResourceClaimTemplate>("template");
  EXPECT_EQ(ready("template").status, "True");
  EXPECT_EQ(World::must(made("template")).claim.deviceClassName, "elasticgpu.io");
  world.removePod("p");
  remove<cache::ClaimTemplate>("template");
}

TEST_F(TemplateTest, AForgedOneIsMadeAnewAndATemplateMadeAnewIsAnother) {
  const auto uid = add("template").metadata.uid;
  settle();
  auto forged = World::must(made("template"));
  driver.reset();
  World::mustOk(world.client.remove<core::ResourceClaimTemplate>({"default", "template"}));
  forged.metadata.uid = forged.metadata.resourceVersion = "";
  forged.claim.config[0].parameters =
      R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":"90"}}})";
  (void)World::must(world.client.create(forged));
  start();
  driver->run();
  const auto now = World::must(made("template"));
  EXPECT_EQ(now.metadata.ownerReferences.at(0).uid, uid);
  EXPECT_EQ(now.claim.config.at(0).parameters.find("90"), std::string::npos) << now.claim.config.at(0).parameters;
  World::mustOk(world.client.remove<cache::ClaimTemplate>({"default", "template"}));
  const auto second = add("template", "20");
  driver->run();
  EXPECT_EQ(World::must(made("template")).metadata.ownerReferences.at(0).uid, second.metadata.uid);
  EXPECT_EQ(ready("template").status, "True");
  remove<cache::ClaimTemplate>("template");
  EXPECT_FALSE(made("template").ok());
}

TEST_F(TemplateTest, OneThatThePolicyOfTheServerChangesIsRecreatedEverMoreSeldomAndReported) {
  support::ChangingTransport line(*world.transport);
  startOver(line);
  line.onChange = [this] { driver->writes().inputsChanged(); };  // the admission policy also writes
  add("template");
  addPodOfTemplates("p", {"gpu"});
  driver->run(std::chrono::minutes(2));
  EXPECT_GT(line.changed, 2) << "it is tried again";
  EXPECT_LT(line.changed, 12);
  EXPECT_EQ(ready("template").reason, "TemplateChanged");
  EXPECT_EQ(countEvents("p Warning WaitingForClaim template template: TemplateChanged: its ResourceClaimTemplate"), 1);
  line.changes = false;
  driver->run(std::chrono::minutes(10));
  EXPECT_EQ(ready("template").status, "True");
  EXPECT_EQ(driver->reconciler.remembered(), 1u) << "what the pod was told";
  world.removePod("p");
  remove<cache::ClaimTemplate>("template");
  TearDown();
  driver.reset();
}

TEST_F(TemplateTest, AMissingTemplateIsReportedOnThePodBehindOurGateAlone) {
  addPodOfTemplates("p", {"gpu"});
  addPodOfTemplates("q", {"nic"}, false);
  settle();
  EXPECT_EQ(countEvents("p Warning WaitingForClaim template template: there is no ElasticGPUClaimTemplate"), 1);
  EXPECT_EQ(countEvents("q "), 0) << "it may be another driver's";
  add("template");
  settle();
  stampFrom("template", "p", "gpu");
  driver->run();
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  for (const auto* pod : {"p", "q"}) world.removePod(pod);
  remove<cache::ClaimTemplate>("template");
  EXPECT_TRUE(nothingIsLeft());
}

}  // namespace
}  // namespace egpu::reconcile
