// Amounts on pods: a ResourceClaimTemplate is created for them, kept while a pod names it, and deleted later. Invalid
// amounts are reported on the pod.
#include "api/v1alpha/pod_amounts.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/changing_transport.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using std::chrono::minutes;
using support::World;
using Template = core::ResourceClaimTemplate;

class AmountsTest : public ReconcileTest {
 protected:
  using Amounts = core::StringMap;
  /// Creates a pod as the admission policy changes it. Returns its template's name.
  std::string addPod(const std::string& name, const Amounts& amounts, bool gate = true) {
    auto pod = World::podOf(name, {}, gate);
    for (const auto& [what, value] : amounts) pod.metadata.annotations["egpu.elasticgpu.io/" + what] = value;
    const auto named = v1alpha::amountsTemplate(pod.metadata.annotations);
    pod.resourceClaims.push_back({"egpu", "", named});
    pod.containers[0].resourceClaims.push_back("egpu");
    (void)World::must(world.client.create(pod));
    return named;
  }
  base::Result<Template> made(const std::string& name) { return world.client.get<Template>({"default", name}); }
  /// Lets the time pass, even if no key is due.
  void pass(std::chrono::milliseconds time) {
    const auto end = world.clock.now() + time;
    driver->run(time);
    if (world.clock.now() < end)
      world.clock.advance(std::chrono::duration_cast<std::chrono::milliseconds>(end - world.clock.now()));
    driver->run(std::chrono::milliseconds(0));
  }
  std::size_t templates() { return World::must(world.client.listAll<Template>({})).size(); }
  /// Stamps from the template's current contents, as the controller manager does.
  void stamp(const std::string& source, const std::string& pod) {
    auto rc = World::must(made(source)).claim;
    rc.metadata.name = pod + "-egpu-x7x7x";
    rc.metadata.namespace_ = "default";
    rc.metadata.ownerReferences.push_back({"v1", "Pod", pod, world.pod(pod).metadata.uid, true, false});
    (void)World::must(world.client.create(rc));
    world.json<core::Pod>(
        {"default", pod},
        R"({"status":{"resourceClaimStatuses":[{"name":"egpu","resourceClaimName":")" + rc.metadata.name + R"("}]}})",
        "status");
  }
};

const core::StringMap kTenth = {{"class", "share"}, {"gpu-core", "10"}, {"gpu-memory", "2Gi"}};

TEST_F(AmountsTest, ATemplateIsMadeForAPodThatNamesItAndOneForAllThatNameTheSame) {
  const auto name = addPod("p", kTenth);
  EXPECT_EQ(name, "egpu-amounts.core-10.memory-2-gi.class-share");
  settle();
  const auto first = World::must(made(name));
  EXPECT_EQ(first.metadata.labels, (core::StringMap{{"elasticgpu.io/amounts", "true"}}));
  EXPECT_EQ(first.claim.deviceClassName, "elasticgpu.io");
  stamp(name, "p");
  settle();
  EXPECT_EQ(world.claim("p-egpu-x7x7x").status.phase, "Bound");
  EXPECT_EQ(world.claim("p-egpu-x7x7x").status.capacity, (core::StringMap{{"core", "10%"}, {"memory", "2Gi"}}));
  EXPECT_TRUE(world.pod("p").schedulingGates.empty());
  addPod("q", kTenth);
  const auto other = addPod("r", {{"class", "share"}, {"gpu-core", "10"}, {"gpu-memory", "2048Mi"}});
  settle();
  EXPECT_EQ(World::must(made(name)).metadata.uid, first.metadata.uid);
  EXPECT_TRUE(made(other).ok());
  EXPECT_EQ(templates(), 2u);
  EXPECT_EQ(countEvents("p ") + countEvents("q ") + countEvents("r "), 0);
  for (const auto* pod : {"p", "q", "r"}) world.removePod(pod);
}

TEST_F(AmountsTest, ItGoesWhenNoPodHasNamedItForTenMinutes) {
  const auto name = addPod("p", kTenth);
  settle();
  const auto first = World::must(made(name)).metadata.uid;
  world.removePod("p");
  pass(minutes(9));
  ASSERT_TRUE(made(name).ok());
  addPod("q", kTenth);  // the ten minutes start again
  pass(minutes(9));
  world.finishPod("q");
  pass(minutes(9));
  EXPECT_EQ(World::must(made(name)).metadata.uid, first);
  pass(minutes(2));
  EXPECT_FALSE(made(name).ok()) << "a finished pod needs none";
  EXPECT_EQ(driver->reconciler.remembered(), 0u);
  addPod("late", kTenth);
  settle();
  EXPECT_TRUE(made(name).ok()) << "made again for a pod that came later";
  for (const auto* pod : {"q", "late"}) world.removePod(pod);
}

