// A claim that an annotation asks to move to another device: it moves once no pod uses it.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/reconcile/device/users.h"
#include "controller/reconcile/queue_key.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using support::World;

class MovedTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.addClass("fluid", "Delete", "Immediate", {{"movable", "true"}});
    world.addClass("fluid-late", "Delete", "WaitForFirstConsumer", {{"movable", "true"}});
    world.addClass("fluid-keep", "Retain", "Immediate", {{"movable", "true"}});
    settle();
  }
  void bound(const std::string& name, const std::string& cls = "fluid") {
    world.addClaim(name, cls, {{"gpu", "1"}});
    settle();
  }
  std::string uidOf(const std::string& claim) { return world.gpu(deviceOf(claim)).metadata.uid; }
  std::string cardOf(const std::string& claim) { return world.gpu(deviceOf(claim)).spec.cards.front().name; }
  std::string mark(const std::string& claim) { return world.gpu(deviceOf(claim)).status.reason; }
  void ask(const std::string& claim, const std::string& device) {
    world.json<cache::Claim>({"default", claim}, R"({"metadata":{"annotations":{"elasticgpu.io/move":)" +
                                                     (device.empty() ? std::string("null") : '"' + device + '"') +
                                                     "}}}");
    settle();
  }
  void pod(const std::string& name, const std::string& of) {
    world.addPod(name, {of});
    settle();
  }
  /// Creates a claim for a whole card with a priority above all others.
  void high(const std::string& name) {
    core::PriorityClass priority;
    priority.metadata.name = "high";
    priority.value = 1000;
    (void)World::must(world.client.create(priority));
    cache::Claim claim;
    claim.metadata.name = name;
    claim.metadata.namespace_ = "default";
    claim.spec.className = "share";
    claim.spec.priorityClassName = "high";
    claim.spec.requests["elasticgpu.io/gpu"] = "1";
    (void)World::must(world.client.create(claim));
  }
  void runs(const std::string& name, const std::string& of) {
    pod(name, of);
    world.schedule(name);
    settle();
  }
  bool isGated(const std::string& name) { return reconcile::gated(*world.client.get<core::Pod>({"default", name})); }
  void ends(const std::string& name, const std::string& claim) {
    world.removePod(name);
    world.unreserve(claim, name);
    settle();
  }
  /// Deletes the pod, which stays Terminating because of a finalizer.
  void evicted(const std::string& name) {
    world.json<core::Pod>({"default", name}, R"({"metadata":{"finalizers":["example.com/ends"]}})");
    World::mustOk(world.client.remove<core::Pod>({"default", name}));
    ASSERT_TRUE(world.pod(name).metadata.deleting());
    settle();
  }
  /// Lets a gate be removed by a request (W9) that the server processes only after the claim's ResourceClaim is
  /// deleted.
  void letGoLate(const std::string& name, const std::string& of) {
    startOver(line);
    line.code = 0;
    line.refuses = [=, this](const kube::HttpRequest& request) {
      const bool lifts =
          request.method == kube::Method::patch && request.target.find("/pods/" + name) != std::string::npos;
      if (lifts && !late && !delivered) late = request;
      if (lifts) return !delivered;
      if (late && request.method == kube::Method::del &&
          request.target.find("/resourceclaims/" + of) != std::string::npos) {
        delivered = World::must(world.transport->perform(*std::exchange(late, std::nullopt), {})).status == 200;
      }
      return false;
    };
    pod(name, of);
    ASSERT_TRUE(late && isGated(name));
  }
  void TearDown() override {
    line.refuses = nullptr;
    ReconcileTest::TearDown();
  }
  support::RefusingTransport line{*world.transport};
  std::optional<kube::HttpRequest> late;
  bool delivered = false;
};

TEST_F(MovedTest, C13_OneThatNobodyUsesMovesAtOnce) {
  bound("a");
  const auto before = uidOf("a");
  ask("a", before);
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(uidOf("a"), before);
  EXPECT_EQ(mark("a"), "");
  EXPECT_EQ(countEvents("a Warning Moved"), 1);
  const auto writes = this->writes();
  driver->run();
  EXPECT_EQ(this->writes(), writes) << "what its annotation names is gone: nothing is asked any more";
}

