// Capacity that is withheld from other claims: nominations, and reservations of nodes for claims, pods and gangs that
// have waited long.
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/allocator/reservation_budget.h"
#include "tests/allocator/allocator_fixture.h"

namespace egpu::allocator {
namespace {

class WithheldCapacityTest : public AllocatorTest {
 protected:
  void SetUp() override {
    AllocatorTest::SetUp();
    allow(100);
  }
  /// Limits the share of free cards that may be withheld for a claim, in percent.
  void allow(int64_t percent) {
    scheduler::ReservationLimits limits;
    limits.freeCardPercent = percent;
    view.setReservationLimits(limits);
  }
  /// Adds a pod that uses the claim of this device and is controlled by an object of that kind; empty: no controller.
  void podOn(const std::string& device, const std::string& kind, bool deleting = false) {
    auto changed = *stores.devices.get({"", device});
    changed.metadata.resourceVersion = next();
    changed.spec.claimRef = v1alpha::ClaimRef{"ns", "of-" + device, "of-" + device};
    stores.devices.informed(changed);
    core::Pod pod;
    pod.metadata.name = pod.metadata.uid = "pod-" + device;
    pod.metadata.namespace_ = "ns";
    pod.metadata.resourceVersion = next();
    if (deleting) pod.metadata.deletionTimestamp = "1970-01-01T00:10:00Z";
    pod.nodeName = changed.spec.nodeName;
    pod.resourceClaims = {{"gpu", "of-" + device}};
    if (!kind.empty()) {
      core::OwnerReference owner;
      owner.kind = kind;
      owner.name = owner.uid = kind;
      owner.controller = true;
      pod.metadata.ownerReferences = {owner};
    }
    stores.pods.informed(pod);
  }
  /// Returns true if the claim does not fit. It has waited since 0.
  bool waits(const std::string& uid, int64_t now, int64_t cards = 1) {
    auto asked = waiter(uid, 1000);
    asked.request.cards = cards;
    asked.order = {0, 0, 0, now};
    return !view.decideAndAssume(asked).fits;
  }
  /// Returns the request of a claim in the store.
  Allocator::SchedulingRequest waiter(const std::string& uid, int64_t core) {
    cache::Claim claim;
    claim.metadata.name = claim.metadata.uid = uid;
    claim.metadata.namespace_ = "ns";
    claim.metadata.resourceVersion = next();
    stores.claims.informed(claim);
    return ask(uid, core);
  }
  void gone(const std::string& uid) {
    auto claim = *stores.claims.get({"ns", uid});
    claim.metadata.resourceVersion = next();
    stores.claims.informedGone(claim);
  }
  void goneDevice(const std::string& name) {
    auto device = *stores.devices.get({"", name});
    device.metadata.resourceVersion = next();
    stores.devices.informedGone(device);
  }
  /// Adds nodes n2 … of one card each, and a device on each card that is held since that second; n1 has none.
  void full(const std::vector<int64_t>& since) {
    for (std::size_t i = 0; i < since.size(); ++i) {
      const auto n = std::to_string(i + 2);
      node("n" + n);
      card("c" + n, "n" + n);
      hold("d" + n, "n" + n, "c" + n, since[i]);
    }
  }
  void hold(const std::string& name, const std::string& on, const std::string& card, int64_t since,
            int64_t core = 1000) {
    char created[32];
    std::snprintf(created, sizeof created, "1970-01-01T%02d:%02d:%02dZ", static_cast<int>(since / 3600),
                  static_cast<int>(since / 60 % 60), static_cast<int>(since % 60));
    cache::Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = "uid-" + name;
    gpu.metadata.resourceVersion = next();
    gpu.metadata.creationTimestamp = created;
    gpu.spec.nodeName = on;
    gpu.spec.cards = {{card, card, core, 100, core, 100}};
    gpu.status.phase = "Pending";  // without entries
    stores.devices.informed(gpu);
  }
  /// Members of one gang, created and waiting since that second.
  std::vector<Allocator::SchedulingRequest> gang(const std::string& name, int size, int64_t since,
                                                 int64_t core = 1000) {
    std::vector<Allocator::SchedulingRequest> asks;
    for (int i = 0; i < size; ++i) {
      asks.push_back(waiter(name + std::to_string(i), core));
      asks.back().order = {0, since, since, since};
    }
    return asks;
  }
  bool gangFits(std::vector<Allocator::SchedulingRequest>& asks, int64_t now) {
    for (auto& each : asks) each.order.now = now;
    const auto decided = view.decideGang(asks, std::vector<Allocator::GangMemberConstraints>(asks.size()));
    return decided && !decided->decisions.empty();
  }
  bool fits(const std::string& uid, int64_t now) {
    auto asked = waiter(uid, 1000);
    asked.order = {0, now, now, now};
    return view.decideAndAssume(asked).fits;
  }
  std::set<std::string> reserved() const {
    std::set<std::string> nodes;
    for (const auto& each : view.queries().nodeReservations()) nodes.insert(each.node);
    return nodes;
  }
};
using Names = std::set<std::string>;

TEST_F(WithheldCapacityTest, ANodeIsReservedByTheTimesOfTheDevicesThatAreThere) {
  node("n2");
  card("c1", "n2");
  const auto since = [&](const std::string& name, const std::string& uid, const std::string& on,
                         const std::string& card, const std::string& created) {
    cache::Gpu gpu;
    gpu.metadata.name = name;
    gpu.metadata.uid = uid;
    gpu.metadata.resourceVersion = next();
    gpu.metadata.creationTimestamp = created;
    gpu.spec.nodeName = on;
    gpu.spec.cards = {{card, card, 600, 100, 600, 100}};
    gpu.status.phase = "Pending";  // without entries
    stores.devices.informed(gpu);
  };
  const auto reservedAt = [&](int64_t now) {
    auto large = waiter("large", 1000);
    large.order = {0, 0, 0, now};
    EXPECT_FALSE(view.decideAndAssume(large).fits);
    const auto reservations = view.queries().nodeReservations();
    return reservations.empty() ? std::string() : reservations.front().node;
  };
  since("a", "uid-a", "n1", "c0", "1970-01-01T00:00:10Z");
  since("b", "uid-b", "n2", "c1", "1970-01-01T00:15:00Z");
  EXPECT_EQ(reservedAt(1000), "n2") << "the younger one is expected to go first";
  since("a", "uid-other", "n1", "c0", "1970-01-01T00:18:10Z");
  EXPECT_EQ(reservedAt(1100), "n1") << "another device of that name, far younger";
  grown = 0;
  view.releaseReservation("other");
  EXPECT_EQ(grown, 0);
  view.releaseReservation("large");
  EXPECT_TRUE(view.queries().nodeReservations().empty()) << "nobody wants it just now";
  EXPECT_EQ(grown, 1) << "who waits may have the node";
  EXPECT_NE(reservedAt(1200), "");
  view.forget("large");
  EXPECT_TRUE(view.queries().nodeReservations().empty()) << "nothing can be decided for it";
}

TEST_F(WithheldCapacityTest, EveryQueryRespectsNominatedCapacity) {
  cache::Claim owner;
  owner.metadata.name = "owner";
  owner.metadata.namespace_ = "ns";
  owner.metadata.uid = "owner";
  owner.metadata.resourceVersion = next();
  owner.status.phase = "Pending";
  owner.status.priority = 10;
  owner.status.nominated = v1alpha::Nomination{"n1", {{"c0", 600, 100}}, {"somebody"}};
  stores.claims.informed(owner);
  const auto fits = [&](const Allocator::SchedulingRequest& who) {
    const std::string_view only = "n1";
    return view.queries().scoreNodes({who}, {&only, 1}).front().fits;
  };
  auto other = ask("k", 600);
  EXPECT_FALSE(view.decideAndAssume(other).fits);
  EXPECT_FALSE(fits(other));
  EXPECT_FALSE(view.queries().wouldFitTogether({other}, {}, {}));
  EXPECT_TRUE(view.queries().nodesWithheldFrom({other}).contains("n1"));
  EXPECT_TRUE(fits(ask("k", 400))) << "beside it";
  EXPECT_TRUE(fits(ask("owner", 600))) << "it is kept for that one";
  other.order.priority = 20;
  EXPECT_TRUE(fits(other)) << "of higher priority";
  EXPECT_TRUE(view.queries().wouldFitTogether({other}, {}, {}));
  EXPECT_TRUE(view.decideAndAssume(other).fits) << "what was asked has taken nothing";
}

TEST_F(WithheldCapacityTest, NothingIsReservedForAClaimThatWentMeanwhile) {
  hold("d1", "n1", "c0", 0);
  auto large = ask("large", 1000);
  large.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_TRUE(view.queries().nodeReservations().empty());
}

TEST_F(WithheldCapacityTest, WhoFindsNoneDoesNotTakeTheSearchesOfTheNext) {
  hold("d1", "n1", "c0", 0);
  auto hopeless = waiter("hopeless", 1000), large = waiter("large", 1000);
  hopeless.request.cards = 2;  // no node has two
  hopeless.order = large.order = {0, 0, 0, 1000};
  for (const int64_t now : {1000, 1010}) {
    hopeless.order.now = large.order.now = now;
    EXPECT_FALSE(view.decideAndAssume(hopeless).fits);
    EXPECT_FALSE(view.decideAndAssume(large).fits);
  }
  EXPECT_EQ(reserved(), Names{"n1"});
}

TEST_F(WithheldCapacityTest, AGangHasAllItsNodesReservedThoseThatAreFreeToo) {
  full({100, 900, 500});
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 599));
  EXPECT_EQ(reserved(), Names());
  EXPECT_FALSE(gangFits(asks, 1000));
  EXPECT_EQ(reserved(), (Names{"n1", "n3"})) << "one is free, the other is expected first";
  EXPECT_FALSE(fits("small", 1001)) << "n1 would be free";
  auto older = waiter("older", 1000);
  older.order = {0, -1, -1, 1001};
  EXPECT_TRUE(view.decideAndAssume(older).fits) << "it comes before the gang";
  view.forget("older");
  goneDevice("d2");
  EXPECT_TRUE(fits("other", 1002)) << "n2 is kept for nobody";
  goneDevice("d3");
  grown = 0;
  EXPECT_TRUE(gangFits(asks, 1003));
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, NoMoreThanHalfTheNodesForAGangAndForOneAtATime) {
  full({100, 900, 500});
  auto large = gang("large", 3, 0), old = gang("old", 2, 10), young = gang("young", 2, 20);
  hold("d1", "n1", "c0", 990);
  EXPECT_FALSE(gangFits(large, 1000));
  EXPECT_EQ(reserved(), Names()) << "two of four nodes would not do";
  EXPECT_FALSE(gangFits(young, 1001));
  EXPECT_EQ(reserved(), (Names{"n1", "n3"}));
  EXPECT_EQ(view.queries().nodeReservations().front().name, "ns/young0");
  EXPECT_FALSE(gangFits(old, 1002));
  EXPECT_EQ(view.queries().nodeReservations().front().name, "ns/old0") << "it comes first";
  EXPECT_FALSE(gangFits(young, 1010));
  EXPECT_EQ(reserved().size(), 2u);
  for (const auto& uid : {"old0", "old1"}) gone(uid);
  EXPECT_EQ(reserved(), Names());
  EXPECT_FALSE(gangFits(young, 1030));
  EXPECT_EQ(view.queries().nodeReservations().front().name, "ns/young0");
}

