// Preemption for a gang: for all of its members or for none, and the state after a crash between two of its writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/reconcile/priority/preemption.h"
#include "controller/reconcile/writer.h"
#include "tests/reconcile/fixture.h"
#include "tests/support/refusing_transport.h"

namespace egpu::reconcile {
namespace {

using support::World;
using Names = std::vector<std::string>;

/// Two nodes of two cards, in racks x and y.
class CapacityForGangTest : public ReconcileTest {
 protected:
  void SetUp() override {
    ReconcileTest::SetUp();
    world.json<core::Node>({"", "n1"}, R"({"metadata":{"labels":{"rack":"x"}}})");
    world.addNode("n2", {{"rack", "y"}});
    world.addCard("n2", 0);
    world.addCard("n2", 1);
    world.addClass("spare", "Delete", "Immediate", {{"preemptible", "true"}});
    world.addClass("spare-keep", "Retain", "Immediate", {{"preemptible", "true"}});
    priorityClass("high", 1000);
    priorityClass("middle", 500, false);
    priorityClass("patient", 2000, false);
    settle();
  }
  void priorityClass(const std::string& name, int64_t value, bool preempts = true) {
    core::PriorityClass made;
    made.metadata.name = name;
    made.value = value;
    made.preempts = preempts;
    (void)World::must(world.client.create(made));
  }
  /// Creates a claim of one whole card, younger than all earlier ones.
  void claim(const std::string& name, const std::string& cls, const std::string& priority = {},
             core::StringMap annotations = {}) {
    world.nextSecond();
    cache::Claim made;
    made.metadata.name = name;
    made.metadata.namespace_ = "default";
    made.metadata.annotations = std::move(annotations);
    made.spec.className = cls;
    made.spec.priorityClassName = priority;
    made.spec.requests["elasticgpu.io/gpu"] = "1";
    (void)World::must(world.client.create(made));
    settle();
  }
  /// Creates a claim on each card, the first of them the oldest.
  void fill(const Names& names, const std::string& cls = "spare") {
    for (const auto& name : names) claim(name, cls);
    for (const auto& name : names) ASSERT_EQ(phase(name), "Bound") << name;
  }
  static Names numbered(const std::string& prefix, int count) {
    Names names;
    for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
    return names;
  }
  /// Adds three nodes of two cards each, and creates a claim on each card of all five nodes. Returns the claims.
  Names fillFiveNodes() {
    for (int n = 3; n <= 5; ++n) {
      const auto node = "n" + std::to_string(n);
      world.addNode(node);
      for (int c = 0; c < 2; ++c) world.addCard(node, c);
    }
    auto holders = numbered("s", 10);
    fill(holders);
    return holders;
  }
  void member(const std::string& name, const std::string& size, const std::string& priority = "high",
              core::StringMap more = {}, const std::string& gang = "train") {
    more["elasticgpu.io/gang"] = gang;
    more["elasticgpu.io/gang-size"] = size;
    claim(name, "share", priority, std::move(more));
  }
  void runs(const std::string& name) {
    world.addPod("p-" + name, {name});
    settle();
    world.schedule("p-" + name);
    settle();
  }
  void ends(const std::string& name) {
    world.removePod("p-" + name);
    world.unreserve(name, "p-" + name);
    settle();
  }
  bool podStays(const std::string& name) {
    const auto found = world.client.get<core::Pod>({"default", "p-" + name});
    return found.ok() && !found->metadata.deleting();
  }
  std::string phase(const std::string& claim) { return world.claim(claim).status.phase; }
  std::string mark(const std::string& claim) { return world.gpu(deviceOf(claim)).status.reason; }
  /// Returns the claims of `names` in this phase.
  Names in(const std::string& wanted, const Names& names) {
    Names found;
    for (const auto& name : names)
      if (phase(name) == wanted) found.push_back(name);
    return found;
  }
  /// Returns the claims of `names` whose status has a nomination.
  Names nominated(const Names& names) {
    Names found;
    for (const auto& name : names)
      if (world.claim(name).status.nominated) found.push_back(name);
    return found;
  }
  Names victims(const Names& names) {
    Names all;
    for (const auto& name : names)
      if (const auto now = world.claim(name).status.nominated)
        all.insert(all.end(), now->victims.begin(), now->victims.end());
    return all;
  }
  support::RefusingTransport line{*world.transport};
  const Names abc{"a", "b", "c"}, spares{"s1", "s2", "s3", "s4"};
};

TEST_F(CapacityForGangTest, C14_V1_V5_AsManyGoAsAllOfItNeedAndTheYoungest) {
  fill(spares);
  for (const auto& name : abc) member(name, "3");
  driver->run();
  EXPECT_EQ(in("Bound", abc), abc) << world.message("a");
  EXPECT_EQ(in("Bound", spares), Names{"s1"});
  EXPECT_EQ(nominated(abc), Names());
  for (const auto* name : {"s2", "s3", "s4"}) {
    EXPECT_EQ(world.reason(name), "NoFit") << "they wait, and make nobody go";
    EXPECT_EQ(world.message(name, "Preempted").rfind("preempted for claim default/", 0), 0U)
        << world.message(name, "Preempted");
  }
  const auto before = writes();
  driver->run(std::chrono::minutes(10));
  EXPECT_LT(writes() - before, 40U) << "and all stays as it is";
  EXPECT_EQ(in("Bound", abc), abc);
  for (const auto& name : abc) world.removeClaim(name);
  driver->run();
  EXPECT_EQ(in("Bound", spares), spares);
}

/// A clock that advances one millisecond with each read, so that a search takes time.
class CountingClock final : public base::Clock {
 public:
  Steady now() const override { return now_ += std::chrono::milliseconds(1); }
  Wall wall() const override { return {}; }
  bool sleepUntil(Steady, std::stop_token) override { return true; }

