// Pods that share claims or have several: decisions that fail are rolled back, the claims end up on one node, and
// waiters are notified.
#include <functional>

#include "controller/reconcile/queue_key.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using support::World;

/// Nodes n1 and n2 with two cards each. Calls to the server can be delayed, refused or followed by an action.
class TogetherTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addNode("n2", {{"zone", "y"}});
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    line = std::make_unique<support::RefusingTransport>(*world.transport);
    line->code = 500;
    startOver(*line);
  }
  void TearDown() override {
    line->refuses = nullptr;
    ReconcileTest::TearDown();
    driver.reset();
  }
  void pod(const std::string& name, const std::vector<std::string>& claims,
           const std::function<void(core::Pod&)>& change = {}) {
    auto made = World::podOf(name, claims);
    if (change) change(made);
    (void)World::must(world.client.create(made));
  }
  void claim(const std::string& name, core::StringMap requests = {{"gpu", "1"}}) {
    world.addClaim(name, "late", std::move(requests));
  }
  /// The pod's volume is read after its claims were evaluated, so that the pod does not see changes in between.
  static void late(core::Pod& p) { p.volumes = {{"data", "disk", false}}; }
  static void prefersN2(core::Pod& p) { p.preferredNodeAffinity = {{100, {{{"zone", "In", {"y"}}}, {}}}}; }
  void whenVolumeIsRead(std::function<void()> then) {
    line->refuses = [this, then = std::move(then)](const kube::HttpRequest& request) {
      if (request.target.find("persistentvolumeclaims/disk") == std::string::npos || std::exchange(read, true))
        return false;
      then();
      return false;
    };
  }
  static std::string holderOf(const std::string& node, int card) { return "full-" + node + "-" + std::to_string(card); }
  void occupyCard(const std::string& node, int card) {
    world.addClaim(holderOf(node, card), "share", {{"gpu", "1"}}, "gpu-" + node + "-" + std::to_string(card));
  }
  void freeCard(const std::string& node, int card) { world.removeClaim(holderOf(node, card)); }
  void step(const std::string& podName) { (void)driver->reconciler.step(podKey({"default", podName})); }
  std::string nodeOf(const std::string& claim) {
    const auto name = deviceOf(claim);
    return world.exists(name) ? world.gpu(name).spec.nodeName : "";
  }
  bool gated(const std::string& name) { return !world.pod(name).schedulingGates.empty(); }
  int64_t used() { return driver->cluster.allocationMap().totals().usedCore; }
  static bool makesDevice(const kube::HttpRequest& request, const std::string& device = {}) {
    return request.method == kube::Method::post && request.target.find("/elasticgpus") != std::string::npos &&
           request.body.find(device) != std::string::npos;
  }
  std::unique_ptr<support::RefusingTransport> line;
  bool read = false;
};

TEST_F(TogetherTest, W1_APodThatIsLateRetainsNothingOfWhatItDecided) {
  claim("a");
  pod("p", {"a"});
  pod("q", {"a"}, [](auto& p) {
    late(p);
    prefersN2(p);
  });
  whenVolumeIsRead([this] { step("p"); });
  driver->poll();
  step("q");
  EXPECT_TRUE(read);
  settle();
  EXPECT_EQ(nodeOf("a"), "n1");
  EXPECT_EQ(used(), 1000) << "p's choice alone";
  EXPECT_FALSE(gated("p"));
  EXPECT_FALSE(gated("q"));
}

TEST_F(TogetherTest, W1_TheCapacityThatALatePodGivesBackIsNoticedByEvent) {
  claim("a");
  pod("p", {"a"});
  pod("q", {"a"}, [](auto& p) {
    late(p);
    prefersN2(p);
  });
  world.addClaim("x", "share", {{"gpu", "1"}}, "gpu-n1-1");
  driver->poll();
  (void)driver->reconciler.step(claimKey({"default", "x"}));
  world.addClaim("y", "share", {{"gpu", "1"}}, "gpu-n2-0");
  driver->poll();
  line->refuses = [this](const kube::HttpRequest& request) {
    if (request.target.find("persistentvolumeclaims/disk") != std::string::npos && !std::exchange(read, true))
      step("p");
    // q has decided for n2 and is about to write that.
    if (makesDevice(request, R"("nodeName":"n2")") && request.body.find(deviceOf("a")) != std::string::npos)
      for (const auto& key : {claimKey({"default", "y"}), explainKey(), claimKey({"default", "y"})})
        (void)driver->reconciler.step(key);
    return false;
  };
  step("q");
  EXPECT_EQ(world.reason("y"), "NoFit");
  settle();
  EXPECT_EQ(world.claim("y").status.phase, "Bound") << world.picture() << world.message("y");
  EXPECT_EQ(used(), 3000);
}

