#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"
#include "tests/allocator/allocator_fixture.h"

namespace egpu::allocator {
namespace {

TEST_F(AllocatorTest, ADecisionCountsUntilItsDeviceIsSeen) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
  device("d", "n1", "");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);  // not twice
  EXPECT_EQ(grown, 0);
  view.forget("k");
  EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
}

TEST_F(AllocatorTest, LearnsFromARequestOnceHoweverOftenItIsTriedInVain) {
  const auto learned = [this] { return view.queries().copy().state().outlook.demand().seen(); };
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  EXPECT_EQ(learned(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(view.decideAndAssume(ask("other", 600)).fits);
  EXPECT_EQ(learned(), 2);
  view.forget("k");
  EXPECT_TRUE(view.decideAndAssume(ask("other", 600)).fits);
  EXPECT_EQ(learned(), 2);
  EXPECT_TRUE(view.decideTogether({ask("a", 900), ask("b", 900)}, {}).decisions.empty());
  EXPECT_EQ(learned(), 4);
}

TEST_F(AllocatorTest, ForgettingWakesThoseWhoWait) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  view.forget("k");
  EXPECT_EQ(grown, 1);
  EXPECT_TRUE(view.decideAndAssume(ask("other", 600)).fits);
}

TEST_F(AllocatorTest, ARequestAdmittedBeforeAReleaseIsNotDecided) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  auto later = ask("later", 600);
  later.order.releases = view.releases();
  EXPECT_FALSE(view.isOutdated(later.order));
  EXPECT_FALSE(view.decideAndAssume(later).fits);
  EXPECT_FALSE(view.isOutdated(later.order)) << "it does not fit, and nothing was released";
  uint64_t announced = 0;
  view.onCapacity([&] { announced = view.releases(); });
  view.forget("k");
  EXPECT_TRUE(view.isOutdated(later.order));
  EXPECT_FALSE(view.decideAndAssume(later).fits);
  EXPECT_TRUE(view.decideTogether({later, ask("other", 100)}, {}).decisions.empty());
  EXPECT_FALSE(view.decideGang({later}, {{}})) << "to be evaluated again";
  EXPECT_TRUE(view.assumptions().empty());
  EXPECT_TRUE(view.decideAndAssume(ask("first", 300)).fits) << "no other comes before it";
  later.order.releases = announced;
  EXPECT_FALSE(view.isOutdated(later.order));
  EXPECT_TRUE(view.decideAndAssume(later).fits);
}

TEST_F(AllocatorTest, AResizeThatGrowsYieldsToEarlierRequestsAndOneThatShrinksDoesNot) {
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  device("d", "n1", "Bound");
  const auto resized = *stores.devices.get({"", "d"});
  auto grows = ask("k", 700), shrinks = ask("k", 500);
  EXPECT_FALSE(view.decideResize(grows, resized, false)) << "others come first";
  EXPECT_TRUE(view.decideResize(shrinks, resized, false).value().inPlace);
  ASSERT_TRUE(view.decideAndAssume(ask("other", 100)).fits) << view.allocationMap().totals().usedCore;
  grows.order.releases = shrinks.order.releases = view.releases();
  view.forget("other");
  EXPECT_FALSE(view.decideResize(grows, resized, true)) << "the release belongs to the first request";
  EXPECT_TRUE(view.decideResize(shrinks, resized, true).value().inPlace);
  grows.order.releases = view.releases();
  EXPECT_TRUE(view.decideResize(grows, resized, true).value().inPlace);
  EXPECT_TRUE(view.decideResize(grows, resized, true).value().inPlace) << "its own earlier decision is no release";
}

TEST_F(AllocatorTest, DroppingTheOwnEarlierDecisionDoesNotOutdateARequest) {
  auto again = ask("k", 600);
  ASSERT_TRUE(view.decideAndAssume(again).fits);
  again.order.releases = view.releases();
  EXPECT_TRUE(view.decideAndAssume(again).fits);
  again.order.releases = view.releases();
  EXPECT_TRUE(view.decideGang({ask("g", 100)}, {{}}));
}

TEST_F(AllocatorTest, ReportsEachDecision) {
  std::vector<bool> answers;
  view.onDecision([&](bool fits, double seconds) {
    EXPECT_GE(seconds, 0);
    answers.push_back(fits);
  });
  (void)view.decideAndAssume(ask("a", 100));
  (void)view.decideTogether({ask("b", 100), ask("c", 100)}, {});
  (void)view.decideTogether({ask("d", 900), ask("e", 900)}, {});
  EXPECT_EQ(answers, (std::vector<bool>{true, true, false}));
}