TEST_F(WithheldCapacityTest, AGangThatIsNotWholeInADayMayReserveAgainADayLater) {
  full({100, 900, 500});
  hold("d1", "n1", "c0", 990);
  auto asks = gang("g", 2, 0);
  constexpr int64_t day = 86'400;
  EXPECT_FALSE(gangFits(asks, 1000));
  EXPECT_FALSE(gangFits(asks, 1000 + day - 1));
  EXPECT_EQ(reserved().size(), 2u);
  grown = 0;
  EXPECT_FALSE(gangFits(asks, 1015 + day));
  EXPECT_EQ(reserved(), Names());
  EXPECT_EQ(grown, 1) << "who waits may have them";
  EXPECT_FALSE(gangFits(asks, 1014 + 2 * day));
  EXPECT_EQ(reserved(), Names());
  EXPECT_FALSE(gangFits(asks, 1015 + 2 * day));
  EXPECT_EQ(reserved().size(), 2u);
}

TEST_F(WithheldCapacityTest, AGangThatGoesWhileItsNodesAreSearchedReservesNone) {
  full({100, 900, 500});
  auto asks = gang("g", 2, 0);
  std::vector<Allocator::GangMemberConstraints> places(2);
  bool deciding = true;
  places[0].suits = [&](std::string_view) {
    if (!deciding && stores.claims.get({"ns", "g1"})) gone("g1");
    return true;
  };
  for (auto& each : asks) each.order.now = 1000;
  view.onDecision([&](bool, double) { deciding = false; });
  (void)view.decideGang(asks, places);
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, WhatIsOverAQuotaReservesNoNode) {
  full({100, 900, 500});
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 1000));
  ASSERT_EQ(reserved().size(), 2u);
  cache::Quota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  quota.metadata.uid = "team";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "50"}};
  stores.quotas.informed(quota);
  EXPECT_FALSE(gangFits(asks, 1020));
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, NothingGrowsOnANodeThatIsReserved) {
  hold("d1", "n1", "c0", 500, 300);
  const auto small = *stores.devices.get({"", "d1"});
  auto large = waiter("large", 1000);
  large.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  auto grows = ask("k", 400);
  grows.order = {0, 900, 900, 1000};
  EXPECT_EQ(view.queries().withheldFromResize(grows, small), (Queries::WithheldFromResize{{}, true}));
  EXPECT_EQ(view.decideResize(grows, small, true).value().why, reservedNodeText("n1"));
  grows.order.priority = 1;
  EXPECT_EQ(view.queries().withheldFromResize(grows, small), Queries::WithheldFromResize());
  EXPECT_TRUE(view.decideResize(grows, small, true).value().inPlace);
}