TEST_F(TogetherTest, W1_TheOtherClaimsOfALatePodFollowTheOneThatIsThere) {
  claim("a");
  claim("b");
  pod("p", {"a"});
  pod("q", {"a", "b"}, [](auto& p) {
    late(p);
    prefersN2(p);
  });
  whenVolumeIsRead([this] { step("p"); });
  driver->poll();
  step("q");
  EXPECT_FALSE(world.exists(deviceOf("b"))) << "not for a node where a is not";
  settle();
  EXPECT_EQ(nodeOf("a"), "n1");
  EXPECT_EQ(nodeOf("b"), "n1");
  EXPECT_FALSE(gated("q"));
  EXPECT_EQ(used(), 2000);
}

TEST_F(TogetherTest, W1_ADeviceOfThatNameThatIsAnothersIsReportedAndNotAskedForInALoop) {
  claim("a");
  cache::Gpu foreign;
  foreign.metadata.name = deviceOf("a");
  foreign.metadata.labels = {{std::string(v1alpha::keys::kRoleLabel), "device"}};
  foreign.spec.claimRef = v1alpha::ClaimRef{"default", "other", "other"};
  foreign.spec.nodeName = "n2";
  foreign.spec.cards = {{"gpu-n2-0", "GPU-n2-0", 100, 0, 100, 0}};
  foreign.spec.provisioner = World::kPlugin;
  foreign.spec.reclaimPolicy = "Retain";
  foreign.metadata.finalizers = {"example.com/hold"};
  (void)World::must(world.client.create(foreign));
  pod("p", {"a"});
  driver->limit = driver->steps + 200;
  ASSERT_NO_THROW(settle());
  EXPECT_NE(world.message("a").find("isn't this claim's"), std::string::npos) << world.message("a");
  EXPECT_EQ(used(), 100) << "the other device's";
  driver->limit = 20'000;
  world.json<cache::Gpu>({"", foreign.metadata.name}, R"({"metadata":{"finalizers":null}})");
  (void)world.client.remove<cache::Gpu>({"", foreign.metadata.name});
  driver->run(minutes(3));
  EXPECT_FALSE(gated("p"));
}

TEST_F(TogetherTest, W1_ADeviceOfThatNameThatGoesLetsItsClaimBind) {
  line->refuses = [](const kube::HttpRequest& request) { return makesDevice(request); };
  world.addClaim("a", "share", {{"gpu", "1"}});
  settle();
  cache::Gpu foreign;
  foreign.metadata.name = deviceOf("a");
  foreign.metadata.labels = {{std::string(v1alpha::keys::kRoleLabel), "device"}};
  foreign.spec.nodeName = "n2";
  foreign.spec.cards = {{"gpu-n2-0", "GPU-n2-0", 100, 0, 100, 0}};
  foreign.spec.claimRef = v1alpha::ClaimRef{"default", "other", "other"};
  foreign.spec.provisioner = World::kPlugin;
  foreign.spec.reclaimPolicy = "Retain";
  foreign.metadata.finalizers = {"example.com/hold"};
  (void)World::must(world.client.create(foreign));
  line->refuses = nullptr;
  driver->run(seconds(10));
  EXPECT_NE(world.message("a").find("isn't this claim's"), std::string::npos) << world.message("a");
  world.json<cache::Gpu>({"", foreign.metadata.name}, R"({"metadata":{"finalizers":null}})");
  (void)world.client.remove<cache::Gpu>({"", foreign.metadata.name});
  driver->run(minutes(1));
  EXPECT_EQ(world.claim("a").status.phase, "Bound") << world.message("a");
}