TEST_F(AllocatorTest, ADeviceOfTheClaimThatIsKnownAlreadyTakesTheDecisionsPlace) {
  node("n2");
  card("c1", "n2");
  device("d", "n1", "");
  grown = 0;
  // Decides as if the device were unknown. The decision goes to n2, because the device has taken n1's capacity.
  const auto decision = view.decideAndAssume(ask("k", 600));
  ASSERT_EQ(decision.node, "n2");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 1200);
  view.confirm("k", *stores.devices.get({"", "d"}));
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  EXPECT_EQ(grown, 1) << "whoever waits for a card of n2 must hear of it";
  EXPECT_FALSE(view.hasAssumptions());
}

TEST_F(AllocatorTest, ADeviceThatIsNotTheDecisionFreesWhatWasDecided) {
  node("n2");
  card("c1", "n2");
  auto elsewhere = ask("k", 600);
  elsewhere.request.pinnedNode = "n2";
  ASSERT_TRUE(view.decideAndAssume(elsewhere).fits);
  grown = 0;
  device("d", "n1", "");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  EXPECT_EQ(grown, 1);
}

TEST_F(AllocatorTest, ADeviceThatComesToItsClaimLaterTakesTheDecisionsPlace) {
  node("n2");
  card("c1", "n2");
  device("d", "n1", "Available", "");
  ASSERT_EQ(view.decideAndAssume(ask("k", 300)).node, "n2");
  device("d", "n1", "Available", "k");  // chosen by name
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  EXPECT_FALSE(view.hasAssumptions());
}

TEST_F(AllocatorTest, ADeviceThatIsGoingDoesNotTakeANewDecisionsPlace) {
  device("d", "n1", "");
  ASSERT_TRUE(view.decideAndAssume(ask("k", 300)).fits);
  auto going = *stores.devices.get({"", "d"});
  going.metadata.deletionTimestamp = "2026-01-02T03:04:05Z";
  going.metadata.resourceVersion = next();
  stores.devices.informed(going);
  EXPECT_TRUE(view.hasAssumptions());
}

TEST_F(AllocatorTest, DecidingAnewWakesThoseWhoWaitForWhatWasDecidedBefore) {
  node("n2");
  card("c1", "n2");
  auto on = ask("k", 600);
  on.request.pinnedNode = "n1";
  ASSERT_TRUE(view.decideAndAssume(on).fits);
  grown = 0;
  ASSERT_TRUE(view.decideAndAssume(on).fits);
  EXPECT_EQ(grown, 0) << "the same again frees nothing";
  on.request.pinnedNode = "n2";
  ASSERT_TRUE(view.decideAndAssume(on).fits);
  EXPECT_EQ(grown, 1);
  auto never = ask("k", 600);
  never.request.models = {"none"};
  EXPECT_FALSE(view.decideAndAssume(never).fits);
  EXPECT_EQ(grown, 2);
  EXPECT_FALSE(view.decideAndAssume(never).fits);
  EXPECT_EQ(grown, 2) << "nothing was given up";
  ASSERT_TRUE(view.decideAndAssume(ask("k", 300)).fits);
  EXPECT_TRUE(
      view.decideTogether({ask("k", 900), ask("l", 900)}, [](auto name) { return name == "n1"; }).decisions.empty());
  EXPECT_EQ(grown, 3);
  EXPECT_EQ(view.allocationMap().totals().usedCore, 0);
}

TEST_F(AllocatorTest, ADecisionEndsWithItsClaim) {
  cache::Claim claim;
  claim.metadata.name = "c";
  claim.metadata.namespace_ = "ns";
  claim.metadata.uid = "k";
  claim.metadata.resourceVersion = next();
  stores.claims.informed(claim);
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  grown = 0;
  stores.claims.observedGone({"ns", "c"}, "k");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 0);
  EXPECT_EQ(grown, 1);
}