 private:
  mutable Steady now_{std::chrono::hours(1)};
};

/// Plans for claim `name` alone, on a clock of its own. Returns how long the claim waits until it plans again; 0 =
/// until an event.
class PlanningAlone {
 public:
  explicit PlanningAlone(support::Driver& driver)
      : stores_(driver.stores), plans_(stores_, driver.cluster, clock_, kDefaultTimeouts) {}
  std::chrono::milliseconds again(const std::string& name, int64_t priority) {
    const auto claim = stores_.claims.get({"default", name});
    allocator::Allocator::SchedulingRequest ask;
    ask.claimUid = claim->metadata.uid;
    ask.claim = core::keyOf(claim->metadata).str();
    ask.request.wholeCards = true;
    ask.order.priority = priority;
    EXPECT_TRUE(plans_.planForGroup({{claim}, {ask}, {{}}}, {}).empty());
    return plans_.delayForRateLimit({-priority, ageOf(claim->metadata)}, "claim/default/" + name);
  }

 private:
  const cache::Stores& stores_;
  CountingClock clock_;
  Preemption plans_;
};

TEST_F(CapacityForGangTest, V1_ThePlanOfALargeGangIsWrittenInSeveralSteps) {
  Names holders, members;
  for (int node = 3; node <= 7; ++node) {
    world.addNode("n" + std::to_string(node));
    for (int card = 0; card < 7; ++card) world.addCard("n" + std::to_string(node), card);
  }
  for (int i = 0; i < 39; ++i) holders.push_back("h" + std::to_string(i));
  fill(holders);
  for (int i = 0; i < 38; ++i) {
    members.push_back("m" + std::to_string(i));
    member(members.back(), "38");
  }
  driver->run();
  EXPECT_EQ(in("Bound", members), members) << world.message("m0");
  EXPECT_EQ(in("Bound", holders), Names{"h0"}) << "the oldest stays";
}

TEST_F(CapacityForGangTest, APlanWithoutCandidatesIsMadeAgainOnlyAfterAnEvent) {
  fill(spares);
  for (const auto& name : abc) member(name, "3", "");
  EXPECT_EQ(world.reason("a"), "NoFit") << world.message("a");
  EXPECT_EQ(PlanningAlone(*driver).again("a", 0).count(), 0) << "all holders have its priority";
}

TEST_F(CapacityForGangTest, APlanIsMadeAgainOnceClaimsAreBoundThatAreNotYet) {
  fill({"f1", "f2", "f3"}, "share");
  world.plugin.answer({{plugin::ReplyCode::unavailable, "no"}}, true);
  claim("coming", "spare");
  member("a", "2");
  EXPECT_NE(phase("coming"), "Bound");
  EXPECT_GT(PlanningAlone(*driver).again("a", 1000).count(), 0) << "no event tells that it may have to go from now on";
  EXPECT_EQ(PlanningAlone(*driver).again("a", 0).count(), 0);
  world.plugin.answer({});
}

TEST_F(CapacityForGangTest, NobodyGoesIfNotAllCanBeHelped) {
  fill({"fixed", "fixed2"}, "share");
  claim("s1", "spare");
  claim("s2", "spare");
  for (const auto& name : abc) member(name, "3");
  driver->run(std::chrono::minutes(2));
  EXPECT_EQ(world.reason("a"), "NoFit");
  EXPECT_NE(
      world.message("a").find("preemption: evicting every preemptible claim of lower priority would still not free"),
      std::string::npos)
      << world.message("a");
  EXPECT_EQ(nominated(abc), Names());
  EXPECT_EQ(in("Bound", {"s1", "s2"}), (Names{"s1", "s2"}));
  EXPECT_EQ(countEvents("s1 Warning Preempted") + countEvents("s2 Warning Preempted"), 0);
  world.removeClaim("fixed");
  driver->run(std::chrono::minutes(1));
  EXPECT_EQ(in("Bound", abc), abc) << "with one more card it is whole";
  EXPECT_EQ(in("Bound", {"s1", "s2"}), Names());
}

TEST_F(CapacityForGangTest, NeitherEqualsNorWhatIsRetainedNorForOneThatNeverPreempts) {
  claim("equal", "spare", "high");
  claim("kept", "spare-keep");
  claim("fixed", "share");
  claim("s1", "spare");
  for (const auto* name : {"a", "b"}) member(name, "2");
  for (const auto* name : {"d", "e"}) member(name, "2", "patient", {}, "patient");
  member("f", "2", "high", {}, "mixed");
  member("g", "2", "", {}, "mixed");  // priority as low as s1
  driver->run(std::chrono::minutes(2));
  EXPECT_EQ(nominated({"a", "b", "d", "e", "f", "g"}), Names());
  EXPECT_EQ(in("Bound", {"equal", "kept", "fixed", "s1"}), (Names{"equal", "kept", "fixed", "s1"}));
  for (const auto* name : {"a", "b", "d", "e", "f", "g", "kept"}) world.removeClaim(name);
  driver->run();
  for (const auto& device : World::must(world.client.listAll<cache::Gpu>({})))
    if (device.isDevice() && device.status.phase == "Released")
      World::mustOk(world.client.remove<cache::Gpu>({"", device.metadata.name}));
}

TEST_F(CapacityForGangTest, WithinOneValueOfItsLabel) {
  fill({"s1", "fixed"});
  world.removeClaim("fixed");
  settle();
  claim("fixed", "share");  // beside s1, on n1
  fill({"s2", "s3"});
  for (const auto* name : {"a", "b"}) member(name, "2", "high", {{"elasticgpu.io/gang-topology", "rack"}});
  driver->run();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(name).status.nodeName, "n2") << world.message(name);
  EXPECT_EQ(in("Bound", {"s1", "s2", "s3"}), Names{"s1"});
}

/// Gangs of victims. Claims of one card each.
class CapacityOfGangTest : public CapacityForGangTest {
 protected:
  void holder(const std::string& name, const std::string& size, const std::string& cls = "spare",
              const std::string& priority = {}) {
    claim(name, cls, priority, {{"elasticgpu.io/gang", "old"}, {"elasticgpu.io/gang-size", size}});
  }
};

TEST_F(CapacityOfGangTest, C13_AClaimOfNoGangGoesBeforeAGang) {
  for (const auto* name : {"g1", "g2", "g3"}) holder(name, "3");
  claim("single", "spare");
  claim("urgent", "share", "high");
  driver->run();
  EXPECT_EQ(phase("urgent"), "Bound");
  EXPECT_EQ(in("Bound", {"g1", "g2", "g3", "single"}), (Names{"g1", "g2", "g3"}));
}

TEST_F(CapacityOfGangTest, C13_TheLowestPriorityOfItsMembersCounts) {
  holder("g1", "4", "spare", "patient");
  for (const auto* name : {"g2", "g3"}) holder(name, "4", "spare", "high");
  holder("g4", "4", "spare");
  ASSERT_EQ(in("Bound", {"g1", "g2", "g3", "g4"}).size(), 4U);
  claim("urgent", "share", "middle");
  driver->run();
  EXPECT_EQ(phase("urgent"), "Pending") << "it preempts nobody";
  world.removeClaim("urgent");
  claim("urgent2", "share", "high");
  driver->run();
  EXPECT_EQ(phase("urgent2"), "Bound") << world.message("urgent2");
  EXPECT_EQ(in("Bound", {"g1", "g2", "g3", "g4"}), Names());
}

TEST_F(CapacityOfGangTest, C13_AMemberWhoseClassIsNotPreemptibleExemptsNoOther) {
  holder("fixed", "4", "share");
  for (const auto* name : {"g2", "g3", "g4"}) holder(name, "4");
  ASSERT_EQ(in("Bound", {"fixed", "g2", "g3", "g4"}).size(), 4U);
  claim("urgent", "share", "high");
  driver->run(std::chrono::seconds(20));
  EXPECT_EQ(phase("urgent"), "Bound") << world.message("urgent");
  EXPECT_EQ(in("Bound", {"fixed", "g2", "g3", "g4"}), Names{"fixed"});
}

TEST_F(CapacityOfGangTest, C13_V4_NoMemberGivesBackItsCardBeforeThePodsOfAllHaveEnded) {
  const Names gang{"g1", "g2", "g3", "g4"};
  for (const auto& name : gang) holder(name, "4");
  for (const auto& name : gang) runs(name);
  claim("urgent", "share", "high");
  for (const auto& name : gang) EXPECT_FALSE(podStays(name)) << name;
  for (const auto* name : {"g1", "g2", "g3"}) {
    ends(name);
    driver->run(std::chrono::seconds(5));
    EXPECT_EQ(in("Bound", gang), gang) << "the pod of g4 has not ended";
  }
  EXPECT_EQ(phase("urgent"), "Pending");
  ends("g4");
  driver->run();
  EXPECT_EQ(phase("urgent"), "Bound") << world.message("urgent");
  EXPECT_EQ(in("Bound", gang), Names());
}

TEST_F(CapacityForGangTest, V2_V3_ItsCapacityIsReservedUntilThePodsOfAllHaveEnded) {
  fill(spares);
  for (const auto& name : spares) runs(name);
  for (const auto& name : abc) member(name, "3");
  EXPECT_EQ(nominated(abc), abc);
  EXPECT_EQ(victims(abc).size(), 3U);
  for (const auto& name : abc) EXPECT_EQ(world.reason(name), "Preempting");
  EXPECT_EQ(
      world.message("a").rfind(
          "gang train preempts on nodes n1, n2, where the freed capacity is reserved for it: evicts claims default/s",
          0),
      0U)
      << world.message("a");
  EXPECT_TRUE(podStays("s1"));
  for (const auto* name : {"s2", "s3", "s4"}) EXPECT_FALSE(podStays(name)) << name;
  ends("s2");
  claim("middle", "share", "middle");
  start();  // the next leader
  claim("low", "share");
  EXPECT_EQ(in("Bound", {"a", "b", "c", "middle", "low", "s2"}), Names()) << "one card is free, and kept";
  ends("s3");
  ends("s4");
  driver->run();
  EXPECT_EQ(in("Bound", abc), abc);
  EXPECT_EQ(in("Bound", {"middle", "low"}), Names());
  EXPECT_TRUE(podStays("s1"));
}

TEST_F(CapacityForGangTest, V2_ABudgetThatHoldsOneSparesAll) {
  fill(spares);
  for (const auto& name : spares) runs(name);
  startOver(line);
  line.code = 429;
  line.message = "Cannot evict pod as it would violate the pod's disruption budget.";
  line.refuses = [](const kube::HttpRequest& request) { return request.target.ends_with("/p-s2/eviction"); };
  const Names four{"a", "b", "c", "d"};
  for (const auto& name : four) member(name, "4");
  driver->run(std::chrono::seconds(40));
  EXPECT_EQ(in("Bound", spares), spares);
  for (const auto& name : spares) {
    EXPECT_EQ(mark(name), "") << name;
    EXPECT_TRUE(podStays(name)) << name;
  }
  EXPECT_NE(world.message("a").find("pod default/p-s2 may not be evicted now"), std::string::npos)
      << world.message("a");
  line.refuses = nullptr;
  driver->run(std::chrono::seconds(40));
  for (const auto& name : spares) {
    EXPECT_FALSE(podStays(name)) << name;
    ends(name);
  }
  driver->run();
  EXPECT_EQ(in("Bound", four), four);
}

TEST_F(CapacityForGangTest, V1_OfSomeMembersMakesNobodyGo) {
  fill(spares);
  startOver(line);
  const auto path = "/elasticgpuclaims/b/status";
  line.code = 0;
  line.refuses = [&](const kube::HttpRequest& request) {
    return request.method == kube::Method::patch && request.target.find(path) != std::string::npos &&
           request.body.find("\"nominated\":{") != std::string::npos;
  };
  for (const auto& name : abc) member(name, "3");
  EXPECT_EQ(nominated(abc), Names{"a"}) << "the write of b's does not come through";
  for (const auto& name : spares) EXPECT_EQ(mark(name), "") << name;
  EXPECT_EQ(in("Bound", spares), spares);
  line.refuses = nullptr;
  start();  // the next leader
  driver->run();
  EXPECT_EQ(in("Bound", abc), abc);
  EXPECT_EQ(in("Bound", spares), Names{"s1"});
}

TEST_F(CapacityForGangTest, AMemberThatGoesEndsTheNeed) {
  fill(spares);
  for (const auto& name : spares) runs(name);
  startOver(line);
  line.code = 0;  // marked, but not evicted yet
  line.refuses = [](const kube::HttpRequest& request) {
    return request.target.ends_with("/eviction") && request.body.find("dryRun") == std::string::npos;
  };
  for (const auto& name : abc) member(name, "3");
  int marked = 0;
  for (const auto& name : spares) marked += mark(name) == "Preempted";
  EXPECT_GT(marked, 0);
  world.removeClaim("c");
  line.refuses = nullptr;
  driver->run(std::chrono::minutes(1));
  EXPECT_EQ(nominated({"a", "b"}), Names());
  EXPECT_EQ(world.reason("a"), "WaitingForGang");
  for (const auto& name : spares) {
    EXPECT_EQ(mark(name), "") << name;
    EXPECT_TRUE(podStays(name)) << name;
  }
  EXPECT_EQ(in("Bound", spares), spares);
}

TEST_F(CapacityForGangTest, OfTwoOnlyTheOlderMakesOthersGo) {
  fill(spares);
  for (const auto& name : spares) runs(name);
  member("a", "3");
  member("d", "3", "high", {}, "other");
  member("b", "3");
  member("e", "3", "high", {}, "other");
  member("f", "3", "high", {}, "other");
  member("c", "3");
  driver->run(std::chrono::seconds(30));
  const auto first = nominated({"a", "b", "c", "d", "e", "f"});
  EXPECT_EQ(first.size(), 3U) << "for both there are not enough cards";
  int go = 0;
  for (const auto& name : spares) go += !podStays(name);
  EXPECT_EQ(go, 3);
  for (const auto& name : spares)
    if (!podStays(name)) ends(name);
  driver->run();
  EXPECT_EQ(in("Bound", {"a", "b", "c", "d", "e", "f"}).size(), 3U);
  int left = 0;
  for (const auto& name : spares) left += phase(name) == "Bound" && podStays(name);
  EXPECT_EQ(left, 1) << "the fourth never goes for the other gang, which it would not help";
}

TEST_F(CapacityForGangTest, CapacityElsewhereSparesThem) {
  fill(spares);
  for (const auto& name : spares) runs(name);
  for (const auto* name : {"a", "b"}) member(name, "2");
  ASSERT_EQ(nominated({"a", "b"}), (Names{"a", "b"}));
  world.addNode("n3");
  world.addCard("n3", 0);
  world.addCard("n3", 1);
  driver->run();
  for (const auto* name : {"a", "b"}) EXPECT_EQ(world.claim(name).status.nodeName, "n3") << world.message(name);
  for (const auto& name : spares)
    if (!podStays(name)) ends(name);
  driver->run();
  EXPECT_EQ(in("Bound", spares), spares) << "who had to go has its card again";
}

TEST_F(CapacityForGangTest, V2_V4_V5_ALargeOnesMembersAreReadOnceForAllVictims) {
  const auto holders = fillFiveNodes();
  const auto members = numbered("m", 8);
  int reads = 0, lists = 0;
  line.refuses = [&](const kube::HttpRequest& request) {
    const auto of = request.target.find("/namespaces/default/elasticgpuclaims");
    if (request.method != kube::Method::get || of == std::string::npos) return false;
    ++(request.target.find("/elasticgpuclaims/m", of) == std::string::npos ? lists : reads);
    return false;
  };
  startOver(line);
  for (const auto& name : members) member(name, "8");
  driver->run();
  EXPECT_EQ(in("Bound", members), members) << world.message("m0");
  EXPECT_EQ(in("Bound", holders).size(), 2U);
  EXPECT_GE(lists, 1) << "all of them while victims are released";
  EXPECT_LE(reads + lists, 8) << "but not for each victim";
  for (const auto& name : members) world.removeClaim(name);
  driver->run();
  TearDown();
  driver.reset();
}

TEST_F(CapacityForGangTest, V2_ALargeOnesMembersAreListedPageByPage) {
  fillFiveNodes();
  const auto members = numbered("m", 8);
  for (int i = 0; i < 600; ++i) world.addClaim("other" + std::to_string(i), "absent", {{"gpu", "1"}});
  settle();
  int turns = 0, first = 0, later = 0;
  line.refuses = [&](const kube::HttpRequest& request) {
    if (request.target.find("/namespaces/default/elasticgpuclaims?") == std::string::npos) return false;
    if (request.target.find("fieldSelector=") == std::string::npos)
      ++(request.target.find("continue=") == std::string::npos ? first : later);
    else  // the state that the cache must reach is later than the last event of a claim
      world.labelNamespace("default", R"({"turn":")" + std::to_string(++turns) + "\"}");
    return false;
  };
  startOver(line);
  for (const auto& name : members) member(name, "8");
  driver->run();
  EXPECT_EQ(in("Bound", members), members) << world.message("m0");
  EXPECT_GE(first, 1);
  EXPECT_EQ(later, first) << "each list is continued, by whichever victim";
  TearDown();
  driver.reset();
}