TEST_F(MovedTest, C13_V2_OneInUseIsMarkedAndWaitsForItsPodAndNobodyIsEvicted) {
  bound("a");
  runs("p", "a");
  const auto before = uidOf("a");
  ask("a", before);
  EXPECT_EQ(mark("a"), "Preempted");
  EXPECT_EQ(world.gpu(deviceOf("a"))
                .status.message.rfind("moving to another device because of annotation elasticgpu.io/move", 0),
            0u);
  EXPECT_TRUE(world.resourceClaim("a")) << "its pod runs on";
  EXPECT_FALSE(world.client.get<core::Pod>({"default", "p"})->metadata.deleting());
  pod("next", "a");
  EXPECT_TRUE(isGated("next")) << "nobody takes it anew";
  ends("p", "a");
  driver->run();
  EXPECT_NE(uidOf("a"), before);
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_FALSE(isGated("next"));
}

TEST_F(MovedTest, C13_OneThatWaitsForItsPodsEndReportsWhetherItsCardWorks) {
  bound("a");
  runs("p", "a");
  ask("a", uidOf("a"));
  ASSERT_EQ(mark("a"), "Preempted");
  const auto card = cardOf("a");
  for (const bool moved : {true, false}) {
    if (!moved) {  // also a claim that is being deleted
      ask("a", "");
      World::mustOk(world.client.remove<cache::Claim>({"default", "a"}));
      settle();
    }
    for (const std::string well : {"False", "True"}) {
      world.json<cache::Gpu>(
          {"", card}, R"({"status":{"conditions":[{"type":"Healthy","reason":"Xid79","status":")" + well + R"("}]}})",
          "status");
      settle();
      const auto claim = world.claim("a");
      const auto device = world.gpu(deviceOf("a"));
      for (const auto* conditions : {&claim.status.conditions, &device.status.conditions}) {
        const auto* healthy = findCondition(*conditions, kHealthy);
        ASSERT_NE(healthy, nullptr) << moved;
        EXPECT_EQ(healthy->status, well) << moved;
      }
    }
  }
  EXPECT_EQ(world.reason("a"), "InUse");
  ends("p", "a");
}

TEST_F(MovedTest, C13_V3_WhoHasNoGateDoesNotTakeItAnewOnceTheLastPodGoes) {
  for (const bool choosy : {false, true}) {
    const std::string a = choosy ? "b" : "a", next = "next-of-" + a;
    bound(a);
    runs("p", a);
    const auto before = uidOf(a);
    ask(a, before);
    evicted("p");
    auto made = World::podOf(next, {a}, false);  // as a Deployment creates it immediately
    if (choosy) made.requiredNodeAffinity = {{{{{"kubernetes.io/hostname", "In", {"n1"}}}, {}}}};
    (void)World::must(world.client.create(made));
    settle();
    ASSERT_TRUE(world.resourceClaim(a)) << "p has it reserved";
    EXPECT_TRUE(world.resourceClaim(a)->metadata.deleting()) << "the scheduler places nobody there";
    world.json<core::Pod>({"default", "p"}, R"({"metadata":{"finalizers":null}})");
    ends("p", a);
    driver->run();
    EXPECT_NE(uidOf(a), before);
    EXPECT_EQ(mark(a), "");
    world.schedule(next);
    settle();
    EXPECT_EQ(world.claim(a).status.phase, "Bound");
    world.removePod(next);
    settle();
  }
}

TEST_F(MovedTest, C13_W9_WhoIsLetGoMeanwhileRetainsTheDevice) {
  bound("a");
  const auto before = uidOf("a");
  ASSERT_NO_FATAL_FAILURE(letGoLate("p", "a"));
  ask("a", before);
  driver->run();
  ASSERT_TRUE(delivered);
  EXPECT_FALSE(isGated("p"));
  EXPECT_EQ(uidOf("a"), before) << "p is pinned to its node";
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  ASSERT_TRUE(world.resourceClaim("a") && world.resourceClaim("a")->allocation) << "or p waits for ever";
  world.schedule("p");
  driver->run();
  EXPECT_EQ(mark("a"), "Preempted") << "it is still asked to move, after p";
  ends("p", "a");
  driver->run();
  EXPECT_NE(uidOf("a"), before);
}

TEST_F(MovedTest, C13_W9_WhoIsLetGoMeanwhileIsEvictedForAPreemptor) {
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  bound("a", "spare");
  bound("fixed", "share");
  ASSERT_NO_FATAL_FAILURE(letGoLate("p", "a"));
  high("big");
  driver->run();
  ASSERT_TRUE(delivered);
  const auto p = world.client.get<core::Pod>({"default", "p"});
  EXPECT_TRUE(!p.ok() || p->metadata.deleting()) << "it is pinned to a node that its claim has left";
  EXPECT_EQ(world.claim("big").status.phase, "Bound");
}