TEST_F(AllocatorTest, OnlyTheDecisionThatWasMeantIsForgotten) {
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  const auto first = view.assumptions();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].claimUid, "k");
  EXPECT_EQ(first[0].claim, "ns/k");
  EXPECT_EQ(first[0].cards, std::vector<std::string>{"c0"});
  ASSERT_TRUE(view.decideAndAssume(ask("k", 600)).fits);
  EXPECT_FALSE(view.forgetDecision("k", first[0].number));
  EXPECT_TRUE(view.hasAssumptions());
  grown = 0;
  EXPECT_TRUE(view.forgetDecision("k", view.assumptions()[0].number));
  EXPECT_FALSE(view.hasAssumptions());
  EXPECT_EQ(grown, 1);
}

TEST_F(AllocatorTest, WhateverChangesOfACardWakesThoseWhoWait) {
  const std::vector<std::function<void(v1alpha::Card&)>> changes = {[](auto& c) { c.milliTflops = 65'000; },
                                                                    [](auto& c) { c.model = "A100"; },
                                                                    [](auto& c) { c.topology.numa = 1; },
                                                                    [](auto& c) {
                                                                      c.topology.links.push_back({"x", "nvlink", 2});
                                                                    },
                                                                    [](auto& c) { c.nodeName = "n2"; },
                                                                    [](auto& c) { c.index = 3; },
                                                                    [](auto& c) { c.smCount = 40; },
                                                                    [](auto& c) { c.core = 2000; },
                                                                    [](auto& c) { c.memory = 5000; },
                                                                    [](auto& c) { c.uuid = "GPU-other"; },
                                                                    [](auto& c) { c.topology.pcie = "00:01"; },
                                                                    [](auto& c) { c.memory = 100; }};
  node("n2");
  auto gpu = makeCard("c0", "n1");
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i](*gpu.spec.card);
    gpu.metadata.resourceVersion = next();
    grown = 0;
    stores.cards.informed(gpu);
    EXPECT_EQ(grown, 1) << "change " << i;
    gpu.metadata.resourceVersion = next();
    gpu.status.phase = "Pending";  // without entries
    gpu.spec.allocations["uid-" + std::to_string(i)] = {"d", "ns/c", 1, 1};
    stores.cards.informed(gpu);
    EXPECT_EQ(grown, 1) << "an entry more is no room, after change " << i;
  }
}

TEST_F(AllocatorTest, TogetherWithoutADeviceThatWouldGo) {
  node("n2");
  card("c1", "n2");
  device("d", "n1", "", "a");  // 600 of c0
  const auto onlyN1 = [](std::string_view name) { return name == "n1"; };
  EXPECT_TRUE(view.decideTogether({ask("b", 500)}, onlyN1).decisions.empty());
  EXPECT_FALSE(view.queries().wouldFitTogether({ask("a", 500), ask("b", 500)}, onlyN1, {}));
  EXPECT_TRUE(view.queries().wouldFitTogether({ask("a", 500), ask("b", 500)}, onlyN1, {"d"}));
  EXPECT_TRUE(view.queries().wouldFitTogether({ask("a", 500), ask("b", 500)}, {}, {}));  // fits on n2
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  EXPECT_FALSE(view.hasAssumptions());
  EXPECT_EQ(view.queries().copy().state().check(), "");
}

TEST_F(AllocatorTest, WhoHasToGoIsFoundOnOneCopyUntilSomethingChanges) {
  device("d", "n1", "Pending");
  const auto victims = [&] {
    std::string all;
    for (const auto& victim : view.queries().preempt(ask("x", 700), {}, {}, {}).victims) all += victim.device + " ";
    return all;
  };
  EXPECT_EQ(view.queries().copies(), 0u);
  EXPECT_EQ(victims(), "uid-d ");
  EXPECT_EQ(victims(), "uid-d ");
  EXPECT_EQ(view.queries().copies(), 1u);
  ASSERT_TRUE(view.decideAndAssume(ask("small", 100)).fits);
  EXPECT_EQ(victims(), "uid-d ");
  EXPECT_EQ(view.queries().copies(), 2u) << "a decision is a change";
  card("c1", "n1");
  EXPECT_EQ(victims(), "") << "there is room now";
  EXPECT_EQ(view.queries().copies(), 3u);
}