TEST_F(WithheldCapacityTest, APodsSeveralClaimsHaveOneNodeReserved) {
  card("c1", "n1");
  full({100, 900});
  hold("d1", "n1", "c1", 800);
  std::vector<Allocator::SchedulingRequest> asks = {waiter("a", 1000), waiter("b", 1000)};
  for (auto& each : asks) each.order = {0, 0, 0, 1000};
  EXPECT_TRUE(view.decideTogether(asks, {}).decisions.empty());
  EXPECT_EQ(reserved(), Names{"n1"}) << "no other has two cards";
  std::swap(asks[0], asks[1]);
  for (auto& each : asks) each.order.now = 1020;
  EXPECT_TRUE(view.decideTogether(asks, {}).decisions.empty());
  EXPECT_EQ(view.queries().nodeReservations().size(), 1u) << "whichever of them is looked at first";
  EXPECT_FALSE(fits("small", 1021)) << "c0 would be free";
  goneDevice("d1");
  EXPECT_EQ(view.decideTogether(asks, {}).decisions.size(), 2u);
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, WhatNobodyAsksForAnyMoreIsGivenUp) {
  full({100, 900, 500});
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(view.hasReservations());
  EXPECT_FALSE(gangFits(asks, 1000));
  using Claims = std::vector<std::string>;
  EXPECT_EQ(view.expireReservations(1119), Claims());
  EXPECT_EQ(view.expireReservations(1120), (Claims{"ns/g0", "ns/g1"})) << "do they still want them?";
  EXPECT_FALSE(gangFits(asks, 1150));
  EXPECT_EQ(view.expireReservations(1749).size(), 2u);
  EXPECT_EQ(reserved().size(), 2u) << "they asked again";
  EXPECT_TRUE(view.hasReservations());
  grown = 0;
  EXPECT_EQ(view.expireReservations(1750), Claims());
  EXPECT_EQ(reserved(), Names());
  EXPECT_EQ(grown, 1) << "who waits may have them";
  EXPECT_FALSE(view.hasReservations());
}

