// PodGroups: the claims of their pods are gangs of at least minCount pods; further pods are bound individually.
#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "tests/reconcile/fixture.h"

namespace egpu::reconcile {
namespace {

using support::World;

class PodGroupTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    if (world.real) GTEST_SKIP();  // covered by tests/cluster/gang_test.py
    world.addNode("n2", {{"rack", "y"}});
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    settle();
  }
  void group(int64_t minCount, const std::string& topology = {}, const std::string& name = "train") {
    core::PodGroup made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.minCount = minCount;
    made.topology = topology;
    (void)World::must(world.client.create(made));
    settle();
  }
  /// Creates a pod with a claim of one whole card per name.
  void pod(const std::string& name, const std::vector<std::string>& claims = {"gpu"}, const char* cls = "share",
           const std::function<void(core::Pod&)>& change = {}) {
    auto made = World::podOf(name, {}, !claims.empty());
    made.podGroupName = "train";
    for (const auto& claim : claims) made.resourceClaims.push_back({claim, "", "template"});
    if (change) change(made);
    (void)World::must(world.client.create(made));
    for (const auto& claim : claims) stamp(name, claim, cls);
    settle();
    if (!inOneSecond) world.nextSecond();
  }
  /// Stamps a claim as Kubernetes does.
  void stamp(const std::string& pod, const std::string& name, const std::string& cls) {
    core::ResourceClaim rc;
    rc.metadata.name = claimOf(pod, name);
    rc.metadata.namespace_ = "default";
    rc.metadata.ownerReferences.push_back({"v1", "Pod", pod, world.pod(pod).metadata.uid, true, false});
    rc.deviceClassName = "elasticgpu.io";
    rc.requestName = "accelerator";
    rc.config.push_back({{},
                         "elasticgpu.io",
                         R"({"egpuClassName":")" + cls + R"(","resources":{"requests":{"elasticgpu.io/gpu":1}}})"});
    (void)World::must(world.client.create(rc));
    stamped[pod] += (stamped[pod].empty() ? "" : ",") +
                    (R"({"name":")" + name + R"(","resourceClaimName":")" + rc.metadata.name + R"("})");
    world.json<core::Pod>({"default", pod}, R"({"status":{"resourceClaimStatuses":[)" + stamped[pod] + "]}}", "status");
  }
  static std::string claimOf(const std::string& pod, const std::string& name = "gpu") {
    return pod + "-" + name + "-x7x7x";
  }
  std::string phase(const std::string& pod) { return world.claim(claimOf(pod)).status.phase; }
  std::string message(const std::string& pod) { return world.message(claimOf(pod)); }
  bool goes(const std::string& pod) { return world.pod(pod).schedulingGates.empty(); }
  int64_t cards() { return driver->cluster.allocationMap().totals().usedCore / 1000; }
  /// A claim that keeps the gate on its pods until fits() is called.
  void tooLarge() { world.addClaim("other", "late", {{"gpu", "8"}}); }
  void fits() {
    world.removeClaim("other");
    driver->run(std::chrono::seconds(10));
    world.addClaim("other", "late", {{"gpu-core", "10"}});
    driver->run(std::chrono::seconds(30));
  }
  /// Marks the pod as Succeeded and removes its stamped claims, as Kubernetes does.
  void succeeds(const std::string& pod) {
    world.schedule(pod);
    settle();
    world.finishPod(pod);
    world.unreserve(claimOf(pod), pod);
    (void)world.client.remove<core::ResourceClaim>({"default", claimOf(pod)});
    driver->run();
  }
  std::map<std::string, std::string> stamped;  ///< by pod, as in its status
  bool inOneSecond = false;                    ///< new pods have equal ages
};