TEST_F(AllocatorTest, DecisionsAreMadeWhileTheMapOfALargeClusterIsDrawn) {
  for (int n = 0; n < 2000; ++n) {
    const auto name = "m" + std::to_string(n);
    node(name);
    card("card-" + name, name);
  }
  std::atomic<int> decided = 0;
  const auto deciding = decideUntilDestroyed(decided);
  for (const bool map : {true, false}) {
    // Another thread can decide between two cards only if the view releases the lock.
    bool between = false;
    for (int tries = 0; tries < 1000 && !between; ++tries) {
      const int before = decided;
      if (map)
        EXPECT_EQ(view.allocationMap().map().nodes.size(), 2001u);
      else
        EXPECT_EQ(view.allocationMap().totals().cards, 2001);
      between = decided - before > 2;
    }
    EXPECT_TRUE(between);
  }
}

TEST_F(AllocatorTest, TheMapHasWhatIsUsedBesideWhatIsGranted) {
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}, {"uid-idle", {"idle", "ns/i", 100, 100}}});
  device("d", "n1", "Bound");
  device("idle", "n1", "Bound", "i");
  EXPECT_FALSE(view.allocationMap().map().nodes.at(0).cards.at(0).usage);
  auto gpu = *stores.cards.get({"", "c0"});
  gpu.metadata.resourceVersion = next();
  gpu.status.usage = v1alpha::CardUsage{500, 60, {{"uid-d", {90, 40}}}, ""};
  const auto before = grown;
  stores.cards.informed(gpu);
  EXPECT_EQ(grown, before);
  const auto shown = view.allocationMap().map().nodes.at(0).cards.at(0);
  EXPECT_EQ(shown.usage, gpu.status.usage);
  ASSERT_EQ(shown.allocations.size(), 2u);
  EXPECT_EQ(shown.allocations[0].usage, (v1alpha::DeviceUsage{90, 40}));
  EXPECT_EQ(shown.allocations[1].usage, (v1alpha::DeviceUsage{0, 0})) << "those that use nothing are left out";
}

TEST_F(AllocatorTest, TotalsCountCardsByWhatIsLeftOfThem) {
  card("c1", "n1");
  card("c2", "n1", {{"uid-x", {"x", "ns/x", 1000, 10}}});
  card("c3", "n1", {{"uid-y", {"y", "ns/y", 10, 1000}}});
  card("c4", "n1", {{"uid-z", {"z", "ns/z", 10, 10}}});
  auto broken = makeCard("c5", "n1");
  broken.status.phase = "Failed";
  stores.cards.informed(broken);
  const auto totals = view.allocationMap().totals();
  EXPECT_EQ(totals.free, 2);
  EXPECT_EQ(totals.full, 2);
  EXPECT_EQ(totals.partly, 1);
  EXPECT_EQ(totals.quarantined, 1);
  EXPECT_EQ(totals.offered, 5);
}

TEST_F(AllocatorTest, ATakeLastsUntilDeviceAndEntryAreGone) {
  device("d", "n1", "");
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  stores.devices.observedGone({"", "d"}, "uid-d");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 600);
  EXPECT_EQ(view.allocationMap().audit("c0").entryWithoutDevice.size(), 1u);
  card("c0", "n1");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 0);
  EXPECT_EQ(grown, 1);
}

TEST_F(AllocatorTest, AReappearedCardIsNotOfferedBeforeItsEntriesAreBack) {
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  device("d", "n1", "Bound");
  EXPECT_EQ(view.allocationMap().quarantineReason("c0"), "");
  stores.cards.observedGone({"", "c0"}, "card-c0");
  auto again = makeCard("c0", "n1");
  again.metadata.uid = "card-c0-again";
  stores.cards.informed(again);
  EXPECT_NE(view.allocationMap().quarantineReason("c0"), "");
  EXPECT_FALSE(view.decideAndAssume(ask("x", 100)).fits);
  EXPECT_EQ(view.allocationMap().audit("c0").deviceWithoutEntry.size(), 1u);
  again.metadata.resourceVersion = next();
  again.spec.allocations["uid-d"] = {"d", "ns/c", 600, 100};
  stores.cards.informed(again);
  EXPECT_TRUE(view.decideAndAssume(ask("x", 100)).fits);
}

TEST_F(AllocatorTest, AUuidOnAnotherNodeIsQuarantinedUntilItsDevicesAreGone) {
  node("n2");
  device("d", "n1", "");
  card("c0", "n2");
  EXPECT_NE(view.allocationMap().quarantineReason("c0"), "");
  EXPECT_FALSE(view.decideAndAssume(ask("x", 100)).fits);
  stores.devices.observedGone({"", "d"}, "uid-d");
  EXPECT_TRUE(view.decideAndAssume(ask("x", 100)).fits);
}