TEST_F(WithheldCapacityTest, AClockThatWasSetBackEndsNothing) {
  full({100, 900, 500});
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 5000));
  view.expireReservations(4999);  // another thread read the clock earlier
  EXPECT_EQ(reserved().size(), 2u);
  view.expireReservations(2000);
  EXPECT_EQ(reserved().size(), 2u);
  view.expireReservations(2600);
  EXPECT_EQ(reserved(), Names()) << "and its time begins anew";
}

TEST_F(WithheldCapacityTest, WhoseCapacityComesFreeMeanwhileRetainsItsNode) {
  hold("d1", "n1", "c0", 0);
  auto large = waiter("large", 1000);
  large.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  ASSERT_EQ(reserved(), Names{"n1"});
  large.order.now = 1020;
  bool decided = false;
  view.onDecision([&](bool, double) {  // between the decision and the search
    if (!std::exchange(decided, true)) goneDevice("d1");
  });
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names{"n1"});
  EXPECT_FALSE(fits("small", 1021));
  EXPECT_TRUE(view.decideAndAssume(large).fits);
}

TEST_F(WithheldCapacityTest, OneThatFindsNoneTakesNobodysNode) {
  hold("d1", "n1", "c0", 0);
  auto hopeless = waiter("hopeless", 1000), large = waiter("large", 1000);
  hopeless.request.cards = 2;  // no node has two
  large.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  ASSERT_EQ(reserved(), Names{"n1"});
  hopeless.order = {0, -1, -1, 1400};  // is first in the order, and at most one node is reserved
  grown = 0;
  EXPECT_FALSE(view.decideAndAssume(hopeless).fits);
  EXPECT_EQ(view.queries().nodeReservations().front().name, "ns/large");
  EXPECT_EQ(grown, 0);
  auto older = waiter("older", 1000);
  older.order = {0, -1, -1, 1402};
  EXPECT_FALSE(view.decideAndAssume(older).fits);
  EXPECT_EQ(view.queries().nodeReservations().front().name, "ns/older");
}

