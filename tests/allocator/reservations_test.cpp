// Reservations: blocked requests, limits, renewal and budget.
#include "controller/allocator/reservations.h"

#include "tests/allocator/parts_fixture.h"

namespace egpu::allocator {
namespace {

class ReservationsTest : public PartsTest {
 protected:
  void SetUp() override {
    PartsTest::SetUp();
    scheduler::ReservationLimits limits;
    limits.freeCardPercent = 100;  // the cluster is small
    reservations.setLimits(limits);
  }
  SchedulingRequest waiting(const std::string& uid, int64_t since) {
    auto ask = pending(uid, 1000, since);
    ask.order.now = 1000;
    return ask;
  }
};

TEST_F(ReservationsTest, BlocksLaterRequestsUntilTheOwnerIsPlaced) {
  const auto owner = waiting("owner", 100);
  reservations.reserve(owner, {owner}, "n1");
  ASSERT_NE(reservations.find("owner"), nullptr);
  const std::vector<SchedulingRequest> later{waiting("later", 200)}, earlier{waiting("earlier", 50)};
  const scheduler::NodePredicate any;
  scheduler::NodePredicate open;
  const auto& nodes = reservations.openNodes(later, any, open);
  EXPECT_FALSE(nodes("n1"));
  EXPECT_TRUE(nodes("n2"));
  scheduler::NodePredicate unused;
  EXPECT_EQ(&reservations.openNodes(earlier, any, unused), &any);
  state.assume(owner, on("c1", 1000), false);
  EXPECT_TRUE(nodes("n1"));
}

TEST_F(ReservationsTest, SmallClusterWithholdsALimitedShareOfFreeCards) {
  scheduler::ReservationLimits limits;
  limits.freeCardPercent = 10;
  reservations.setLimits(limits);
  const auto owner = waiting("owner", 100);
  reservations.reserve(owner, {owner}, "n1");
  EXPECT_FALSE(reservations.blocks({waiting("later", 200)}, "owner", *reservations.find("owner")))
      << "half of the free cards";
}

TEST_F(ReservationsTest, AtTheLimitTheLastOwnerGivesWay) {
  const auto first = waiting("first", 100), second = waiting("second", 200);
  reservations.reserve(second, {second}, "n1");
  std::string insteadOf;
  EXPECT_FALSE(reservations.isUnderLimit(pendingRequestOf(waiting("third", 300)), insteadOf));
  EXPECT_TRUE(reservations.isUnderLimit(pendingRequestOf(first), insteadOf));
  EXPECT_EQ(insteadOf, "second");
  reservations.reserve(first, {first}, "n2");
  EXPECT_EQ(reservations.find("second"), nullptr);
  EXPECT_EQ(reservations.list(), (std::vector<scheduler::ReservedNode>{{"ns/first", "n2"}}));
  EXPECT_TRUE(reservations.takeFreed());
}

TEST_F(ReservationsTest, OwnerIsAskedToRenewAndThenExpires) {
  auto owner = waiting("owner", 100);
  reservations.reserve(owner, {owner}, "n1");
  EXPECT_TRUE(reservations.expire(1000 + 119).empty());
  EXPECT_EQ(reservations.expire(1000 + 120), std::vector<std::string>{"ns/owner"});
  owner.order.now = 1130;
  reservations.renew({owner});
  EXPECT_TRUE(reservations.expire(1000 + 600).size() == 1 && !reservations.empty());
  EXPECT_TRUE(reservations.expire(1130 + 600).empty());
  EXPECT_TRUE(reservations.empty());
  EXPECT_TRUE(reservations.takeFreed());
}

TEST_F(ReservationsTest, SearchesAreLimited) {
  const auto a = waiting("a", 100), b = waiting("b", 100);
  auto fresh = waiting("fresh", 100);
  fresh.order.waitingSince = 900;
  EXPECT_FALSE(reservations.shouldSearch({fresh})) << "pending for 100 s";
  EXPECT_TRUE(reservations.shouldSearch({a}));
  reservations.recordSearch(a, false);
  EXPECT_FALSE(reservations.shouldSearch({b})) << "one search per second";
  auto later = b;
  later.order.now = 1001;
  EXPECT_TRUE(reservations.shouldSearch({later}));
  later = a;
  later.order.now = 1299;
  EXPECT_FALSE(reservations.shouldSearch({later})) << "its last search failed";
  later.order.now = 1300;
  EXPECT_TRUE(reservations.shouldSearch({later}));
}

TEST_F(ReservationsTest, BudgetOfTheClaimEnds) {
  auto owner = waiting("owner", 100);
  reservations.reserve(owner, {owner}, "n1");
  owner.order.now = 1000 + Reservations::kMaxReservationTime - 1;
  reservations.renew({owner});
  EXPECT_FALSE(reservations.endIfExhausted({owner}));
  ++owner.order.now;
  reservations.renew({owner});
  EXPECT_TRUE(reservations.endIfExhausted({owner}));
  EXPECT_TRUE(reservations.empty());
  EXPECT_TRUE(reservations.text("owner").starts_with("no node is reserved for it before "));
  reservations.release("owner");
  EXPECT_EQ(reservations.text("owner"), "");
}

TEST_F(ReservationsTest, GangGetsAllItsNodesAndReplacesALaterGang) {
  const std::vector<SchedulingRequest> gang{waiting("g1", 100), waiting("g2", 100)}, other{waiting("h1", 200)};
  reservations.replace(other, {{0, "n2"}});
  EXPECT_FALSE(reservations.isAnotherGangFirst(gang));
  reservations.replace(gang, {{0, "n1"}, {1, "n2"}});
  EXPECT_EQ(reservations.of(gang).nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(reservations.find("h1"), nullptr);
  EXPECT_TRUE(reservations.isAnotherGangFirst(other));
  EXPECT_EQ(reservations.text("g1"), "node n1 is reserved for its gang, for 24 hours at most");
  reservations.replace(gang, {});
  EXPECT_TRUE(reservations.empty());
}

}  // namespace
}  // namespace egpu::allocator