/// Proves that a thousand claims that tolerate none of the nodes do not cause a thousand searches of all nodes.
TEST_F(AllocatorTest, WhatFitsNoneOfTheSameNodesIsSearchedOnceUntilSomethingBecomesFree) {
  node("n2");
  card("c0", "n1");
  card("c1", "n2");
  int calls = 0;
  const auto none = [&calls](std::string_view) {
    ++calls;
    return false;
  };
  auto first = ask("a", 300);
  first.nodes = "tolerates nothing";
  EXPECT_FALSE(view.decideAndAssume(first, none).fits);
  EXPECT_GT(calls, 0);
  calls = 0;
  auto second = ask("b", 300);
  second.nodes = first.nodes;
  EXPECT_FALSE(view.decideAndAssume(second, none).fits);
  EXPECT_EQ(calls, 0);
  second.nodes = "tolerates something";
  EXPECT_TRUE(view.decideAndAssume(second, [](std::string_view) { return true; }).fits);
  calls = 0;
  EXPECT_FALSE(view.decideAndAssume(first, none).fits);
  EXPECT_EQ(calls, 0);
  view.forget("b");
  EXPECT_FALSE(view.decideAndAssume(first, none).fits);
  EXPECT_GT(calls, 0);
}

TEST_F(AllocatorTest, TogetherMeansOneNodeOrNothing) {
  node("n2");
  card("c1", "n2");
  card("c2", "n2");
  auto a = ask("a", 700), b = ask("b", 700);
  const auto both = view.decideTogether({a, b}, {}).decisions;
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].node, "n2");
  EXPECT_EQ(both[1].node, "n2");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 1400);
  EXPECT_TRUE(view.decideTogether({ask("e", 700), ask("f", 700)}, {}).decisions.empty());
  EXPECT_EQ(view.allocationMap().totals().usedCore, 1400);
}

TEST_F(AllocatorTest, AGangIsAssumedAsAWholeOrNotAtAll) {
  node("n2");
  card("c1", "n2");
  const std::vector gang{ask("a", 700), ask("b", 700)};
  const std::vector<Allocator::GangMemberConstraints> any(2);
  const auto both = view.decideGang(gang, any);
  ASSERT_TRUE(both);
  ASSERT_EQ(both->decisions.size(), 2u);
  EXPECT_NE(both->decisions[0].node, both->decisions[1].node);
  EXPECT_EQ(view.allocationMap().totals().usedCore, 1400);
  EXPECT_FALSE(view.decideGang(gang, any)) << "it is decided already";
  EXPECT_EQ(view.decidedInGang("b"), both->decisions[1]);
  grown = 0;
  const auto other = view.decideGang({ask("c", 300), ask("d", 300), ask("e", 300)}, {{}, {}, {}});
  ASSERT_TRUE(other && other->decisions.empty());
  EXPECT_EQ(other->lacking, (scheduler::GangShort{2, 2, "", std::nullopt}));
  EXPECT_EQ(view.allocationMap().totals().usedCore, 1400);
  EXPECT_EQ(grown, 0) << "what is tried frees nothing";
  EXPECT_EQ(view.queries().copy().state().check(), "");
}

TEST_F(AllocatorTest, WhatWasDecidedInAGangWaitsForTheMembersOwnStep) {
  node("n2");
  card("c1", "n2");
  ASSERT_TRUE(view.decideGang({ask("a", 600), ask("b", 600)}, {{}, {}}));
  EXPECT_TRUE(view.decidedInGang("a"));
  device("d", "n1", "", "a");  // the member's intent is written
  EXPECT_FALSE(view.decidedInGang("a"));
  EXPECT_TRUE(view.decidedInGang("b"));
  EXPECT_FALSE(view.decideGang({ask("a", 600)}, {{}})) << "it has a device";
  view.forget("b");
  EXPECT_FALSE(view.decidedInGang("b"));
  const auto again = view.decideGang({ask("b", 300)}, {{}});
  ASSERT_TRUE(again && again->decisions.size() == 1);
  ASSERT_TRUE(view.decideAndAssume(ask("b", 300)).fits);
  EXPECT_FALSE(view.decidedInGang("b")) << "decided for by itself since";
}