TEST_F(WithheldCapacityTest, NodesWithoutCardsDoNotCount) {
  full({100, 900, 500});
  hold("d1", "n1", "c0", 990);
  for (int i = 0; i < 10; ++i) node("cpu-" + std::to_string(i));
  auto asks = gang("g", 4, 0);
  EXPECT_FALSE(gangFits(asks, 1000));
  EXPECT_EQ(reserved(), Names()) << "all that have any";
}

TEST_F(WithheldCapacityTest, AGangFarOverItsQuotaReservesNone) {
  full({100, 900, 500});
  hold("d1", "n1", "c0", 990);
  cache::Quota quota;
  quota.metadata.name = quota.metadata.uid = "team";
  quota.metadata.namespace_ = "ns";
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "150"}};
  stores.quotas.informed(quota);
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 1000));
  EXPECT_EQ(reserved(), Names());
  quota.metadata.resourceVersion = next();
  quota.spec.hard = {{"gpu-core", "200"}};
  stores.quotas.informed(quota);
  EXPECT_FALSE(gangFits(asks, 1400));
  EXPECT_EQ(reserved().size(), 2u);
}

TEST_F(WithheldCapacityTest, CapacityThatIsNominatedToOthersMakesNobodyGiveUpItsNode) {
  full({500});
  hold("d1", "n1", "c0", 900);
  auto owner = waiter("owner", 1000);
  owner.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(owner).fits);
  ASSERT_EQ(reserved(), Names{"n1"});
  cache::Claim other;
  other.metadata.name = other.metadata.uid = "other";
  other.metadata.namespace_ = "ns";
  other.metadata.resourceVersion = next();
  other.status.phase = "Pending";
  other.status.priority = 10;
  other.status.nominated = v1alpha::Nomination{"n2", {{"c2", 1000, 100}}, {}};
  stores.claims.informed(other);
  goneDevice("d2");
  owner.order.now = 1020;
  EXPECT_FALSE(view.decideAndAssume(owner).fits) << "its free card is another's";
  EXPECT_EQ(reserved(), Names{"n1"});
}

constexpr int64_t kDay = ReservationBudget::kMaxReservationTime;