TEST_F(PodGroupTest, C14_HoldsNothingBeforeMinCountPodsAreHere) {
  group(3);
  pod("a");
  pod("b", {"gpu"}, "late");
  EXPECT_EQ(cards(), 0);
  EXPECT_EQ(world.claim(claimOf("a")).metadata.annotations,
            (core::StringMap{{"elasticgpu.io/gang-pod-group", "train"}}));
  EXPECT_EQ(world.reason(claimOf("a")), "WaitingForGang");
  EXPECT_EQ(message("a"), "2 of 3 pods of PodGroup train are here");
  EXPECT_EQ(message("b"), "see claim a-gpu-x7x7x for what PodGroup train waits for");
  pod("c");
  for (const auto* name : {"a", "b", "c"}) {
    EXPECT_EQ(phase(name), "Bound") << name << message(name);
    EXPECT_TRUE(goes(name)) << name;
  }
}

TEST_F(PodGroupTest, C14_OneMemberReportsTheNumber_OfAnyOrder) {
  group(9);
  inOneSecond = true;
  for (int size = 1; size < 9; ++size) {
    pod("m" + std::to_string(size));
    std::vector<std::string> reports;
    for (int i = 1; i <= size; ++i)
      if (auto text = message("m" + std::to_string(i)); text.find(" of 9 pods") != std::string::npos)
        reports.push_back(std::move(text));
    EXPECT_EQ(reports, std::vector{std::to_string(size) + " of 9 pods of PodGroup train " + (size > 1 ? "are" : "is") +
                                   " here"});
  }
}

TEST_F(PodGroupTest, C14_V1_OthersFreeCapacityForAllOfItOrForNone) {
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  const std::vector<std::string> spares{"s1", "s2", "s3", "s4"};
  for (const auto& name : spares) world.addClaim(name, "spare", {{"gpu", "1"}});
  settle();
  const auto bound = [&] {
    return std::count_if(spares.begin(), spares.end(),
                         [&](const auto& name) { return world.claim(name).status.phase == "Bound"; });
  };
  ASSERT_EQ(bound(), 4);
  group(2);
  const auto high = [](core::Pod& made) { made.priority = 1000; };
  pod("a", {"gpu"}, "share", high);
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(bound(), 4) << "one is missing";
  pod("b", {"gpu"}, "share", high);
  driver->run(std::chrono::seconds(60));
  for (const auto* name : {"a", "b"}) {
    EXPECT_EQ(phase(name), "Bound") << name << message(name);
    EXPECT_TRUE(goes(name)) << name;
  }
  EXPECT_EQ(bound(), 2);
}

TEST_F(PodGroupTest, APodWithoutClaimsCountsAndOneWithTwoIsOnePod) {
  group(2);
  pod("a", {"gpu", "more"});
  EXPECT_EQ(cards(), 0);
  pod("launcher", {});
  EXPECT_EQ(cards(), 2);
  EXPECT_TRUE(goes("a"));
}

TEST_F(PodGroupTest, NothingIsHeldBeforeThePodGroupIsThere) {
  pod("a");
  pod("b");
  EXPECT_EQ(message("a"), "there is no PodGroup train yet");
  EXPECT_EQ(cards(), 0);
  group(2);
  EXPECT_EQ(cards(), 2);
}

TEST_F(PodGroupTest, FurtherPodsFollowByThemselves) {
  for (const auto* name : {"a", "b", "c", "d", "e"}) pod(name);  // five for four cards
  group(3);
  driver->run(std::chrono::seconds(30));
  for (const auto* name : {"a", "b", "c", "d"}) EXPECT_EQ(phase(name), "Bound") << name << message(name);
  EXPECT_EQ(world.reason(claimOf("e")), "NoFit");
  EXPECT_FALSE(goes("e"));
  world.removePod("d");
  (void)world.client.remove<core::ResourceClaim>({"default", claimOf("d")});
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(phase("e"), "Bound") << message("e");
  EXPECT_TRUE(goes("e"));
}

