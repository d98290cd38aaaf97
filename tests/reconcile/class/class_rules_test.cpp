// A class's rules apply to every claim of it, in whatever way it gets a GPU: named cards, named devices, pre-bound
// devices. Also tests which claims may use a class, and on which nodes, before a pod is known.
#include <gtest/gtest.h>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

namespace reason = v1alpha::keys::reason;

class ClassRulesTest : public ReconcileTest {
 protected:
  void unhealthy(const std::string& card, const std::string& why, const std::string& message) {
    world.json<cache::Gpu>({"", card},
                           R"({"status":{"conditions":[{"type":"Healthy","status":"False","reason":")" + why +
                               R"(","message":")" + message + R"("}]}})",
                           "status");
  }
  void healthy(const std::string& card) {
    world.json<cache::Gpu>({"", card}, R"({"status":{"conditions":[{"type":"Healthy","status":"True"}]}})", "status");
  }
  /// Creates a device of half a card by hand.
  void device(const std::string& name, const std::string& card, const std::string& node, const std::string& cls,
              const std::string& more = "", const std::string& core = "500") {
    kube::HttpRequest request;
    request.method = kube::Method::post;
    request.target = "/apis/elasticgpu.io/v1alpha/elasticgpus";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPU","metadata":{"name":")" + name +
                   R"(","labels":{"elasticgpu.io/role":"device"}},"spec":{"gpuShare":{"gpuName":")" + card +
                   R"("},"nodeName":")" + node + R"(","provisioner":")" + support::World::kPlugin + "\"," +
                   (cls.empty() ? "" : R"("egpuClassName":")" + cls + "\",") + R"("cards":[{"name":")" + card +
                   R"(","core":)" + core + R"(,"memory":1073741824,"chargedCore":)" + core +
                   R"(,"chargedMemory":1073741824}])" + more + "}}";
    const auto answer = world.client.call(request);
    ASSERT_TRUE(answer.ok() && answer->status < 300) << (answer.ok() ? answer->body : answer.status().str());
  }
  /// Creates a claim of another namespace's user.
  void claimIn(const std::string& ns, const std::string& name, const std::string& cls, const std::string& gpu = {}) {
    cache::Claim claim;
    claim.metadata.name = name;
    claim.metadata.namespace_ = ns;
    claim.spec.className = cls;
    claim.spec.elasticGPUName = gpu;
    if (gpu.empty()) claim.spec.requests["elasticgpu.io/gpu-core"] = "10";
    world.must(world.client.create(claim));
  }
  std::string phaseIn(const std::string& ns, const std::string& name) {
    return world.must(world.client.get<cache::Claim>({ns, name})).status.phase;
  }
  /// Returns the cells that kubectl get prints for a claim.
  std::string row(const std::string& name) {
    kube::HttpRequest request;
    request.target = "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims/" + name;
    request.headers = {{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}};
    return world.must(world.client.call(request)).body;
  }
  std::string bound(const std::string& name) { return world.claim(name).status.elasticGPUName; }
};