TEST_F(WithheldCapacityTest, AClaimThatIsNeverServedHasANodeForNoMoreThanADay) {
  hold("d1", "n1", "c0", 100);
  podOn("d1", "Job");  // a Job may run for days
  ASSERT_TRUE(waits("large", 1000));
  EXPECT_EQ(reserved(), Names{"n1"});
  EXPECT_EQ(view.queries().reservationText("large"), "node n1 is reserved for it, for 24 hours at most");
  for (int64_t now = 1100; now < 1000 + kDay; now += 300) ASSERT_TRUE(waits("large", now));
  EXPECT_EQ(reserved(), Names{"n1"});
  grown = 0;
  ASSERT_TRUE(waits("large", 1000 + kDay));
  EXPECT_EQ(reserved(), Names());
  EXPECT_EQ(grown, 1) << "claims that come later may have the node";
  EXPECT_EQ(view.queries().reservationText("large"),
            "no node is reserved for it before 1970-01-03T00:16:40Z: nodes were reserved for it for 24 hours without "
            "success");
  ASSERT_TRUE(waits("large", 999 + 2 * kDay));
  EXPECT_EQ(reserved(), Names());
  ASSERT_TRUE(waits("large", 1000 + 2 * kDay));
  EXPECT_EQ(reserved(), Names{"n1"});
  gone("large");
  EXPECT_EQ(view.queries().reservationText("large"), "");
}

TEST_F(WithheldCapacityTest, AClaimThatIsMadeAgainHasNoDayOfItsOwn) {
  hold("d1", "n1", "c0", 100);
  podOn("d1", "Job");
  std::string uid;
  for (int64_t now = 1000; now <= 4000 + kDay; now += 300) {
    const auto fresh = "large" + std::to_string(now / 30'000);
    if (!uid.empty() && fresh != uid) gone(uid);  // its owner recreates it under a new uid
    uid = fresh;
    ASSERT_TRUE(waits(uid, now));
  }
  EXPECT_EQ(reserved(), Names());
  EXPECT_NE(view.queries().reservationText(uid).find("nodes were reserved for claims of its namespace for 24 hours"),
            std::string::npos)
      << view.queries().reservationText(uid);
}

TEST_F(WithheldCapacityTest, ReservationsThatServedTheirClaimsTakeNoTimeOfTheirNamespace) {
  int64_t now = 1000;
  for (int i = 0; i < 10; ++i) {
    const auto uid = "large" + std::to_string(i), device = "d1" + std::to_string(i);
    hold(device, "n1", "c0", 0);
    podOn(device, "Job");
    for (const auto end = now + 20'000; now < end; now += 500) ASSERT_TRUE(waits(uid, now));
    ASSERT_EQ(reserved(), Names{"n1"}) << i << view.queries().reservationText(uid);
    goneDevice(device);
    ASSERT_FALSE(waits(uid, now));
    view.forget(uid);
    gone(uid);
  }
}

TEST_F(WithheldCapacityTest, NoNodeIsReservedWhoseHoldersShowNoSignOfEnding) {
  full({500, 900});  // n2, n3
  hold("d1", "n1", "c0", 980);
  int64_t now = 1000;
  for (const auto* kind : {"ReplicaSet", "StatefulSet", "DaemonSet"}) {
    podOn("d1", kind);
    podOn("d2", "Job");
    podOn("d3", kind);
    const std::string uid = std::string("of-") + kind;
    ASSERT_TRUE(waits(uid, now += 10));
    EXPECT_EQ(reserved(), Names{"n2"}) << kind << ": the others are younger, and stay";
    gone(uid);
  }
  podOn("d2", "ReplicaSet");
  ASSERT_TRUE(waits("none", 2000));
  EXPECT_EQ(reserved(), Names());
  EXPECT_NE(view.queries().reservationText("none").find("is used by claims that are not expected to end"),
            std::string::npos)
      << view.queries().reservationText("none");
  podOn("d2", "ReplicaSet", true);
  ASSERT_TRUE(waits("none", 2301));
  EXPECT_EQ(reserved(), Names{"n2"}) << "its pod is being deleted";
  EXPECT_EQ(view.queries().reservationText("none"), "node n2 is reserved for it, for 24 hours at most");
}

TEST_F(WithheldCapacityTest, AReservationEndsOnceAHolderStays) {
  hold("d1", "n1", "c0", 500);
  ASSERT_TRUE(waits("large", 1000));
  ASSERT_EQ(reserved(), Names{"n1"});
  podOn("d1", "ReplicaSet");
  grown = 0;
  ASSERT_TRUE(waits("large", 1020));
  EXPECT_EQ(reserved(), Names());
  EXPECT_EQ(grown, 1);
}

TEST_F(WithheldCapacityTest, OnlyHoldersThatWouldHaveToLeaveCount) {
  card("c1", "n1");
  card("c2", "n1");
  hold("d1", "n1", "c0", 500);
  hold("d2", "n1", "c1", 600);
  hold("d3", "n1", "c2", 700);
  podOn("d3", "ReplicaSet");
  ASSERT_TRUE(waits("two", 1000, 2));
  EXPECT_EQ(reserved(), Names{"n1"});
  gone("two");
  ASSERT_TRUE(waits("three", 1100, 3));
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, AHolderWithoutASignOfItsEndStaysAfterADay) {
  hold("d1", "n1", "c0", 0);
  auto large = waiter("large", 1000);
  large.order = {0, kDay - 1000, kDay - 1000, kDay};
  ASSERT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names{"n1"});
  large.order.now = kDay + 20;
  ASSERT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names());
  podOn("d1", "Job");
  large.order.now = kDay + 400;
  ASSERT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names{"n1"}) << "a Job ends, however long it has run";
}