TEST_F(PodGroupTest, FurtherPodsWaitWhileTheFirstDoNotFit) {
  world.addClaim("full", "share", {{"gpu", "2"}});
  settle();
  for (const auto* name : {"a", "b", "c", "d"}) pod(name);
  group(3);
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(cards(), 2);
  EXPECT_EQ(world.reason(claimOf("a")), "NoFit");
  EXPECT_EQ(message("d"), "the first 3 pods of PodGroup train are placed before it");
  world.removeClaim("full");
  driver->run(std::chrono::seconds(30));
  for (const auto* name : {"a", "b", "c", "d"}) EXPECT_EQ(phase(name), "Bound") << name << message(name);
}

TEST_F(PodGroupTest, StaysWithinTheTopologyThatItAsksFor) {
  group(2, "rack");
  for (const auto* name : {"a", "b", "c"}) pod(name);
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(claimOf(name)).status.nodeName, "n2") << message(name);
  EXPECT_EQ(world.reason(claimOf("c")), "NoFit") << "a further one stays there, too";
}

TEST_F(PodGroupTest, OfOneThatIsNoGangEachGoesByItself) {
  group(0);
  pod("a");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_TRUE(goes("a"));
}

TEST_F(PodGroupTest, MinCountMayChange) {
  group(3);
  pod("a");
  pod("b");
  EXPECT_EQ(cards(), 0);
  (void)World::must(world.client.patch<core::PodGroup>({"default", "train"}, kube::PatchType::merge,
                                                       R"({"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}})"));
  settle();
  EXPECT_EQ(cards(), 2);
  EXPECT_TRUE(goes("a"));
}

TEST_F(PodGroupTest, AnnotationsCountAndThePodHearsOfIt) {
  group(3);
  pod("a", {"gpu"}, "share", [](core::Pod& made) {
    made.metadata.annotations = {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}};
  });
  EXPECT_EQ(world.claim(claimOf("a")).metadata.annotations,
            (core::StringMap{{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}}));
  EXPECT_EQ(message("a"), "1 of 2 members of gang g is here");
  EXPECT_EQ(countEvents("a Warning AnnotationCounts "), 1);
}

TEST_F(PodGroupTest, TwoGangsOnOneClaimAreAMistake) {
  world.addMember(
      "x", "share", {{"gpu", "1"}},
      {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}, {"elasticgpu.io/gang-pod-group", "train"}});
  settle();
  EXPECT_EQ(world.reason("x"), "InvalidParameter");
}

TEST_F(PodGroupTest, WithoutTheKindPodGroupsAreNotRead) {
  driver->stores.podGroupsServed = false;
  pod("a");
  EXPECT_EQ(phase("a"), "Bound");
  EXPECT_TRUE(world.claim(claimOf("a")).metadata.annotations.empty());
}

TEST_F(PodGroupTest, AClaimMadeByHandMayNameItAndWaitsForItsPod) {
  group(2);
  world.addMember("mine", "share", {{"gpu", "1"}}, {{"elasticgpu.io/gang-pod-group", "train"}});
  settle();
  EXPECT_EQ(world.message("mine"), "0 of 2 pods of PodGroup train are here");
  pod("a");
  pod("b", {}, "share", [](core::Pod& made) {
    made.resourceClaims.push_back({"mine", "mine", ""});
    made.schedulingGates = {"elasticgpu.io/claims"};
  });
  EXPECT_EQ(world.claim("mine").status.phase, "Bound") << world.message("mine");
  EXPECT_EQ(phase("a"), "Bound") << message("a");
}

TEST_F(PodGroupTest, C13_AllOfItsClaimsFreeCapacityTogether) {
  world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
  core::PriorityClass high;
  high.metadata.name = "high";
  high.value = 1000;
  (void)World::must(world.client.create(high));
  group(2);
  pod("a", {"gpu", "more"}, "spare");
  pod("b", {"gpu", "more"}, "spare");
  cache::Claim urgent;
  urgent.metadata.name = "urgent";
  urgent.metadata.namespace_ = "default";
  urgent.spec.className = "share";
  urgent.spec.priorityClassName = "high";
  urgent.spec.requests["elasticgpu.io/gpu"] = "1";
  (void)World::must(world.client.create(urgent));
  driver->run(std::chrono::seconds(30));
  EXPECT_EQ(world.claim("urgent").status.phase, "Bound") << world.message("urgent");
  EXPECT_EQ(cards(), 1);
}