TEST_F(ClassRulesTest, ACardByNameWithoutRequestsIsOfTheClassesModel) {
  world.addClass("a100", "Delete", "Immediate", {{"model", "A100"}});
  world.addClaim("one", "a100", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Pending");
  EXPECT_EQ(world.reason("one"), reason::kNoFit);
}

TEST_F(ClassRulesTest, ACardByNameWithoutRequestsIsLargeEnoughForTheClass) {
  world.addClass("big", "Delete", "Immediate", {{"minMemory", "64Gi"}});
  world.addClaim("one", "big", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.reason("one"), reason::kNoFit);
}

TEST_F(ClassRulesTest, ACardByNameWithoutRequestsCountsAmongTheNodesClaims) {
  world.addClass("few", "Delete", "Immediate", {{"maxClaimsPerNode", "1"}});
  world.addClaim("one", "few", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.claim("one").status.phase, "Bound");
  world.addClaim("two", "few", {}, "gpu-n1-1");
  settle();
  EXPECT_EQ(world.reason("two"), reason::kNoFit);
}

TEST_F(ClassRulesTest, ACardByNameWithoutRequestsIsTheWholeCard) {
  world.addClaim("one", "share", {}, "gpu-n1-1");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  EXPECT_EQ(world.claim("one").status.capacity.at("core"), "100%");
}

TEST_F(ClassRulesTest, AClassIsOnlyForTheNamespacesThatItAllows) {
  world.addClass("gold");
  world.setClass("gold", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  world.addClaim("one", "gold", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("one", "Accepted"), reason::kInvalidParameter);
  EXPECT_NE(world.message("one").find("tier=gold"), std::string::npos) << world.message("one");
  EXPECT_NE(world.message("one").find("classes that allow it: keep, late, share"), std::string::npos)
      << world.message("one");
  world.labelNamespace("default", R"({"tier":"gold"})");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ANamespaceThatIsNotSeenYetIsNotTakenForOneWithoutLabels) {
  world.setClass("share", R"({"allowedNamespaces":{"matchExpressions":[{"key":"tenant","operator":"DoesNotExist"}]}})");
  settle();
  driver->namespaces.faults.delay = driver->namespaces.events();
  driver->namespaces.faults.holdPolls = 5;
  for (const auto& [name, labels] :
       std::map<std::string, core::StringMap>{{"guest", {{"tenant", "yes"}}}, {"own", {}}}) {
    core::Namespace ns;
    ns.metadata.name = name;
    ns.metadata.labels = labels;
    world.must(world.client.create(ns));
    claimIn(name, "a", "share");
  }
  settle();
  EXPECT_EQ(phaseIn("guest", "a"), "Pending");
  driver->run();
  EXPECT_EQ(phaseIn("guest", "a"), "Pending");
  EXPECT_EQ(phaseIn("own", "a"), "Bound");
}

TEST_F(ClassRulesTest, WhatIsBoundStaysBoundWhenTheNamespaceIsNoLongerAllowed) {
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  world.setClass("share", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  world.addClaim("two", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  EXPECT_EQ(world.reason("two", "Accepted"), reason::kInvalidParameter);
  world.setClass("share", R"({"allowedNamespaces":null})");
  settle();
  EXPECT_EQ(world.claim("two").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ExpressionsSelectAsKubernetesDoes) {
  world.addClass("gold");
  struct ClassRow {
    std::string selector, labels;
    bool allowed;
  };
  const std::string in = R"([{"key":"t","operator":"In","values":["a","b"]}])";
  const std::string notIn = R"([{"key":"t","operator":"NotIn","values":["a"]}])";
  const std::string there = R"([{"key":"t","operator":"Exists"}])";
  const std::string notThere = R"([{"key":"t","operator":"DoesNotExist"}])";
  const std::vector<ClassRow> rows = {
      {in, R"({"t":"b"})", true},        {in, R"({"t":"c"})", false},     {in, R"({"t":null})", false},
      {notIn, R"({"t":"a"})", false},    {notIn, R"({"t":null})", true},  {notIn, R"({"t":"c"})", true},
      {there, R"({"t":""})", true},      {there, R"({"t":null})", false}, {notThere, R"({"t":null})", true},
      {notThere, R"({"t":"a"})", false},
  };
  int number = 0;
  for (const auto& row : rows) {
    world.setClass("gold", R"({"allowedNamespaces":{"matchExpressions":)" + row.selector + "}}");
    world.labelNamespace("default", row.labels);
    const auto name = "c" + std::to_string(number++);
    world.addClaim(name, "gold", {{"gpu-core", "1"}});
    settle();
    EXPECT_EQ(world.claim(name).status.phase == "Bound", row.allowed) << row.selector << " " << row.labels;
  }
}

TEST_F(ClassRulesTest, ANamespaceIsKnownByItsName) {
  world.addNamespace("team-a");
  world.addClass("gold");
  world.setClass("gold", R"({"allowedNamespaces":{"matchLabels":{"kubernetes.io/metadata.name":"team-a"}}})");
  claimIn("team-a", "one", "gold");
  claimIn("default", "two", "gold");
  settle();
  EXPECT_EQ(phaseIn("team-a", "one"), "Bound");
  EXPECT_EQ(phaseIn("default", "two"), "Pending");
}

TEST_F(ClassRulesTest, ACardByNameIsRefusedToANamespaceThatTheClassDoesNotAllow) {
  world.setClass("share", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  world.addClaim("one", "share", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.reason("one", "Accepted"), reason::kInvalidParameter);
}

TEST_F(ClassRulesTest, ADeviceByNameIsRefusedToANamespaceThatItsClassDoesNotAllow) {
  world.setClass("share", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  device("hand", "gpu-n1-0", "n1", "share");
  settle();
  world.addClaim("unsaid", "", {}, "hand");
  world.addClaim("said", "share", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("unsaid", "Accepted"), reason::kInvalidParameter);
  EXPECT_EQ(world.reason("said", "Accepted"), reason::kInvalidParameter);
  world.setClass("share", R"({"allowedNamespaces":{"matchLabels":null}})");
  settle();
  EXPECT_EQ((world.claim("unsaid").status.phase == "Bound") + (world.claim("said").status.phase == "Bound"), 1);
}

TEST_F(ClassRulesTest, AFirstConsumersClaimIsRefusedToANamespaceThatTheClassDoesNotAllow) {
  world.setClass("late", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  world.addClaim("one", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"one"});
  settle();
  EXPECT_EQ(world.reason("one", "Accepted"), reason::kInvalidParameter);
  EXPECT_FALSE(world.exists(deviceOf("one")));
  world.labelNamespace("default", R"({"tier":"gold"})");
  settle();
  EXPECT_TRUE(world.exists(deviceOf("one")));
}

TEST_F(ClassRulesTest, ADeviceByNameIsOfItsClassesModel) {
  world.addClass("a100", "Delete", "Immediate", {{"model", "A100"}});
  device("hand", "gpu-n1-0", "n1", "a100");
  settle();
  world.addClaim("one", "", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("one"), reason::kStaticNotAvailable);
  EXPECT_NE(world.message("one").find("model \"T4\""), std::string::npos) << world.message("one");
}

TEST_F(ClassRulesTest, ADeviceWhoseClassIsGoneIsNobodys) {
  world.addClass("gone");
  device("hand", "gpu-n1-0", "n1", "gone");
  settle();
  world.mustOk(world.client.remove<cache::Class>({"", "gone"}));
  world.addClaim("one", "", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("one", "Accepted"), reason::kClassNotFound);
  world.addClass("gone");
  settle();
  EXPECT_EQ(bound("one"), "hand");
}

TEST_F(ClassRulesTest, ARetainedDeviceGoesToNoClaimOfAnotherClass) {
  world.addClaim("one", "keep", {{"gpu-core", "10"}});
  settle();
  const auto released = deviceOf("one");
  world.removeClaim("one");
  settle();
  ASSERT_EQ(world.gpu(released).status.phase, "Released");
  world.json<cache::Gpu>({"", released}, R"({"spec":{"claimRef":null}})");
  settle();
  world.addClaim("other", "share", {}, released);
  world.addClaim("nameless", "keep", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("other"), reason::kStaticNotAvailable);
  EXPECT_NE(bound("nameless"), released);
  world.addClaim("same", "keep", {}, released);
  settle();
  EXPECT_EQ(bound("same"), released);
}

TEST_F(ClassRulesTest, AReservedDeviceGoesToItsClaimAlone) {
  device("hand", "gpu-n1-0", "n1", "share", R"(,"claimRef":{"namespace":"default","name":"mine"})");
  settle();
  EXPECT_EQ(world.gpu("hand").status.phase, "Available");
  world.addClaim("other", "share", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("other"), reason::kStaticNotAvailable);
  EXPECT_NE(world.message("other").find("reserved for claim default/mine"), std::string::npos);
  world.addClaim("mine", "share", {{"gpu-core", "10"}});  // does not name it
  settle();
  EXPECT_EQ(bound("mine"), "hand");
  EXPECT_EQ(world.gpu("hand").spec.claimRef->uid, world.claim("mine").metadata.uid);
}

TEST_F(ClassRulesTest, AReservedDeviceIsNotForANamesakeInAnotherNamespace) {
  world.addNamespace("team-a");
  device("hand", "gpu-n1-0", "n1", "share", R"(,"claimRef":{"namespace":"team-a","name":"mine"})");
  settle();
  world.addClaim("mine", "share", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("mine"), reason::kStaticNotAvailable);
}

TEST_F(ClassRulesTest, AClaimWaitsForTheDeviceThatIsReservedForIt) {
  world.addClaim("all", "share", {}, "gpu-n1-0");
  settle();
  device("hand", "gpu-n1-0", "n1", "share", R"(,"claimRef":{"namespace":"default","name":"mine"})");
  world.addClaim("mine", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("mine"), reason::kStaticNotAvailable);
  world.removeClaim("all");
  settle();
  EXPECT_EQ(bound("mine"), "hand");
}

TEST_F(ClassRulesTest, AReservedDeviceObeysItsClass) {
  world.setClass("share", R"({"allowedNamespaces":{"matchLabels":{"tier":"gold"}}})");
  device("hand", "gpu-n1-0", "n1", "share", R"(,"claimRef":{"namespace":"default","name":"mine"})");
  world.addClaim("mine", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("mine", "Accepted"), reason::kInvalidParameter);
}

TEST_F(ClassRulesTest, AReservedDeviceIsTriedAgainWhenItsNodesTaintGoes) {
  world.taint("n1", R"([{"key":"gpu","value":"yes","effect":"NoSchedule"}])");
  settle();
  device("hand", "gpu-n1-0", "n1", "share", R"(,"claimRef":{"namespace":"default","name":"mine"})");
  settle();
  world.addClaim("mine", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("mine"), "StaticNotAvailable") << world.message("mine");
  world.taint("n1", "null");
  settle();
  EXPECT_EQ(world.claim("mine").status.phase, "Bound") << world.message("mine");
}

TEST_F(ClassRulesTest, AReservedDeviceOfAFirstConsumersClassNeedsNoConsumer) {
  device("hand", "gpu-n1-0", "n1", "late", R"(,"claimRef":{"namespace":"default","name":"mine"})");
  settle();
  world.addClaim("mine", "late", {{"gpu-core", "10"}});
  world.addPod("p", {"mine"});
  settle();
  EXPECT_EQ(bound("mine"), "hand");
}

TEST_F(ClassRulesTest, AReleasedDeviceIsReservedInOneWrite) {
  world.addClaim("one", "keep", {{"gpu-core", "10"}});
  settle();
  const auto released = deviceOf("one");
  world.removeClaim("one");
  settle();
  world.json<cache::Gpu>({"", released}, R"({"spec":{"claimRef":{"name":"next","uid":null}}})");
  settle();
  EXPECT_EQ(world.gpu(released).status.phase, "Available");
  world.addClaim("thief", "keep", {}, released);
  world.addClaim("next", "keep", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("thief"), reason::kStaticNotAvailable);
  EXPECT_EQ(bound("next"), released);
}

TEST_F(ClassRulesTest, AHandMadeDeviceThatFoundNoCapacityIsTriedAgain) {
  world.addClaim("all", "share", {}, "gpu-n1-0");
  settle();
  device("hand", "gpu-n1-0", "n1", "share");
  settle();
  ASSERT_EQ(world.gpu("hand").status.phase, "Failed");
  EXPECT_EQ(world.gpu("hand").status.reason, reason::kNoFit);
  world.removeClaim("all");
  settle();
  EXPECT_EQ(world.gpu("hand").status.phase, "Available");
  EXPECT_EQ(world.gpu("hand").status.reason, "");
}

TEST_F(ClassRulesTest, AHandMadeDeviceOfACardToComeIsTriedAgain) {
  device("hand", "gpu-n1-7", "n1", "share");
  settle();
  ASSERT_EQ(world.gpu("hand").status.phase, "Failed");
  world.addCard("n1", 7);
  settle();
  EXPECT_EQ(world.gpu("hand").status.phase, "Available");
}

TEST_F(ClassRulesTest, ImmediateAvoidsTaintedNodes) {
  for (const std::string effect : {"NoSchedule", "NoExecute"}) {
    world.taint("n1", R"([{"key":"gpu","value":"yes","effect":")" + effect + R"("}])");
    settle();
    const auto name = effect == "NoSchedule" ? "c-s" : "c-e";
    world.addClaim(name, "share", {{"gpu-core", "10"}});
    settle();
    EXPECT_EQ(world.reason(name), reason::kNoFit);
    EXPECT_NE(world.message(name).find("class share does not tolerate: 1 with taint gpu=yes:" + effect + " (n1)"),
              std::string::npos)
        << world.message(name);
  }
  world.taint("n1", "[]");
  settle();
  EXPECT_EQ(world.claim("c-s").status.phase, "Bound");
  EXPECT_EQ(world.claim("c-e").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ImmediateTakesANodeWithATaintThatIsOnlyAPreference) {
  world.taint("n1", R"([{"key":"gpu","effect":"PreferNoSchedule"}])");
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ImmediateTakesTheNodeThatIsNotTainted) {
  world.addNode("n2");
  world.addCard("n2", 0);
  world.taint("n1", R"([{"key":"gpu","effect":"NoSchedule"}])");
  settle();
  for (int i = 0; i < 3; ++i) world.addClaim("c" + std::to_string(i), "share", {{"gpu-core", "10"}});
  settle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.claim("c" + std::to_string(i)).status.nodeName, "n2");
}

TEST_F(ClassRulesTest, AClassThatToleratesTheTaintTakesTheNode) {
  world.taint("n1", R"([{"key":"gpu","value":"yes","effect":"NoSchedule"}])");
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  ASSERT_EQ(world.claim("one").status.phase, "Pending");
  world.setClass("share", R"({"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]})");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ACardByNameOnATaintedNodeNeedsTheToleration) {
  world.taint("n1", R"([{"key":"gpu","effect":"NoSchedule"}])");
  world.addClaim("one", "share", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.reason("one"), reason::kNoFit);
  EXPECT_NE(world.message("one").find("does not tolerate"), std::string::npos) << world.message("one");
}

TEST_F(ClassRulesTest, ADeviceByNameOnATaintedNodeNeedsTheToleration) {
  device("hand", "gpu-n1-0", "n1", "share");
  world.taint("n1", R"([{"key":"gpu","effect":"NoSchedule"}])");
  world.addClaim("one", "", {}, "hand");
  settle();
  EXPECT_EQ(world.reason("one"), reason::kStaticNotAvailable);
  world.taint("n1", "[]");
  settle();
  EXPECT_EQ(bound("one"), "hand");
}

TEST_F(ClassRulesTest, WhatIsBoundStaysBoundWhenItsNodeIsTainted) {
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  world.taint("n1", R"([{"key":"gpu","effect":"NoExecute"}])");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

TEST_F(ClassRulesTest, AFirstConsumersTolerationsCountNotTheClasses) {
  world.taint("n1", R"([{"key":"gpu","effect":"NoSchedule"}])");
  world.addClaim("one", "late", {{"gpu-core", "10"}});
  auto pod = support::World::podOf("p", {"one"});
  pod.tolerations = {{"gpu", "Exists", "", ""}};
  world.must(world.client.create(pod));
  settle();
  EXPECT_TRUE(world.exists(deviceOf("one")));
}

TEST_F(ClassRulesTest, WhatBlocksAPodOfABoundClaimStandsInTheColumns) {
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  settle();
  world.addPod("p", {"one"}, true, {{"disk", "ssd"}});
  settle();
  ASSERT_EQ(world.reason("one", "ResourceClaimReady"), reason::kNodeUnsuitable);
  EXPECT_NE(row("one").find("NodeUnsuitable"), std::string::npos) << row("one");
  EXPECT_NE(row("one").find("pod p can't run on node n1"), std::string::npos) << row("one");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"disk":"ssd"}}})");
  settle();
  EXPECT_EQ(world.reason("one", "ResourceClaimReady"), "ResourceClaimReady");
  EXPECT_EQ(row("one").find("NodeUnsuitable"), std::string::npos) << row("one");
}

TEST_F(ClassRulesTest, NoFitNamesWhatReleasedDevicesHoldAndWhatFreesIt) {
  world.addClaim("one", "keep", {}, "gpu-n1-0");
  world.addClaim("two", "keep", {}, "gpu-n1-1");
  settle();
  const auto first = deviceOf("one");
  world.removeClaim("one");
  settle();
  world.addClaim("three", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("three"), reason::kNoFit);
  EXPECT_NE(world.message("three").find("1 Released device holds 100% and 16Gi"), std::string::npos)
      << world.message("three");
  EXPECT_NE(world.message("three").find("kubectl delete egpu " + first), std::string::npos) << world.message("three");
  world.mustOk(world.client.remove<cache::Gpu>({"", first}));
  settle();
  EXPECT_EQ(world.claim("three").status.phase, "Bound");
}

TEST_F(ClassRulesTest, OfManyReleasedDevicesNoFitNamesACommandThatFreesThemAll) {
  for (int i = 0; i < 5; ++i) world.addClaim("c" + std::to_string(i), "keep", {{"gpu-core", "40"}});
  settle();
  for (int i = 0; i < 5; ++i) world.removeClaim("c" + std::to_string(i));
  settle();
  world.addClaim("all", "share", {{"gpu", "2"}});
  settle();
  EXPECT_NE(world.message("all").find("4 Released devices hold"), std::string::npos) << world.message("all");
  EXPECT_NE(world.message("all").find("kubectl delete egpu --field-selector=status.phase=Released frees them"),
            std::string::npos)
      << world.message("all");
}

TEST_F(ClassRulesTest, NoFitNamesAvailableDevicesOnceTheirClaimRefIsCleared) {
  world.addClaim("one", "keep", {}, "gpu-n1-0");
  world.addClaim("two", "keep", {}, "gpu-n1-1");
  settle();
  const auto first = deviceOf("one");
  world.removeClaim("one");
  settle();
  world.addClaim("three", "keep", {{"gpu-core", "10"}});
  settle();
  ASSERT_NE(world.message("three").find("Released"), std::string::npos) << world.message("three");
  world.json<cache::Gpu>({"", first}, R"({"spec":{"claimRef":null}})");
  driver->run(std::chrono::seconds(20));
  EXPECT_EQ(world.message("three").find("Released"), std::string::npos) << world.message("three");
  EXPECT_NE(world.message("three").find("1 Available device holds 100% and 16Gi, for claims of the same class that "
                                        "name one in spec.elasticGPUName: " +
                                        first),
            std::string::npos)
      << world.message("three");
}

TEST_F(ClassRulesTest, ACardThatIsOfItsModelAgainWakesWhoNamesADeviceOnIt) {
  world.addClass("t4", "Retain", "Immediate", {{"model", "T4"}});
  world.addClaim("one", "t4", {{"gpu-core", "10"}});
  settle();
  const auto released = deviceOf("one");
  const auto card = world.gpu(released).spec.cards[0].name;
  world.removeClaim("one");
  settle();
  world.json<cache::Gpu>({"", released}, R"({"spec":{"claimRef":null}})");
  world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"model":"P4"}}})");
  settle();
  world.addClaim("same", "t4", {}, released);
  settle();
  ASSERT_EQ(world.reason("same"), reason::kStaticNotAvailable) << world.message("same");
  world.json<cache::Gpu>({"", card}, R"({"spec":{"card":{"model":"T4"}}})");
  settle();
  EXPECT_EQ(bound("same"), released) << world.message("same");
}