TEST_F(WithheldCapacityTest, AGangHasNoNodesReservedWhoseHoldersStay) {
  full({500, 900, 700});
  hold("d1", "n1", "c0", 980);
  podOn("d1", "ReplicaSet");
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 1000));
  EXPECT_EQ(reserved(), (Names{"n3", "n4"}));
}

TEST_F(WithheldCapacityTest, NoMoreThanATenthOfASmallClustersFreeCardsIsWithheld) {
  allow(10);
  hold("d1", "n1", "c0", 500);
  ASSERT_TRUE(waits("large", 1000));
  EXPECT_EQ(reserved(), Names()) << "one card of one that would be free";
  EXPECT_EQ(view.queries().reservationText("large"),
            "no node is reserved for it: that could withhold more than 10 % of the free cards of this small cluster "
            "(flag --reserved-free-cards of the controller)");
  // n2 has ten free cards of a model that the claim does not ask for.
  node("n2");
  for (int i = 0; i < 10; ++i) {
    auto other = makeCard("other" + std::to_string(i), "n2");
    other.spec.card->model = "other";
    stores.cards.informed(other);
  }
  auto large = waiter("large", 1000);
  large.request.models = {"mine"};
  auto mine = *stores.cards.get({"", "c0"});
  mine.metadata.resourceVersion = next();
  mine.spec.card->model = "mine";
  stores.cards.informed(mine);
  large.order = {0, 0, 0, 1400};
  ASSERT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names{"n1"}) << "one of eleven";
  auto later = ask("later", 100);
  later.order = {0, 1300, 1300, 1400};
  EXPECT_EQ(view.queries().nodesWithheldFrom({later}).size(), 1u);
  // Nine of ten free cards are allocated, and n1's card is the tenth.
  for (int i = 0; i < 9; ++i) hold("of-n2-" + std::to_string(i), "n2", "other" + std::to_string(i), 1400);
  goneDevice("d1");
  EXPECT_TRUE(view.queries().nodesWithheldFrom({later}).empty()) << "half of the free cards are not withheld";
  later.order.now = 1401;
  later.request.models = {"mine"};
  EXPECT_TRUE(view.decideAndAssume(later).fits);
}

TEST_F(WithheldCapacityTest, AClusterOfFiftyNodesIsNotSmall) {
  allow(10);
  std::vector<int64_t> since(48, 100);
  full(since);  // n2 to n49
  hold("d1", "n1", "c0", 500);
  ASSERT_TRUE(waits("large", 1000));
  EXPECT_EQ(reserved(), Names());
  node("n50");
  card("c50", "n50");
  hold("d50", "n50", "c50", 100);
  ASSERT_TRUE(waits("large", 1400));
  EXPECT_EQ(reserved().size(), 1u) << view.queries().reservationText("large");
}

