// Usage and reservations of quotas, without a cluster.
#include "controller/allocator/quota/quota_accounting.h"

#include <gtest/gtest.h>

#include "controller/scheduler/quota/parts_on.h"

namespace egpu::allocator {
namespace {

constexpr auto kCore = static_cast<std::size_t>(scheduler::QuotaKey::core);

class QuotaAccountingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scheduler::Quota quota;
    quota.name = "q";
    quota.hard[kCore] = 1000;
    quotas.setQuotas("ns", {quota});
    quotas.takeChanges();
    card.known = true;
    card.model = "A100";
    card.capacity = {1000, 1000};
  }
  static scheduler::QuotaClaim claim(const std::string& name) { return {"ns", "ns/" + name, name, ""}; }
  scheduler::QuotaAsked asked(const std::string& name, int64_t core) const {
    return {claim(name), {quotaPartOf(card, {core, 10})}};
  }
  int64_t used() const { return quotas.book().used("ns", "q").value()[kCore]; }
  static SchedulingRequest ask(const std::string& uid, int64_t since) {
    SchedulingRequest request;
    request.claimUid = uid;
    request.claim = "ns/" + uid;
    request.order.since = since;
    return request;
  }
  QuotaAccounting quotas;
  scheduler::CardView card;
};

TEST_F(QuotaAccountingTest, CountsAllocationsWithAnOwner) {
  EXPECT_TRUE(quotas.mustRecount());
  EXPECT_FALSE(quotas.mustRecount());
  quotas.count("d", claim("a"), "c1", card, {400, 10});
  EXPECT_EQ(used(), 400);
  quotas.count("d", claim("a"), "c1", card, {600, 10});
  EXPECT_EQ(used(), 600);
  card.known = false;
  quotas.count("d", claim("a"), "c1", card, {500, 10});
  EXPECT_EQ(quotas.book().find("d", "c1")->model, "A100") << "the description of the card that is gone";
  EXPECT_EQ(used(), 500);
  quotas.count("d", std::nullopt, "c1", card, {500, 10});
  EXPECT_EQ(used(), 0);
  EXPECT_TRUE(quotas.hasChanges());
}

TEST_F(QuotaAccountingTest, CardWithoutProfiles_KeepsTheInstancesThatItHad) {
  const std::vector<v1alpha::MigProfile> profiles{{"1g", 10, 1, 1, {0b11}, false}};
  card.mig = &profiles;
  quotas.count("d", claim("a"), "c1", card, {284, 20, {0b11}});
  const scheduler::MigInstances two{"1g", 2};
  EXPECT_EQ(quotas.book().find("d", "c1")->mig, two);
  card.mig = nullptr;
  quotas.count("d", claim("a"), "c1", card, {284, 20, {0b11}});
  EXPECT_EQ(quotas.book().find("d", "c1")->mig, two) << "the agent cannot read the card's records";
  card.known = false;
  quotas.count("d", claim("a"), "c1", card, {284, 20, {0b11}});
  EXPECT_EQ(quotas.book().find("d", "c1")->mig, two) << "the card is gone";
  card.known = true;
  quotas.count("d", claim("a"), "c1", card, {500, 10});
  EXPECT_EQ(quotas.book().find("d", "c1")->mig, scheduler::MigInstances{}) << "a share";
}

TEST_F(QuotaAccountingTest, ExcessIsCheckedBesideHolds) {
  EXPECT_FALSE(quotas.excessOf(asked("a", 800), {}));
  const std::vector<scheduler::QuotaHold> holds{{asked("owner", 500), {}}};
  EXPECT_TRUE(quotas.excessOf(asked("a", 800), holds));
  EXPECT_FALSE(quotas.excessOf(asked("a", 800), {})) << "the holds are released";
}

TEST_F(QuotaAccountingTest, ReservationCountsForLaterClaims) {
  quotas.reserve("ns", {{"ns/owner", 0, 100, nullptr}, {"owner"}, {asked("owner", 700)}}, 1000);
  EXPECT_TRUE(quotas.hasReservations());
  EXPECT_EQ(quotas.reservedBefore("ns", {ask("later", 200)}).size(), 1u);
  EXPECT_TRUE(quotas.reservedBefore("ns", {ask("earlier", 50)}).empty());
  EXPECT_TRUE(quotas.reservedBefore("ns", {ask("owner", 100)}).empty());
  EXPECT_TRUE(quotas.reservedBefore("other", {ask("later", 200)}).empty());
  quotas.releaseReservation("owner");
  EXPECT_FALSE(quotas.hasReservations());
  EXPECT_TRUE(quotas.takeChanges().front().freed);
}

TEST_F(QuotaAccountingTest, NothingIsReservedForMoreThanTheQuotaAllows) {
  quotas.reserve("ns", {{"ns/owner", 0, 100, nullptr}, {"owner"}, {asked("owner", 1001)}}, 1000);
  EXPECT_FALSE(quotas.hasReservations());
}

TEST_F(QuotaAccountingTest, ReservationExpiresWithoutRenewal) {
  quotas.reserve("ns", {{"ns/owner", 0, 100, nullptr}, {"owner"}, {asked("owner", 700)}}, 1000);
  EXPECT_EQ(quotas.ownersToAsk(1200), std::vector<std::string>{"ns/owner"});
  quotas.renewReservation("owner", 1200);
  quotas.expireReservations(1799);
  EXPECT_TRUE(quotas.hasReservations());
  quotas.expireReservations(1800);
  EXPECT_FALSE(quotas.hasReservations());
}

}  // namespace
}  // namespace egpu::allocator