TEST_F(ClassRulesTest, NoFitReportsWhyACardIsNotOfferedAndIsReportedAnewWhenItRecovers) {
  unhealthy("gpu-n1-0", "Xid79", "GPU has fallen off the bus");
  unhealthy("gpu-n1-1", "Xid48", "double bit error");
  settle();
  world.addClaim("one", "share", {{"gpu-core", "10"}});
  world.addClaim("two", "share", {{"gpu", "2"}});
  settle();
  EXPECT_NE(world.message("one").find("gpu-n1-0 on node n1 (Xid79: GPU has fallen off the bus)"), std::string::npos)
      << world.message("one");
  healthy("gpu-n1-0");
  driver->run();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  EXPECT_EQ(world.message("two").find("Xid79"), std::string::npos) << world.message("two");
  EXPECT_NE(world.message("two").find("Xid48"), std::string::npos) << world.message("two");
}

TEST_F(ClassRulesTest, NoFitOfANamedCardReportsWhyItIsNotOffered) {
  unhealthy("gpu-n1-0", "Xid79", "GPU has fallen off the bus");
  world.addClaim("one", "share", {}, "gpu-n1-0");
  settle();
  EXPECT_EQ(world.message("one"), "card gpu-n1-0 is not available: Xid79: GPU has fallen off the bus");
  healthy("gpu-n1-0");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
}

