// Which requests a nomination blocks, and how its capacity is held back from them.
#include "controller/allocator/nominator.h"

#include "tests/allocator/parts_fixture.h"

namespace egpu::allocator {
namespace {

using NominatorTest = PartsTest;

TEST_F(NominatorTest, BlocksLowerAndEqualPriority) {
  const auto owner = pending("owner", 1000, 100);
  nominate(owner, 5);
  const auto blocks = [this](const SchedulingRequest& ask) {
    return nominator.blocks({ask}, "owner", *nominator.find("owner"));
  };
  auto other = pending("other", 100, 50);
  EXPECT_TRUE(blocks(other)) << "of lower priority";
  other.order.priority = 5;
  EXPECT_TRUE(blocks(other)) << "older, but without a nomination";
  other.order.priority = 6;
  EXPECT_FALSE(blocks(other));
  EXPECT_FALSE(blocks(owner));
  state.assume(owner, on("c2", 1000), false);
  other.order.priority = 0;
  EXPECT_FALSE(blocks(other)) << "the owner has its capacity";
}

TEST_F(NominatorTest, HoldsTheFreePartUntilItIsReleased) {
  nominate(pending("owner", 1000), 5);
  device("victim", "v");
  const auto ask = pending("other", 100);
  const auto held = nominator.hold({ask});
  EXPECT_EQ(held.size(), 1u);
  EXPECT_EQ(usedOf("c1"), 1000) << "600 of the victim, and the free part";
  nominator.release(held);
  EXPECT_EQ(usedOf("c1"), 600);
  EXPECT_TRUE(nominator.hold({ask}, {"n1"}).empty()) << "the node is closed to it anyway";
}

TEST_F(NominatorTest, HoldsAllOfACardWhileClaimsOfAnotherModeAreOnIt) {
  cache::Class cls;
  cls.metadata.name = cls.metadata.uid = "limited";
  cls.metadata.resourceVersion = next();
  cls.parameters["isolation"] = "mps";
  stores.classes.informed(cls);
  nominate(pending("owner", 300), 5, {{"c1", 300, 10}}, "limited");
  device("victim", "v");
  const auto other = pending("other", 100);
  auto held = nominator.hold({other});
  EXPECT_EQ(usedOf("c1"), 1000) << "another claim without isolation would keep the owner off the card";
  nominator.release(held);
  EXPECT_EQ(usedOf("c1"), 600);
  stores.devices.observedGone({"", "victim"}, "uid-victim");
  state.refreshDevice("victim");
  held = nominator.hold({other});
  EXPECT_EQ(usedOf("c1"), 300);
  EXPECT_EQ(state.cluster().findCard("c1").isolation, "mps");
  EXPECT_EQ(scheduler::decide(state.cluster(), other.request).node, "n2");
  nominator.release(held);
  EXPECT_EQ(scheduler::decide(state.cluster(), other.request).node, "n1") << "it is empty again";
}

TEST_F(NominatorTest, FilledNodesHaveNoFreeCapacityBesideNominations) {
  nominate(pending("owner", 1000), 5);
  EXPECT_EQ(nominator.filledNodes({pending("other", 100)}), std::vector<std::string>{"n1"});
  auto access = pending("access", 100);
  access.request.adminAccess = true;
  EXPECT_TRUE(nominator.filledNodes({access}).empty());
}

TEST_F(NominatorTest, NominatedQuotaIsHeld) {
  limitCore(1500);
  nominate(pending("owner", 1000), 5);
  const auto other = pending("other", 600);
  const auto holds = nominator.quotaHolds({other}, false);
  ASSERT_EQ(holds.size(), 1u);
  EXPECT_EQ(holds.front().owner.claim.name, "ns/owner");
  const auto left = quotas.remaining({"ns", "ns/other", "other", ""}, holds);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left.front().left[static_cast<std::size_t>(scheduler::QuotaKey::core)], 500);
}

TEST_F(NominatorTest, EndOfANominationFreesCapacity) {
  const auto owner = pending("owner", 1000);
  nominate(owner, 5);
  EXPECT_FALSE(nominator.hasFreed());
  nominator.refresh(*stores.claims.get(core::ObjectKey::of("ns/owner")), true);
  EXPECT_EQ(nominator.find("owner"), nullptr);
  EXPECT_TRUE(nominator.takeFreed());
}

}  // namespace
}  // namespace egpu::allocator