TEST_F(PodGroupTest, C14_OneThatHasSucceededCounts) {
  group(2);
  tooLarge();
  pod("b", {"gpu"}, "share", [](core::Pod& made) { made.resourceClaims.push_back({"other", "other", ""}); });
  pod("a");
  ASSERT_TRUE(goes("a")) << message("a");
  ASSERT_FALSE(goes("b"));
  succeeds("a");
  driver->run(std::chrono::seconds(150));
  EXPECT_EQ(phase("b"), "Bound") << "it keeps what it has: " << message("b");
  fits();
  EXPECT_TRUE(goes("b")) << message("b");
}

TEST_F(PodGroupTest, C14_ByAnnotationsToo) {
  core::ResourceClaimTemplate stamps;
  stamps.metadata.name = "template";
  stamps.metadata.namespace_ = "default";
  stamps.claim.deviceClassName = "elasticgpu.io";
  stamps.claim.requestName = "accelerator";
  stamps.claim.config.push_back({{}, "elasticgpu.io", R"({"egpuClassName":"share"})"});
  (void)World::must(world.client.create(stamps));
  const auto annotate = [](core::Pod& made) {
    made.podGroupName.clear();
    made.metadata.annotations = {{"elasticgpu.io/gang", "g"}, {"elasticgpu.io/gang-size", "2"}};
  };
  tooLarge();
  pod("b", {"gpu"}, "share", [&](core::Pod& made) {
    annotate(made);
    made.resourceClaims.push_back({"other", "other", ""});
  });
  pod("a", {"gpu"}, "share", annotate);
  ASSERT_TRUE(goes("a")) << message("a");
  ASSERT_FALSE(goes("b"));
  succeeds("a");
  driver->run(std::chrono::seconds(150));
  EXPECT_EQ(phase("b"), "Bound") << "it keeps what it has: " << message("b");
  fits();
  EXPECT_TRUE(goes("b")) << message("b");
}

/// For any order of pods, stamped claims and the PodGroup, and for a controller restart at any point: when idle, all of
/// the first minCount pods have their claims bound, or none holds anything.
TEST_F(PodGroupTest, C14_AllOrNoneInEveryOrder) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const auto few = 1 + static_cast<int64_t>(random() % 4);
    const std::vector<std::string> names{"p0", "p1", "p2", "p3"};
    std::vector<std::function<void()>> acts{[&] { group(few); }};
    for (const auto& name : names) acts.emplace_back([&, name] { pod(name); });
    for (int i = 0; i < 2; ++i) acts.emplace_back([&] { start(); });
    std::shuffle(acts.begin(), acts.end(), random);
    int64_t here = 0;
    bool there = false;
    for (const auto& act : acts) {
      act();
      driver->run(std::chrono::seconds(10));
      here = static_cast<int64_t>(World::must(world.client.listAll<cache::Claim>({})).size());
      there = world.client.get<core::PodGroup>({"default", "train"}).ok();
      EXPECT_EQ(cards(), there && here >= few ? here : 0) << "seed " << seed << " of " << few;
    }
    for (const auto& name : names) EXPECT_TRUE(goes(name)) << "seed " << seed << " " << name << message(name);
    for (const auto& name : names) {
      world.removePod(name);
      (void)world.client.remove<core::ResourceClaim>({"default", claimOf(name)});
      stamped.erase(name);
    }
    (void)world.client.remove<core::PodGroup>({"default", "train"});
    driver->run();
  }
}

}  // namespace
}  // namespace egpu::reconcile