TEST_F(ClassRulesTest, ABoundClaimReportsThatItsCardIsUnhealthy) {
  world.addClaim("one", "share", {}, "gpu-n1-0");
  world.addClaim("two", "share", {}, "gpu-n1-1");
  settle();
  unhealthy("gpu-n1-0", "Xid79", "GPU has fallen off the bus");
  settle();
  EXPECT_EQ(world.claim("one").status.phase, "Bound");
  EXPECT_EQ(world.reason("one", "Healthy"), reason::kUnhealthy);
  EXPECT_EQ(world.message("one", "Healthy"), "card gpu-n1-0 on node n1: Xid79: GPU has fallen off the bus");
  EXPECT_EQ(countEvents("one Warning Unhealthy"), 1);
  EXPECT_EQ(world.reason("two", "Healthy"), "");
  healthy("gpu-n1-0");
  settle();
  EXPECT_EQ(world.reason("one", "Healthy"), "Healthy");
}

TEST_F(ClassRulesTest, ACardsPhaseReportsWhetherItIsFullOrUnhealthy) {
  start(std::chrono::milliseconds(10));
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
  world.addClaim("one", "share", {}, "gpu-n1-0");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Full");
  unhealthy("gpu-n1-0", "Xid79", "GPU has fallen off the bus");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Unhealthy");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "Xid79");
  healthy("gpu-n1-0");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Full");
  EXPECT_EQ(world.gpu("gpu-n1-0").status.reason, "");
  world.removeClaim("one");
  driver->run();
  EXPECT_EQ(world.gpu("gpu-n1-0").status.phase, "Available");
}

}  // namespace
}  // namespace egpu::reconcile