TEST_F(MovedTest, W9_IsNotWrittenOfADeviceThatWasMarkedWhileVolumesWereRead) {
  bound("a");
  const auto before = uidOf("a");
  startOver(line);
  bool read = false;
  std::vector<std::string> marks;  // the device's marks when a gate was removed
  line.refuses = [&](const kube::HttpRequest& request) {
    if (request.method == kube::Method::patch && request.target.find("/pods/p") != std::string::npos)
      marks.push_back(world.exists(deviceOf("a")) ? uidOf("a") + mark("a") : "gone");
    if (request.target.find("persistentvolumeclaims/disk") == std::string::npos || std::exchange(read, true))
      return false;
    world.json<cache::Claim>({"default", "a"},
                             R"({"metadata":{"annotations":{"elasticgpu.io/move":")" + before + "\"}}}");
    driver->poll();
    (void)driver->reconciler.step(claimKey({"default", "a"}));
    return false;
  };
  auto made = World::podOf("p", {"a"});
  made.volumes = {{"data", "disk", false}};
  (void)World::must(world.client.create(made));
  driver->run();
  ASSERT_TRUE(read);
  EXPECT_NE(uidOf("a"), before);
  EXPECT_EQ(marks, std::vector<std::string>{uidOf("a")}) << "not to the device that was left";
}

TEST_F(MovedTest, C13_WhoTakesItBackRetainsItsDevice) {
  bound("a");
  runs("p", "a");
  const auto before = uidOf("a");
  ask("a", before);
  pod("next", "a");
  ASSERT_TRUE(isGated("next"));
  ask("a", "");
  EXPECT_EQ(mark("a"), "");
  EXPECT_FALSE(isGated("next")) << "it is told";
  ends("p", "a");
  driver->run();
  EXPECT_EQ(uidOf("a"), before);
}

TEST_F(MovedTest, AnotherDevicesUidAsksNothing) {
  bound("a");
  bound("b");
  const auto before = uidOf("a");
  const auto writes = this->writes();
  ask("a", uidOf("b"));
  EXPECT_EQ(this->writes(), writes + 1) << "the annotation alone";
  EXPECT_EQ(uidOf("a"), before);
}

TEST_F(MovedTest, WhoMayNotGetsTheReason) {
  for (const std::string cls : {"share", "fluid-keep"}) {
    SCOPED_TRACE(cls);
    bound(cls + "-claim", cls);
    const auto before = uidOf(cls + "-claim");
    ask(cls + "-claim", before);
    driver->run();
    EXPECT_EQ(uidOf(cls + "-claim"), before);
    EXPECT_EQ(mark(cls + "-claim"), "");
    EXPECT_EQ(countEvents(cls + "-claim Warning NotMoved annotation elasticgpu.io/move has no effect"), 1);
  }
}

TEST_F(MovedTest, OneThatWaitsForItsConsumerGoesWhereTheNextOneHasIt) {
  world.addClaim("a", "fluid-late", {{"gpu", "1"}});
  runs("p", "a");
  const auto before = uidOf("a");
  ask("a", before);
  ends("p", "a");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
  EXPECT_EQ(world.reason("a"), "WaitingForConsumer");
  EXPECT_EQ(world.reason("a", "Preempted"), "Moved");
  pod("next", "a");
  world.schedule("next");
  driver->run();
  EXPECT_EQ(world.claim("a").status.phase, "Bound");
  EXPECT_NE(uidOf("a"), before);
}

TEST_F(MovedTest, OneThatIsAskedForCapacityMeanwhileFreesIt) {
  world.addClass("spare", "Delete", "Immediate", {{"movable", "true"}, {"preemptible", "true"}});
  bound("a", "spare");
  bound("fixed", "share");
  runs("p", "a");
  ask("a", uidOf("a"));
  ASSERT_EQ(mark("a"), "Preempted");
  high("big");
  driver->run();
  const auto p = world.client.get<core::Pod>({"default", "p"});
  EXPECT_TRUE(!p.ok() || p->metadata.deleting()) << "evicted, as for any preemptor";
  ends("p", "a");
  driver->run();
  EXPECT_EQ(world.claim("big").status.phase, "Bound");
  EXPECT_EQ(world.claim("a").status.phase, "Pending");
}

}  // namespace
}  // namespace egpu::reconcile