TEST_F(AmountsTest, OneThatWentUnderAPodIsMadeAgainAndAnotherProcessTakesUnusedOnesAwayToo) {
  const auto name = addPod("p", kTenth);
  settle();
  World::mustOk(world.client.remove<Template>({"default", name}));
  settle();
  EXPECT_TRUE(made(name).ok());
  driver.reset();
  world.removePod("p");
  start();
  pass(minutes(9));
  EXPECT_TRUE(made(name).ok());
  pass(minutes(2));
  EXPECT_FALSE(made(name).ok());
}

TEST_F(AmountsTest, OneWithOtherContentIsRecreatedIfMarkedAndReportedOnThePodIfNot) {
  const auto name = addPod("p", kTenth);
  settle();
  auto forged = World::must(made(name));
  driver.reset();
  World::mustOk(world.client.remove<Template>({"default", name}));
  forged.metadata.uid = forged.metadata.resourceVersion = "";
  forged.claim.config[0].parameters =
      R"({"egpuClassName":"share","resources":{"requests":{"elasticgpu.io/gpu-core":"90"}}})";
  (void)World::must(world.client.create(forged));
  start();
  settle();
  const auto now = World::must(made(name));
  EXPECT_EQ(now.claim.config[0].parameters.find("90"), std::string::npos);
  driver.reset();
  World::mustOk(world.client.remove<Template>({"default", name}));
  forged.metadata.labels.clear();
  const auto others = World::must(world.client.create(forged)).metadata.uid;
  start();
  settle();
  EXPECT_EQ(World::must(made(name)).metadata.uid, others);
  EXPECT_EQ(
      countEvents("p Warning WaitingForClaim amounts: a ResourceClaimTemplate " + name + " exists and does not match"),
      1);
  world.removePod("p");
  pass(minutes(30));
  EXPECT_EQ(World::must(made(name)).metadata.uid, others) << "never taken away";
}

TEST_F(AmountsTest, SomebodysOwnWithTheSameContentServes) {
  Template own;
  own.metadata.name = "egpu-amounts.core-10.class-share";
  own.metadata.namespace_ = "default";
  own.claim.deviceClassName = "elasticgpu.io";
  own.claim.requestName = "gpu";
  own.claim.config.push_back(
      {{}, "elasticgpu.io", R"({"resources":{"requests":{"elasticgpu.io/gpu-core":"10"}},"egpuClassName":"share"})"});
  const auto uid = World::must(world.client.create(own)).metadata.uid;
  addPod("p", {{"class", "share"}, {"gpu-core", "10"}});
  settle();
  EXPECT_EQ(countEvents("p "), 0);
  world.removePod("p");
  pass(minutes(30));
  EXPECT_EQ(World::must(made(own.metadata.name)).metadata.uid, uid);
}

TEST_F(AmountsTest, AnElasticGPUClaimTemplateOfThatNameIsItsOwners) {
  cache::ClaimTemplate claims;
  claims.metadata.name = "egpu-amounts.core-10.class-share";
  claims.metadata.namespace_ = "default";
  claims.spec.className = "share";
  claims.spec.requests = {{"elasticgpu.io/gpu-core", "20"}};
  (void)World::must(world.client.create(claims));
  settle();
  addPod("p", {{"class", "share"}, {"gpu-core", "10"}});
  settle();
  const auto there = World::must(made(claims.metadata.name));
  EXPECT_NE(there.claim.config[0].parameters.find("20"), std::string::npos);
  world.removePod("p");
  pass(minutes(30));
  EXPECT_TRUE(made(claims.metadata.name).ok());
  World::mustOk(world.client.remove<cache::ClaimTemplate>({"default", claims.metadata.name}));
  driver->run();
  EXPECT_FALSE(made(claims.metadata.name).ok());
}

TEST_F(AmountsTest, ARefusalIsReportedOnThePodsThatWaitForItAndTriedAgain) {
  support::RefusingTransport line(*world.transport);
  line.refuses = [](const auto& request) {
    return request.method == kube::Method::post && request.target.find("resourceclaimtemplates") != std::string::npos;
  };
  startOver(line);
  const auto name = addPod("p", kTenth);
  addPod("other", {{"gpu-core", "ten"}});
  driver->run(std::chrono::seconds(2));
  EXPECT_FALSE(made(name).ok());
  EXPECT_GE(countEvents("p Warning Refused the API server refuses it"), 1);
  EXPECT_EQ(countEvents("other Warning Refused"), 0);
  line.refuses = [](const auto&) { return false; };
  driver->run();
  EXPECT_TRUE(made(name).ok());
  for (const auto* pod : {"p", "other"}) world.removePod(pod);
  TearDown();
  driver.reset();
}

