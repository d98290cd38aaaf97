// Quota reservations: which claims get one, and how long it lasts.
#include "controller/allocator/quota/quota_reservations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/allocator/allocator_fixture.h"

namespace egpu::allocator {
namespace {

QuotaWaiter waiter(const std::string& name, int64_t priority, int64_t since) {
  return {{"ns/" + name, priority, since, nullptr}, {name}, {}};
}

std::string ownerOf(const QuotaReservations& all) {
  const auto* owner = all.find("ns");
  return owner == nullptr ? std::string() : owner->first.name;
}

TEST(QuotaReservations, TheFirstInQueueOrderHasTheNamespaces) {
  QuotaReservations all;
  EXPECT_FALSE(all.reserve("ns", waiter("a", 0, 10), 1000));
  EXPECT_FALSE(all.reserve("ns", waiter("younger", 0, 20), 1001));
  EXPECT_EQ(ownerOf(all), "ns/a");
  EXPECT_TRUE(all.reserve("ns", waiter("higher", 5, 30), 1002)) << "that of a ended";
  EXPECT_EQ(ownerOf(all), "ns/higher");
  EXPECT_EQ(all.find("other"), nullptr);
  EXPECT_EQ(all.release("a"), "");
  EXPECT_EQ(all.release("higher"), "ns");
  EXPECT_TRUE(all.empty());
}

TEST(QuotaReservations, OneThatIsNotRenewedEnds) {
  QuotaReservations all;
  scheduler::ReservationLimits limits;
  limits.ttl = 1000;
  all.setLimits(limits);
  all.reserve("ns", waiter("a", 0, 10), 1000);
  EXPECT_TRUE(all.ownersToAsk(1000 + limits.renewAfter() - 1).empty());
  EXPECT_EQ(all.ownersToAsk(1000 + limits.renewAfter()), std::vector<std::string>{"ns/a"});
  all.renew("a", 1500);
  EXPECT_TRUE(all.expire(1500 + limits.ttl - 1).empty());
  EXPECT_EQ(all.expire(1500 + limits.ttl), std::vector<std::string>{"ns"});
  EXPECT_TRUE(all.empty());
}

TEST(QuotaReservations, NoneStandsForEver) {
  QuotaReservations all;
  constexpr int64_t kMax = QuotaReservations::kMaxReservationTime;
  all.reserve("ns", waiter("a", 0, 10), 0);
  EXPECT_FALSE(all.reserve("ns", waiter("a", 0, 10), kMax - 1));
  EXPECT_TRUE(all.reserve("ns", waiter("a", 0, 10), kMax));
  EXPECT_EQ(ownerOf(all), "");
  EXPECT_FALSE(all.reserve("ns", waiter("b", 9, 10), 2 * kMax - 1)) << "the namespace rests";
  EXPECT_EQ(ownerOf(all), "");
  EXPECT_TRUE(all.expire(2 * kMax - 1).empty());
  all.reserve("ns", waiter("b", 9, 10), 2 * kMax);
  EXPECT_EQ(ownerOf(all), "ns/b");
}

class QuotaOfViewTest : public AllocatorTest {
 protected:
  void SetUp() override {
    AllocatorTest::SetUp();
    view.onQuota([this](const std::string&, bool freed) { wakes += freed; });
    cache::Quota quota;
    quota.metadata.name = quota.metadata.uid = "team";
    quota.metadata.namespace_ = "ns";
    quota.metadata.resourceVersion = next();
    quota.spec.hard = {{"gpu-core", "80"}};
    stores.quotas.informed(quota);
    wakes = 0;
  }
  Allocator::SchedulingRequest waiting(const std::string& uid, int64_t core, int64_t priority, int64_t since,
                                       int64_t now) {
    cache::Claim claim;
    claim.metadata.name = claim.metadata.uid = uid;
    claim.metadata.namespace_ = "ns";
    claim.metadata.resourceVersion = next();
    stores.claims.informed(claim);
    auto asked = ask(uid, core);
    asked.order = {priority, since, since, now};
    return asked;
  }
  int wakes = 0;
};

TEST_F(QuotaOfViewTest, FreedQuotaOutdatesRequestsThatWereAdmittedBefore) {
  ASSERT_TRUE(view.decideAndAssume(waiting("holder", 500, 0, 0, 0)).fits);
  auto later = waiting("later", 200, 0, 1, 1);
  later.order.releases = view.releases();
  EXPECT_FALSE(view.isOutdated(later.order));
  ASSERT_TRUE(view.decideAndAssume(waiting("refused", 400, 9, 1, 1)).excess);
  EXPECT_FALSE(view.isOutdated(later.order)) << "nothing was released";
  cache::Quota larger = *stores.quotas.get({"ns", "team"});
  larger.metadata.resourceVersion = next();
  larger.spec.hard = {{"gpu-core", "90"}};
  stores.quotas.informed(larger);
  EXPECT_TRUE(view.isOutdated(later.order));
  EXPECT_FALSE(view.decideAndAssume(later).fits);
  EXPECT_EQ(wakes, 1);
  later.order.releases = view.releases();
  EXPECT_TRUE(view.decideAndAssume(later).fits);
}

TEST_F(QuotaOfViewTest, AReservationIsForOneThatWaitedForLongAndIsWithinTheQuotaAtAll) {
  ASSERT_TRUE(view.decideAndAssume(waiting("holder", 500, 0, 0, 0)).fits);
  EXPECT_TRUE(view.decideAndAssume(waiting("big", 600, 9, 0, 599)).excess);
  EXPECT_TRUE(view.decideAndAssume(waiting("small", 100, 0, 599, 599)).fits) << "big has not waited for long";
  view.forget("small");
  EXPECT_TRUE(view.decideAndAssume(waiting("never", 900, 9, 0, 601)).excess);
  EXPECT_TRUE(view.decideAndAssume(waiting("small", 100, 0, 601, 601)).fits) << "never is more than the quota";
  view.forget("small");
  EXPECT_TRUE(view.decideAndAssume(waiting("big", 600, 9, 0, 602)).excess);
  const auto held = view.decideAndAssume(waiting("small", 100, 0, 602, 602));
  ASSERT_TRUE(held.excess);
  EXPECT_EQ(held.excess->held, 600);
  EXPECT_TRUE(view.decideAndAssume(waiting("higher", 100, 10, 602, 602)).fits) << "it comes first";
  view.forget("higher");
  EXPECT_TRUE(view.hasReservations());
  wakes = 0;
  EXPECT_EQ(view.expireReservations(800), std::vector<std::string>{"ns/big"});
  EXPECT_TRUE(view.expireReservations(1300).empty());
  EXPECT_EQ(wakes, 1) << "those that were refused are tried again";
  EXPECT_FALSE(view.hasReservations());
  EXPECT_TRUE(view.decideAndAssume(waiting("small", 100, 0, 602, 1301)).fits);
}

TEST_F(QuotaOfViewTest, ANominationHoldsItsQuotaAndEndsWithIt) {
  auto claim = cache::Claim();
  claim.metadata.name = claim.metadata.uid = "preemptor";
  claim.metadata.namespace_ = "ns";
  claim.metadata.resourceVersion = next();
  claim.status.priority = 9;
  v1alpha::Nomination nomination;
  nomination.nodeName = "n1";
  nomination.cards = {{"c0", 600, 10}};
  claim.status.nominated = nomination;
  stores.claims.informed(claim);
  card("c1", "n1");
  const auto held = view.decideAndAssume(waiting("small", 300, 0, 0, 0));
  ASSERT_TRUE(held.excess) << "c1 has room";
  EXPECT_EQ(held.excess->heldFor, std::vector<std::string>{"ns/preemptor"});
  EXPECT_TRUE(view.decideAndAssume(waiting("small", 200, 0, 0, 0)).fits) << "beside 60 of 80";
  view.forget("small");
  wakes = 0;
  claim.status.nominated = {};
  claim.metadata.resourceVersion = next();
  stores.claims.informed(claim);
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(view.decideAndAssume(waiting("small", 300, 0, 0, 0)).fits);
}

}  // namespace
}  // namespace egpu::allocator