TEST_F(AllocatorTest, AGangStaysOnItsMembersNodesAndInOneGroup) {
  for (const auto* name : {"n2", "n3", "n4"}) {
    node(name);
    card(std::string("c-") + name, name);
  }
  const std::vector gang{ask("a", 700), ask("b", 700)};
  const auto notN3 = [](std::string_view name) { return name != "n3"; };
  const std::vector<scheduler::TopologyGroup> racks{{"x", {"n1", "n3"}}, {"y", {"n2", "n4"}}};
  const auto got = view.decideGang(gang, {{notN3}, {notN3}}, &racks);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->group, "y");
  ASSERT_EQ(got->decisions.size(), 2u);
  EXPECT_EQ(got->decisions[0].node, "n2");
  EXPECT_EQ(got->decisions[1].node, "n4");
}

TEST_F(AllocatorTest, AGangIsWithinTheQuotasOfItsNamespace) {
  node("n2");
  card("c1", "n2");
  cache::Quota quota;
  quota.metadata.namespace_ = "ns";
  quota.metadata.name = "team";
  quota.metadata.uid = "quota";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "100"}};
  stores.quotas.informed(quota);
  const auto over = view.decideGang({ask("a", 700), ask("b", 700)}, {{}, {}});
  ASSERT_TRUE(over && over->lacking && over->lacking->excess);
  EXPECT_EQ(over->lacking->excess->quota, "team");
  EXPECT_EQ(view.allocationMap().totals().usedCore, 0);
  EXPECT_FALSE(view.decideGang({ask("a", 700), ask("b", 300)}, {{}, {}})->lacking);
  EXPECT_FALSE(view.decideAndAssume(ask("c", 100)).fits);
}

TEST_F(AllocatorTest, OfTwoGangsThatNeedTheSameCardsOneIsWhole) {
  for (int n = 2; n <= 8; ++n) {
    node("n" + std::to_string(n));
    card("c" + std::to_string(n), "n" + std::to_string(n));
  }
  const auto gangOf = [](const std::string& name) {
    std::vector<Allocator::SchedulingRequest> asks;
    for (int m = 0; m < 5; ++m) asks.push_back(ask(name + std::to_string(m), 900));  // five of eight cards
    return asks;
  };
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> whole = 0;
    {
      const auto decide = [&](const std::string& name) {
        if (!view.decideGang(gangOf(name), std::vector<Allocator::GangMemberConstraints>(5))->decisions.empty())
          ++whole;
      };
      const std::jthread one(decide, "a"), other(decide, "b");
    }
    ASSERT_EQ(whole, 1);
    ASSERT_EQ(view.allocationMap().totals().usedCore, 5 * 900);
    for (const auto& assumed : view.assumptions()) view.forget(assumed.claimUid);
  }
}

TEST_F(AllocatorTest, DecisionsAreMadeWhileALargeClusterIsExplained) {
  for (int n = 0; n < 2000; ++n) {
    const auto name = "m" + std::to_string(n);
    node(name);
    card("card-" + name, name);
  }
  std::atomic<int> decided = 0;
  const auto deciding = decideUntilDestroyed(decided);
  // Both are counted under the view's lock: they differ only if the lock was released in between.
  int first = 0, last = 0;
  for (int tries = 0; tries < 1000 && first == last; ++tries) {
    int decisions = 0;
    const auto e = view.queries().explain(ask("x", 2000).request, [&](std::string_view) {
      (decisions++ == 0 ? first : last) = decided;
      return true;
    });
    EXPECT_EQ(e.stages.front().before, 2001);
  }
  EXPECT_LT(first, last);
}

TEST_F(AllocatorTest, DecisionsAreMadeWhileAGangIsDecidedInOneGroup) {
  std::vector<scheduler::TopologyGroup> all{{"linux", {}}};
  for (int n = 0; n < 1000; ++n) {
    const auto name = "m" + std::to_string(n);
    node(name);
    card("card-" + name, name);
    all.front().nodes.push_back(name);
  }
  std::atomic<int> decided = 0;
  const auto deciding = decideUntilDestroyed(decided);
  // Both are counted under the view's lock: they differ only if the lock was released in between.
  int first = 0, last = 0;
  for (int tries = 0; tries < 100 && first == last; ++tries) {
    int decisions = 0;
    std::vector<Allocator::SchedulingRequest> asks;
    std::vector<Allocator::GangMemberConstraints> places;
    for (int m = 0; m < 16; ++m) {
      asks.push_back(ask("g" + std::to_string(m), 100));
      places.emplace_back().suits = [&, m](std::string_view) {  // a predicate per member
        (decisions++ == 0 ? first : last) = decided;
        return m < 15;
      };
    }
    const auto gang = view.decideGang(asks, places, &all);
    ASSERT_TRUE(gang && gang->lacking);
    EXPECT_EQ(gang->lacking->fit, 15U);
  }
  EXPECT_LT(first, last);
}