TEST_F(TogetherTest, ClaimsThatStandApartAreReportedWhileAnotherIsStillOpen) {
  world.addClaim("x", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  world.addClaim("y", "share", {{"gpu-core", "10"}}, "gpu-n2-0");
  claim("c", {{"gpu-core", "10"}});
  settle();
  pod("p", {"x", "y", "c"});
  settle();
  EXPECT_TRUE(gated("p"));
  EXPECT_EQ(nodeOf("c"), "");
  for (const auto* name : {"x", "y"})
    EXPECT_NE(world.message(name, "ResourceClaimReady").find("claim x is on node n1, claim y on node n2"),
              std::string::npos)
        << world.message(name, "ResourceClaimReady");
}

TEST_F(TogetherTest, TwoPodsThatChoseDifferentNodesForTheSameTwoClaimsMeet) {
  for (const bool both : {false, true}) {
    read = false;
    claim("a", {{"gpu-core", "30"}});
    claim("b", {{"gpu-core", "30"}});
    // p writes a on n1 and dies; q, which has not seen that, writes b on n2 and finds a taken.
    pod("p", {"a", "b"});
    pod("q", {"b", "a"}, [&](auto& p) {
      late(p);
      prefersN2(p);
    });
    bool refusing = false;
    line->refuses = [&](const kube::HttpRequest& request) {
      if (request.target.find("persistentvolumeclaims/disk") != std::string::npos && !std::exchange(read, true)) {
        refusing = true;
        step("p");
        refusing = false;
      }
      return refusing && makesDevice(request, deviceOf("b"));
    };
    driver->poll();
    step("q");
    EXPECT_EQ(nodeOf("a"), "n1");
    EXPECT_EQ(nodeOf("b"), "n2");
    if (both) {  // a third pod is placed where b is: then a moves there
      pod("r", {"b"});
      driver->poll();
    }
    driver->run();
    EXPECT_EQ(nodeOf("a"), both ? "n2" : "n1");
    EXPECT_EQ(nodeOf("b"), nodeOf("a"));
    EXPECT_FALSE(gated("p"));
    EXPECT_FALSE(gated("q"));
    EXPECT_EQ(used(), 600);
    for (const auto* name : {"p", "q", "r"}) world.removePod(name);
    for (const auto* name : {"a", "b"}) world.removeClaim(name);
    driver->run();
  }
}

TEST_F(TogetherTest, AClaimThatWasHeldForAnotherPodElsewhereMovesOnceThatPodIsGone) {
  world.addClaim("bound", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  claim("b");
  pod("r", {"b"}, [](auto& p) {
    prefersN2(p);
    p.schedulingGates.clear();  // the scheduler has not placed it yet
  });
  settle();
  ASSERT_EQ(nodeOf("b"), "n2");
  pod("p", {"bound", "b"});
  settle();
  EXPECT_TRUE(gated("p"));
  EXPECT_EQ(nodeOf("b"), "n2") << "r has it there";
  EXPECT_EQ(world.reason("b", "ResourceClaimReady"), "NodeUnsuitable");
  world.removePod("r");
  driver->run();
  EXPECT_EQ(nodeOf("b"), "n1");
  EXPECT_FALSE(gated("p"));
}

/// The pod's second intent is refused, and meanwhile its capacity is taken.
class PinnedTest : public TogetherTest {
 protected:
  void handOver(const std::function<void()>& meanwhile) {
    claim("a");
    claim("b");
    pod("p", {"a", "b"});
    driver->poll();
    line->refuses = [this](const kube::HttpRequest& request) { return makesDevice(request, deviceOf("b")); };
    step("p");
    line->refuses = nullptr;
    ASSERT_EQ(nodeOf("a"), "n1");
    ASSERT_EQ(nodeOf("b"), "");
    meanwhile();
    startOver(*line);
  }
};

TEST_F(PinnedTest, AnIdleIntentOfThePodGoesWhereAllOfItsClaimsFit) {
  handOver([this] { occupyCard("n1", 1); });
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(nodeOf("b"), "n2");
  EXPECT_FALSE(gated("p"));
  EXPECT_EQ(countEvents(
                "a Warning NodeUnsuitable node n1 is no longer used: it has no capacity for the other claims of pod p"),
            1);
}

TEST_F(PinnedTest, ItStaysWhereMovingWouldNotHelp) {
  occupyCard("n2", 0);
  handOver([this] { occupyCard("n1", 1); });
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n1");
  EXPECT_EQ(world.reason("b"), "NoFit");
  EXPECT_NE(world.message("b").find("claim a of pod p is on node n1"), std::string::npos) << world.message("b");
  EXPECT_EQ(countEvents("a Warning NodeUnsuitable"), 0);
  // It moves as soon as moving helps.
  freeCard("n2", 0);
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_FALSE(gated("p")) << world.picture() << world.message("a") << "\n" << world.message("b");
}

TEST_F(PinnedTest, ItStaysForAnotherPodThatIsServedThere) {
  handOver([this] {
    pod("q", {"a"});
    occupyCard("n1", 1);
  });
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n1");
  EXPECT_FALSE(gated("q"));
  EXPECT_TRUE(gated("p"));
  world.schedule("q");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  world.removePod("q");
}

TEST_F(PinnedTest, ItMovesFromANodeThatNoLongerSuitsThePod) {
  handOver([this] { world.json<core::Node>({"", "n1"}, R"({"spec":{"unschedulable":true}})"); });
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(nodeOf("b"), "n2");
  EXPECT_FALSE(gated("p"));
}

TEST_F(TogetherTest, C6_TheClaimIsBlamedThatFitsNowhere) {
  for (const bool first : {true, false}) {
    claim("small", {{"gpu-core", "10"}});
    claim("large", {{"gpu", "3"}});
    pod("p", first ? std::vector<std::string>{"large", "small"} : std::vector<std::string>{"small", "large"});
    settle();
    EXPECT_EQ(world.reason("large"), "NoFit");
    EXPECT_NE(world.message("large").find("pod p go to one node"), std::string::npos) << world.message("large");
    EXPECT_EQ(world.reason("small"), "WaitingForConsumer");
    EXPECT_EQ(world.message("small"), "waits for claim large of pod p: all claims of a pod go to one node");
    world.removePod("p");
    world.removeClaim("small");
    world.removeClaim("large");
    driver->run();
  }
}

TEST_F(TogetherTest, C6_AClaimThatCouldBeDecidedNamesTheClaimOfItsPodThatItWaitsFor) {
  world.addClaim("own", "share", {{"gpu", "3"}});  // Immediate: decided without its pod
  claim("a");
  pod("p", {"a", "own"});
  settle();
  EXPECT_EQ(world.reason("own"), "NoFit");
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  EXPECT_EQ(world.message("a"), "waits for claim own of pod p: all claims of a pod go to one node");
  const auto writes = this->writes();
  driver->run(minutes(1));
  EXPECT_EQ(this->writes(), writes) << "the steps of claim and pod agree";
}

TEST_F(TogetherTest, C6_AReasonThatIsOverIsReplaced) {
  claim("a", {{"gpu", "2"}});
  claim("b", {{"gpu-core", "50"}});
  pod("p", {"a", "b"});
  settle();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.reason(name), "NoFit") << world.message(name);
  for (const auto* node : {"n1", "n2"}) occupyCard(node, 0);
  driver->run(minutes(1));
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(world.message("a").find("4 cards: 2 in use"), std::string::npos) << world.message("a");
  EXPECT_EQ(world.message("b"), "waits for claim a of pod p: all claims of a pod go to one node");
}

TEST_F(TogetherTest, C6_AClaimOfAPodWhoseOtherClaimsAreApartReportsIt) {
  world.addClaim("x", "share", {{"gpu", "1"}}, "gpu-n1-0");
  world.addClaim("y", "share", {{"gpu", "1"}}, "gpu-n2-0");
  claim("a");
  settle();
  pod("p", {"a", "x", "y"});
  settle();
  EXPECT_EQ(world.message("a"), "pod p can't run: claim x is on node n1, claim y on node n2");
  claim("b");
  pod("q", {"b", "x"}, [](auto& made) {
    made.schedulingGates.clear();
    made.nodeName = "n2";
  });
  settle();
  EXPECT_EQ(world.message("b"), "pod q is on node n2, its claim x on node n1");
}

TEST_F(TogetherTest, C6_AClaimNamesTheClaimOrTemplateOfItsPodThatIsNotThere) {
  claim("a");
  pod("p", {"a", "missing"});
  claim("b");
  pod("q", {"b"}, [](auto& made) { made.resourceClaims.push_back({"other", "", "none"}); });
  settle();
  EXPECT_EQ(world.message("a"), "waits for claim missing of pod p: all claims of a pod go to one node");
  EXPECT_EQ(world.message("b"), "waits for template none of pod q: all claims of a pod go to one node");
  const auto writes = this->writes();
  driver->run(minutes(1));
  EXPECT_EQ(this->writes(), writes);
}

TEST_F(TogetherTest, C6_APodDoesNotReportWhatBlocksAnotherPodOfASharedClaim) {
  world.addClaim("x", "share", {{"gpu", "1"}}, "gpu-n1-0");
  world.addClaim("y", "share", {{"gpu", "1"}}, "gpu-n2-0");
  settle();
  pod("apart", {"x", "y"});
  settle();
  EXPECT_EQ(world.reason("x", "ResourceClaimReady"), "NodeUnsuitable");
  claim("a");
  pod("q", {"a", "x"}, [](auto& made) { made.nodeSelector = {{"zone", "y"}}; });
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_EQ(countEvents("q Warning WaitingForClaim claim a: NoFit"), 1);
  EXPECT_EQ(countEvents("q Warning WaitingForClaim claim x"), 0);
}

TEST_F(TogetherTest, C6_AClaimThatOtherPodsUseTooRetainsItsReason) {
  world.addClaim("own", "share", {{"gpu", "3"}});
  claim("a", {{"gpu", "3"}});
  pod("p", {"a"});
  settle();
  world.nextSecond();
  pod("q", {"a", "own"});
  driver->run(minutes(1));
  EXPECT_EQ(world.reason("a"), "NoFit") << world.message("a");
}

TEST_F(TogetherTest, C6_NoClaimIsBlamedWhereOnlyTogetherTheyDontFit) {
  occupyCard("n1", 0);
  occupyCard("n2", 0);
  settle();
  claim("a");
  claim("b");
  pod("p", {"a", "b"});
  settle();
  for (const auto* name : {"a", "b"}) {
    EXPECT_EQ(world.reason(name), "NoFit");
    EXPECT_NE(world.message(name).find(
                  "each of the claims a, b of pod p fits by itself, but no node has capacity for all of them"),
              std::string::npos)
        << world.message(name);
  }
  freeCard("n2", 0);
  driver->run();
  EXPECT_EQ(nodeOf("a"), "n2");
  EXPECT_EQ(nodeOf("b"), "n2");
}

TEST_F(TogetherTest, C6_OfTwoPodsThatWaitForAClaimTheOlderIsReported) {
  world.addClaim("b", "share", {{"gpu-core", "10"}}, "gpu-n1-0");
  world.addClaim("c", "share", {{"gpu-core", "10"}}, "gpu-n2-0");
  for (const auto* node : {"n1", "n2"}) occupyCard(node, 1);
  claim("a", {{"gpu-core", "100"}});
  settle();
  pod("q1", {"a", "b"});
  settle();
  world.clock.advance(std::chrono::seconds(1));  // creation times are whole seconds
  pod("q3", {"c", "a"});
  settle();
  const auto message = world.message("a");
  EXPECT_NE(message.find("claim b of pod q1"), std::string::npos) << message;
  const auto version = world.claim("a").metadata.resourceVersion;
  driver->run(std::chrono::minutes(2));
  EXPECT_EQ(world.message("a"), message);
  EXPECT_EQ(world.claim("a").metadata.resourceVersion, version);
}

TEST_F(TogetherTest, C6_WhateverACardGainsBringsBackWhoWaitsForIt) {
  world.addClass("a100", "Delete", "Immediate", {{"model", "A100"}});
  world.addClaim("rated", "share", {{"tflops", "20"}});
  world.addClaim("model", "a100", {{"gpu", "1"}});
  settle();
  EXPECT_EQ(world.reason("rated"), "NoFit");
  EXPECT_EQ(world.reason("model"), "NoFit");
  world.json<cache::Gpu>({"", "gpu-n1-0"}, R"({"spec":{"card":{"tflops":65}}})");
  settle();
  EXPECT_EQ(world.claim("rated").status.phase, "Bound") << world.message("rated");
  world.json<cache::Gpu>({"", "gpu-n1-1"}, R"({"spec":{"card":{"model":"A100"}}})");
  settle();
  EXPECT_EQ(world.claim("model").status.phase, "Bound") << world.message("model");
}

TEST_F(TogetherTest, C7_ANodeThatIsAnotherOneNowIsTriedAtOnceByThoseItWasRefusedTo) {
  world.json<core::Node>({"", "n2"}, R"({"spec":{"unschedulable":true}})");
  settle();
  world.plugin.answer({{plugin::ReplyCode::reschedule, "no slot"}, {}});
  world.addClaim("a", "share", {{"gpu-core", "10"}});
  settle();
  EXPECT_EQ(world.reason("a"), "NoFit");
  world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"driver":"new"}}})");
  settle();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
}