TEST_F(WithheldCapacityTest, ANamespacesGangsHaveADayTogether) {
  full({100, 900, 500});
  hold("d1", "n1", "c0", 990);
  constexpr int64_t day = 86'400;
  auto one = gang("one", 2, 0), two = gang("two", 2, 10);
  EXPECT_FALSE(gangFits(one, 1000));
  EXPECT_FALSE(gangFits(one, day - 1000));
  for (const auto* uid : {"one0", "one1"}) gone(uid);
  EXPECT_FALSE(gangFits(two, day - 900));
  EXPECT_EQ(reserved().size(), 2u);
  EXPECT_FALSE(gangFits(two, day + 1000));
  EXPECT_EQ(reserved().size(), 2u) << "in the hundred seconds between them nobody had any";
  EXPECT_FALSE(gangFits(two, day + 2000));
  EXPECT_EQ(reserved(), Names());
}

TEST_F(WithheldCapacityTest, WhoIsNotifiedWhenANodeIsExchanged) {
  full({500});
  hold("d1", "n1", "c0", 900);
  auto large = waiter("large", 1000);
  large.order = {0, 0, 0, 1000};
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  ASSERT_EQ(reserved(), Names{"n1"});
  goneDevice("d2");
  hold("d2b", "n2", "c2", 1018);
  grown = 0;
  large.order.now = 1020;
  EXPECT_FALSE(view.decideAndAssume(large).fits);
  EXPECT_EQ(reserved(), Names{"n2"});
  EXPECT_EQ(grown, 1) << "n1 is for all again";
}

TEST_F(WithheldCapacityTest, MembersThatLeaveTheirGangHaveWhatOthersHave) {
  full({100, 900, 500});
  hold("d1", "n1", "c0", 990);
  auto asks = gang("g", 2, 0);
  EXPECT_FALSE(gangFits(asks, 1000));
  ASSERT_EQ(reserved().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    asks[static_cast<std::size_t>(i)].order.now = 1020 + i;
    EXPECT_FALSE(view.decideAndAssume(asks[static_cast<std::size_t>(i)]).fits);
  }
  EXPECT_EQ(reserved().size(), 1u) << "one of fifty";
  for (auto& each : asks) each.order.now = 1040;
  EXPECT_FALSE(gangFits(asks, 1040));
  EXPECT_EQ(reserved().size(), 2u) << "as a gang again, whose day has only begun";
}

TEST_F(WithheldCapacityTest, AClockThatWasSetBackHoldsUpNobody) {
  hold("d1", "n1", "c0", 0);
  auto early = waiter("early", 1000), large = waiter("large", 1000);
  early.request.cards = 2;  // no node has two
  early.order = {0, 0, 0, 5000};
  EXPECT_FALSE(view.decideAndAssume(early).fits);
  for (const int64_t now : {1000, 1001}) {
    large.order = {0, 0, 0, now};
    EXPECT_FALSE(view.decideAndAssume(large).fits);
  }
  EXPECT_EQ(reserved(), Names{"n1"});
}

TEST_F(WithheldCapacityTest, VictimsAreNeededWithoutWhoseReleaseNotAllFit) {
  full({1, 2, 3});
  node("n9");
  card("c9", "n9");
  const std::vector<Allocator::SchedulingRequest> asks{waiter("a", 1000), waiter("b", 1000)};
  const auto needed = [&](const std::string& second) {
    std::vector<v1alpha::Nomination> nominations(2);
    nominations[0].nodeName = "n2";
    nominations[0].victims = {"d2", "d4", "unknown"};
    nominations[1].nodeName = second;
    nominations[1].victims = {"d3"};
    auto victims = view.queries()
                       .neededVictims(asks, nominations, [](const auto& victim) { return std::vector{victim}; })
                       .value_or(Names{"none"});
    for (const auto* name : {"d2", "d3", "d4", "unknown"})
      EXPECT_EQ(view.queries().needs(asks, nominations, {name}), victims.contains(name)) << name;
    return victims;
  };
  EXPECT_EQ(needed("n3"), (Names{"d2", "d3"}));
  EXPECT_EQ(needed("n9"), Names{"d2"}) << "that node is free";
  EXPECT_EQ(needed("n4"), (Names{"d2", "d4"})) << "whichever of them names the victim";
}

}  // namespace
}  // namespace egpu::allocator