TEST_F(AmountsTest, OneThatThePolicyOfTheServerChangesIsRecreatedEverMoreSeldomAndReportedOnThePods) {
  support::ChangingTransport line(*world.transport);
  startOver(line);
  line.onChange = [this] { driver->writes().inputsChanged(); };  // the admission policy also writes
  const auto name = addPod("p", kTenth);
  driver->run(minutes(2));
  EXPECT_TRUE(made(name).ok());
  EXPECT_GT(line.changed, 2) << "it is tried again";
  EXPECT_LT(line.changed, 12);
  EXPECT_GE(countEvents("p Warning Refused the API server refuses it: ResourceClaimTemplate " + name +
                        " differs from its name"),
            1);
  line.changes = false;
  driver->run(minutes(10));
  EXPECT_NE(World::must(made(name)).claim.config.at(0).parameters.find("10"), std::string::npos);
  world.removePod("p");
  pass(minutes(11));
  EXPECT_EQ(driver->reconciler.remembered(), 0u);
  TearDown();
  driver.reset();
}

TEST_F(AmountsTest, EveryMistakeIsReportedOnThePodByItsAnnotation) {
  const std::vector<std::pair<Amounts, std::string>> cases = {
      {{{"gpu-core", "ten"}}, "[egpu.elasticgpu.io/gpu-core]: must be a quantity greater than zero"},
      {{{"gpu-core", "10 %"}}, "[egpu.elasticgpu.io/gpu-core]: must be a quantity greater than zero"},
      {{{"gpu", "1.5"}}, "[egpu.elasticgpu.io/gpu]: gpu must be a whole number"},
      {{{"class", "share"}}, "[egpu.elasticgpu.io/gpu-core]: missing"},
      {{{"gpu", "1"}, {"cores", "1"}}, "[egpu.elasticgpu.io/cores]: unknown"},
      {{{"gpu", "1"}, {"class", "My Class"}}, "[egpu.elasticgpu.io/class]: \"My Class\" is not the name"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto pod = "p" + std::to_string(i);
    addPod(pod, cases[i].first);
    settle();
    EXPECT_EQ(countEvents(pod + " Warning WaitingForClaim amounts: metadata.annotations" + cases[i].second), 1) << i;
    EXPECT_FALSE(world.pod(pod).schedulingGates.empty());
    world.removePod(pod);
  }
  EXPECT_EQ(templates(), 0u);
}

TEST_F(AmountsTest, WhatOnlyTheClusterKnowsIsReportedWithTheAnnotationsToo) {
  struct TemplateAmountsCase {
    Amounts amounts;
    std::string reason;
  };
  const std::vector<TemplateAmountsCase> cases = {
      {{{"class", "none"}, {"gpu", "1"}}, "ClassNotFound"},
      {{{"class", "share"}, {"gpu", "9"}}, "NoFit"},
      {{{"class", "share"}, {"gpu-memory", "900Gi"}}, "NoFit"},
      {{{"class", "share"}, {"gpu-core", "150"}}, "NotRepresentable"},
      {{{"class", "share"}, {"gpu", "2"}, {"gpu-core", "150"}}, "NotRepresentable"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [amounts, reason] = cases[i];
    const auto pod = "p" + std::to_string(i);
    stamp(
        [&] {
          const auto name = addPod(pod, amounts);
          settle();
          return name;
        }(),
        pod);
    settle();
    const auto claim = pod + "-egpu-x7x7x";
    EXPECT_EQ(countEvents(pod + " Warning WaitingForClaim claim " + claim + ": " + reason), 1) << i;
    EXPECT_EQ(world.reason(claim, reason == "NoFit" ? "Bound" : "Accepted"), reason);
    std::string all;
    for (const auto& [what, value] : amounts)
      all += (all.empty() ? "" : ", ") + ("egpu.elasticgpu.io/" + what) + ": " + value;
    bool named = false;
    for (const auto& event : driver->events.lines())
      named = named || (event.rfind(pod + " ", 0) == 0 &&
                        event.find("metadata.annotations: {" + all + "}") != std::string::npos);
    EXPECT_TRUE(named) << all;
    world.removePod(pod);
    settle();
  }
}

}  // namespace
}  // namespace egpu::reconcile