TEST_F(TogetherTest, C6_TheOldestThatWaitsIsTriedFirst) {
  for (const auto* mode : {"share", "late"}) {
    const std::string cls = mode;
    world.addClaim("full-1", "share", {{"gpu", "2"}});
    world.addClaim("full-2", "share", {{"gpu", "2"}});
    settle();
    for (const auto* name : {"m", "z", "a"}) {
      world.addClaim(name, cls, {{"gpu", "2"}});
      if (cls == "late") pod(name, {name});
      settle();
      world.clock.advance(seconds(2));
    }
    world.removeClaim("full-2");
    settle();
    const auto served = [&](const std::string& name) { return world.exists(deviceOf(name)); };
    EXPECT_TRUE(served("m")) << mode;
    EXPECT_FALSE(served("z") || served("a")) << mode;
    world.removeClaim("full-1");
    settle();
    EXPECT_TRUE(served("z")) << mode;
    EXPECT_FALSE(served("a")) << mode;
    for (const auto* name : {"m", "z", "a"}) {
      if (cls == "late") world.removePod(name);
      world.removeClaim(name);
    }
    driver->run();
  }
}

TEST_F(TogetherTest, C6_TheOldestPodThatIsShortOfCpuIsTriedFirst) {
  world.occupy("other-1", "n1", "60");
  world.occupy("other-2", "n2", "60");
  for (const auto* name : {"z", "a"}) {
    claim(name, {{"gpu-core", "10"}});
    pod(name, {name}, [](auto& p) { p.containers[0].requests = {{"cpu", "40"}}; });
    settle();
    world.clock.advance(seconds(2));
  }
  world.json<core::Pod>({"default", "other-2"}, R"({"status":{"phase":"Succeeded"}})", "status");
  settle();
  EXPECT_EQ(nodeOf("z"), "n2");
  EXPECT_EQ(nodeOf("a"), "");
}