TEST_F(AllocatorTest, TheMapNamesEveryTake) {
  device("d", "n1", "Bound");
  card("c0", "n1", {{"uid-d", {"d", "ns/c", 600, 100}}});
  (void)view.decideAndAssume(ask("x", 100));
  const auto map = view.allocationMap().map();
  ASSERT_EQ(map.nodes.size(), 1u);
  ASSERT_EQ(map.nodes[0].cards.size(), 1u);
  const auto& card = map.nodes[0].cards[0];
  EXPECT_EQ(card.usedCore, 700);
  ASSERT_EQ(card.allocations.size(), 2u);
  EXPECT_EQ(card.allocations[0].claim, "ns/x");
  EXPECT_EQ(card.allocations[1].claim, "ns/c");
  EXPECT_EQ(card.allocations[1].phase, "Bound");
}

// A notification may be outdated when it reaches a listener. Here an earlier listener changes the store during the
// notification.
TEST(AllocatorChanges, OldNewsIsNotTakenForTheLatest) {
  for (const bool gone : {false, true}) {
    cache::Stores stores;
    const auto card = [](int version, int64_t memory) {
      cache::Gpu gpu;
      gpu.metadata.name = "c";
      gpu.metadata.uid = "u";
      gpu.metadata.resourceVersion = std::to_string(version);
      gpu.spec.card.emplace();
      gpu.spec.card->uuid = "GPU-c";
      gpu.spec.card->nodeName = "n";
      gpu.spec.card->memory = memory;
      return gpu;
    };
    bool first = true;
    stores.cards.listen([&](const cache::Gpu*, const cache::Gpu*) {
      if (!std::exchange(first, false)) return;
      if (gone)
        stores.cards.observedGone({"", "c"}, "u");
      else
        stores.cards.informed(card(2, 2000));
    });
    const Allocator view(stores);
    stores.cards.informed(card(1, 1000));
    const auto map = view.allocationMap().map();
    if (gone) {
      EXPECT_EQ(map.nodes.size(), 0u);
    } else {
      ASSERT_EQ(map.nodes.size(), 1u);
      EXPECT_EQ(map.nodes[0].cards[0].memory, 2000);
    }
  }
}

/// Everything that a view reports about its cards.
std::string textOf(const Allocator& view) {
  std::ostringstream out;
  for (const auto& node : view.allocationMap().map().nodes) {
    out << "node " << node.name << (node.schedulable ? "" : " closed") << "\n";
    for (const auto& card : node.cards) {
      out << "  " << card.name << " " << card.uuid << " " << card.core << "/" << card.memory << " used "
          << card.usedCore << "/" << card.usedMemory << " [" << card.why << "]\n";
      for (const auto& take : card.allocations)
        out << "    " << take.deviceUid << " " << take.device << " " << take.claim << " " << take.phase << " "
            << take.core << "/" << take.memory << "\n";
      if (view.queries().copy().findCard(card.name).healthy != card.offered)
        out << "    the scheduler thinks otherwise\n";
      const auto audit = view.allocationMap().audit(card.name);
      out << "    ledger " << audit.ledgerCore << "/" << audit.ledgerMemory << " of " << audit.core << ", used "
          << audit.usedCore;
      for (const auto& uid : audit.entryWithoutDevice) out << " +" << uid;
      for (const auto& name : audit.deviceWithoutEntry) out << " -" << name;
      out << "\n";
    }
  }
  const auto totals = view.allocationMap().totals();
  out << totals.cards << " cards, " << totals.offered << " offered, " << totals.allocations << " takes, "
      << totals.usedCore << " used";
  return out.str();
}

