// Life of assumptions, usage of quotas, and schedulability of cards.
#include "controller/allocator/state/cluster_state.h"

#include "tests/allocator/parts_fixture.h"

namespace egpu::allocator {
namespace {

using ClusterStateTest = PartsTest;

TEST_F(ClusterStateTest, AssumedDecisionCountsUntilItIsDropped) {
  const auto ask = pending("a", 600);
  EXPECT_FALSE(state.isPlaced("a"));
  state.assume(ask, on("c1", 600), false);
  EXPECT_TRUE(state.isPlaced("a"));
  EXPECT_TRUE(writes.hasAssumptions);
  EXPECT_EQ(usedOf("c1"), 600);
  ASSERT_NE(state.findAssumption("a"), nullptr);
  EXPECT_FALSE(state.findAssumption("a")->inGang);
  EXPECT_FALSE(state.hasFreed());
  EXPECT_EQ(state.forget("a").size(), 1u);
  EXPECT_EQ(usedOf("c1"), 0);
  EXPECT_FALSE(writes.hasAssumptions);
  EXPECT_TRUE(state.takeFreed());
}

TEST_F(ClusterStateTest, DeviceConfirmsTheAssumptionWithoutFreeingCapacity) {
  state.assume(pending("a", 600), on("c1", 600), true);
  EXPECT_EQ(state.findAssumption("a")->inGang, on("c1", 600));
  device("d", "a");
  EXPECT_EQ(state.findAssumption("a"), nullptr);
  EXPECT_TRUE(state.isPlaced("a"));
  EXPECT_EQ(usedOf("c1"), 600) << "not twice";
  EXPECT_FALSE(state.hasFreed());
  EXPECT_TRUE(ages.find("uid-d"));
  EXPECT_EQ(*state.uidOf("d"), "uid-d");
}

TEST_F(ClusterStateTest, CardHasTheModeOfItsFirstShare) {
  const auto modeOf = [this](const std::string& name) { return std::string(state.cluster().findCard(name).isolation); };
  auto decision = on("c1", 600);
  decision.placements.front().isolation = "mps";
  state.assume(pending("a", 600), decision, false);
  EXPECT_EQ(modeOf("c1"), "mps") << "assumed";
  (void)state.forget("a");
  EXPECT_EQ(modeOf("c1"), "");
  device("d", "b", "limiter");
  EXPECT_EQ(modeOf("c1"), "limiter") << "of the device";
  card("c1", "n1", {{"uid-d", {"d", "ns/b", 600, 100}}});
  EXPECT_EQ(modeOf("c1"), "") << "the API server decides by the ledger, which has no mode";
  card("c1", "n1", {{"uid-d", {"d", "ns/b", 600, 100}}}, "hami-core");
  EXPECT_EQ(modeOf("c1"), "hami-core");
}

TEST_F(ClusterStateTest, ExcludedDevicesComeBackWithTheirMode) {
  device("d", "a", "limiter");
  state.excludeDevices({"d"}, true);
  scheduler::Cluster& cluster = state.cluster();
  cluster.take("c1", "trial", {100, 10}, {}, "mps");
  cluster.giveBack("c1", "trial");
  state.excludeDevices({"d"}, false);
  EXPECT_EQ(state.cluster().findCard("c1").isolation, "limiter");
}

TEST_F(ClusterStateTest, DeviceOnAnotherCardFreesTheAssumedOne) {
  state.assume(pending("a", 600), on("c2", 600), false);
  device("d", "a");
  EXPECT_EQ(usedOf("c2"), 0);
  EXPECT_TRUE(state.takeFreed());
}

TEST_F(ClusterStateTest, RetryFreesOnlyWhatIsNotAssumedAgain) {
  const auto ask = pending("a", 600);
  state.assume(ask, on("c1", 600), false);
  auto dropped = state.forgetForRetry("a");
  EXPECT_FALSE(state.hasFreed());
  state.assume(ask, on("c1", 600), false);
  state.noteRetried("a", dropped);
  EXPECT_FALSE(state.hasFreed());
  dropped = state.forgetForRetry("a");
  state.assume(ask, on("c2", 600), false);
  state.noteRetried("a", dropped);
  EXPECT_TRUE(state.takeFreed());
}

TEST_F(ClusterStateTest, AssumedResizeAddsToTheDevice) {
  device("d", "a");
  const auto object = *stores.devices.get({"", "d"});
  ASSERT_EQ(state.holdingsOf(object).size(), 1u);
  EXPECT_EQ(state.holdingsOf(object).front().charged, (scheduler::Amount{600, 100}));
  state.assumeResize("uid-d", {{"c1", "c1", {900, 200}, {900, 200}}});
  EXPECT_EQ(usedOf("c1"), 900);
  EXPECT_EQ(writes.resizes, 1u);
  state.forgetResize("uid-d");
  EXPECT_EQ(usedOf("c1"), 600);
  EXPECT_EQ(writes.resizes, 0u);
  EXPECT_TRUE(state.takeFreed());
}

TEST_F(ClusterStateTest, ExcludedDevicesComeBack) {
  device("d", "a");
  state.excludeDevices({"d", "unknown"}, true);
  EXPECT_EQ(usedOf("c1"), 0);
  state.excludeDevices({"d", "unknown"}, false);
  EXPECT_EQ(usedOf("c1"), 600);
}

TEST_F(ClusterStateTest, QuotasCountExistingAllocationsFromTheFirstQuotaOn) {
  device("d", "a");
  state.assume(pending("b", 300), on("c2", 300), false);
  limitCore(5000);
  EXPECT_EQ(countedCore(), 900);
  state.forget("b");
  EXPECT_EQ(countedCore(), 600);
}

TEST_F(ClusterStateTest, LedgerEntryWithoutDeviceCountsForTheClaimThatItNames) {
  limitCore(5000);
  card("c1", "n1", {{"uid-x", {"x", "ns/x", 400, 10}}});
  EXPECT_EQ(usedOf("c1"), 400);
  EXPECT_EQ(countedCore(), 400);
}

TEST_F(ClusterStateTest, CommittedDeviceWithoutEntryMakesTheCardUnschedulable) {
  device("d", "a");
  EXPECT_EQ(state.unschedulableReason(*state.cards().find("c1")), "");
  auto object = *stores.devices.get({"", "d"});
  object.metadata.resourceVersion = next();
  object.status.phase = "Bound";
  stores.devices.informed(object);
  state.refreshDevice("d");
  EXPECT_EQ(state.unschedulableReason(*state.cards().find("c1")), "the entry of device d is being restored");
  EXPECT_FALSE(state.cluster().findCard("c1").healthy);
}

}  // namespace
}  // namespace egpu::allocator