TEST_F(TogetherTest, NothingIsRememberedOfWhatIsGone) {
  world.addClaim("full-1", "share", {{"gpu", "2"}});
  world.addClaim("full-2", "share", {{"gpu", "1"}});
  settle();
  for (int round = 0; round < 20; ++round) {
    const auto n = std::to_string(round);
    claim("small" + n, {{"gpu-core", "10"}});
    pod("p" + n, {"small" + n});
    claim("large" + n, {{"gpu", "2"}});
    pod("q" + n, {"large" + n}, [](auto& p) { p.containers[0].requests = {{"cpu", "100"}}; });
    pod("missing" + n, {"nowhere" + n});
    world.addClaim("waits" + n, "share", {{"gpu", "2"}});
    settle();
    ASSERT_TRUE(world.resourceClaim("small" + n));
    world.clearAllocation("small" + n);
    settle();
    EXPECT_GT(driver->reconciler.remembered(), 3u);
    EXPECT_GT(driver->reconciler.waitingForCapacity(), 1u);
    for (const auto* name : {"p", "q", "missing"}) world.removePod(name + n);
    for (const auto* name : {"small", "large", "waits"}) world.removeClaim(name + n);
    driver->run();
    ASSERT_EQ(driver->reconciler.remembered(), 0u) << "round " << round;
    ASSERT_EQ(driver->reconciler.waitingForCapacity(), 0u) << "round " << round;
  }
}