TEST_F(CapacityForGangTest, WhatIsReadAtOnceIsAsNewAsIfItWereReadOneByOne) {
  Names names;
  std::vector<cache::Store<cache::Claim>::Ptr> claims;
  for (int i = 0; i < 8; ++i) names.push_back("m" + std::to_string(i));
  for (const auto& name : names) member(name, "9");
  for (const auto& name : names) claims.push_back(driver->stores.claims.get({"default", name}));
  const auto known = [this](const std::string& name) { return driver->stores.claims.get({"default", name}); };
  world.removeClaim("m1");
  world.json<cache::Claim>({"default", "m2"}, R"({"metadata":{"annotations":{"elasticgpu.io/gang-size":"8"}}})");
  ASSERT_TRUE(known("m1")) << "its watch has not told yet";
  StatusAlternations alternations(world.clock, kDefaultTimeouts, driver->metrics);
  Writer writer(world.client, driver->stores, alternations);
  ASSERT_TRUE(writer.readAll(claims, {}).ok());
  EXPECT_FALSE(known("m1"));
  EXPECT_EQ(known("m2")->metadata.resourceVersion, world.claim("m2").metadata.resourceVersion);
  EXPECT_EQ(known("m3"), claims[3]);
}

}  // namespace
}  // namespace egpu::reconcile