// The order of events does not matter: cards are added, changed, moved and deleted; devices appear before their cards
// or are recreated under their names; entries exist without devices and devices without entries.
TEST(AllocatorProperty, EqualsOneThatSeesOnlyTheEnd) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    cache::Stores stores;
    Allocator view(stores);
    std::map<std::string, cache::Gpu> gpus;
    uint64_t version = 0;
    const auto pick = [&random](unsigned n) { return std::to_string(random() % n); };
    const auto gone = [&](const std::string& name) {
      const auto it = gpus.find(name);
      if (it == gpus.end()) return;
      stores.storeOf(it->second).observedGone({"", name}, it->second.metadata.uid);
      gpus.erase(it);
    };
    const auto put = [&](cache::Gpu gpu) {
      const auto& name = gpu.metadata.name;
      const auto it = gpus.find(name);
      gpu.metadata.uid = it != gpus.end() ? it->second.metadata.uid : "uid-" + name + "-" + std::to_string(version);
      gpu.metadata.resourceVersion = std::to_string(++version);
      // A device's cards are immutable.
      if (it != gpus.end() && !gpu.isCard()) gpu.spec.cards = it->second.spec.cards;
      stores.storeOf(gpu).informed(gpu);
      gpus[name] = gpu;
    };
    for (int step = 0; step < 120; ++step) {
      cache::Gpu gpu;
      if (random() % 2 == 0) {
        gpu.metadata.name = "c" + pick(4);
        if (random() % 5 == 0) {
          gone(gpu.metadata.name);
          continue;
        }
        gpu.spec.card.emplace();
        gpu.spec.card->uuid = "GPU-" + gpu.metadata.name;
        gpu.spec.card->nodeName = "n" + pick(2);
        gpu.spec.card->memory = random() % 4 == 0 ? 500 : 1000;
        if (random() % 6 == 0) gpu.status.phase = "Failed";
        for (const auto& [name, other] : gpus)
          if (!other.isCard() && random() % 3 != 0) gpu.spec.allocations[other.metadata.uid] = {name, "ns/c", 100, 10};
        if (random() % 4 == 0) gpu.spec.allocations["nobody's"] = {"x", "ns/x", 50, 5};
      } else {
        gpu.metadata.name = "d" + pick(6);
        if (random() % 4 == 0) {
          gone(gpu.metadata.name);
          continue;
        }
        gpu.spec.nodeName = random() % 8 == 0 ? "" : "n" + pick(2);
        for (unsigned i = 0; i <= random() % 2; ++i) {
          const int64_t core = random() % 5 == 0 ? 200 : 100;
          gpu.spec.cards.push_back({"c" + pick(4), "", core, 10, core, 10});
        }
        gpu.spec.claimRef = v1alpha::ClaimRef{"ns", "c", "k"};
        gpu.status.phase = random() % 3 == 0 ? "" : "Bound";
      }
      put(gpu);
    }
    cache::Stores last;
    Allocator fresh(last);
    for (const auto& [name, gpu] : gpus) last.storeOf(gpu).informed(gpu);
    ASSERT_EQ(textOf(view), textOf(fresh)) << "round " << round;
    ASSERT_EQ(textOf(view).find("otherwise"), std::string::npos) << textOf(view);
    ASSERT_EQ(view.queries().copy().state().check(), "");
    for (const auto& [name, gpu] : std::map(gpus)) gone(name);
    EXPECT_EQ(view.allocationMap().totals().allocations, 0);
    EXPECT_EQ(view.allocationMap().map().nodes.size(), 0u);
  }
}

TEST_F(AllocatorTest, AMapPageHasItsNodesAlone) {
  for (const char* name : {"n2", "n3", "n4"}) {
    node(name);
    card("c-" + std::string(name), name);
  }
  device("d", "n1", "Bound");
  const auto names = [&](const MapPage& page) {
    std::string all;
    const auto map = view.allocationMap().map(page);
    for (const auto& each : map.nodes) all += each.name + "(" + std::to_string(each.cards.size()) + ") ";
    return all + "-> " + map.next;
  };
  EXPECT_EQ(names({}), "n1(1) n2(1) n3(1) n4(1) -> ");
  EXPECT_EQ(names({{}, {}, 2}), "n1(1) n2(1) -> n2");
  EXPECT_EQ(names({{}, "n2", 2}), "n3(1) n4(1) -> ");
  EXPECT_EQ(names({{}, "n4", 2}), "-> ");
  EXPECT_EQ(names({{}, {}, 2, true}), "n2(1) n3(1) -> n3") << "n1 is used";
  EXPECT_EQ(names({"n3"}), "n3(1) -> ");
  EXPECT_EQ(names({"none"}), "-> ");
}

}  // namespace
}  // namespace egpu::allocator