TEST_F(TogetherTest, ADecisionThatNobodyWritesIsDriftAfterAMinute) {
  // The outcome of a pod's write is unknown, and then the pod is deleted.
  line->code = 0;
  claim("a", {{"gpu", "2"}});
  pod("p", {"a"}, prefersN2);
  driver->poll();
  line->refuses = [](const kube::HttpRequest& request) {
    return request.target.find("/elasticgpus") != std::string::npos && request.method != kube::Method::patch;
  };
  step("p");
  EXPECT_EQ(used(), 2000);
  line->refuses = nullptr;
  world.removePod("p");
  driver->poll();  // so that it does not try again
  world.addClaim("w", "share", {{"gpu", "2"}});
  world.addClaim("y", "share", {{"gpu", "2"}});
  settle();
  EXPECT_EQ(used(), 4000);
  EXPECT_EQ(driver->reconciler.drift().count("assumedTooLong"), 0u);
  world.clock.advance(seconds(30));
  driver->run(seconds(20));
  EXPECT_EQ(driver->reconciler.drift().count("assumedTooLong"), 0u);
  driver->run(seconds(30));
  ASSERT_EQ(driver->reconciler.drift()["assumedTooLong"], 2) << "on each card";
  EXPECT_EQ(
      countEvents("gpu-n2-0 Warning LedgerDrift assumedTooLong: capacity decided for claim default/a was reserved"), 1);
  EXPECT_EQ(world.claim("w").status.phase, "Bound");
  EXPECT_EQ(world.claim("y").status.phase, "Bound");
  driver->run(minutes(5));
  EXPECT_EQ(driver->reconciler.drift()["assumedTooLong"], 2);
}

}  // namespace
}  // namespace egpu::reconcile
