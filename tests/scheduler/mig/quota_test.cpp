// Quotas of MIG instances: limits for each profile, their usage, and what an allocation counts as.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/scheduler/mig/instances.h"
#include "controller/scheduler/quota/parts_on.h"
#include "controller/scheduler/quota/within.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/mig/instances.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

constexpr auto kInstances = static_cast<std::size_t>(QuotaKey::instances);

v1alpha::ElasticGPUQuota quotaObject(core::StringMap hard, core::StringMap perClaim = {}) {
  v1alpha::ElasticGPUQuota object;
  object.metadata.name = "team";
  object.spec.hard = std::move(hard);
  object.spec.perClaim = std::move(perClaim);
  return object;
}

/// Two nodes of different models with A100s in MIG mode, which have a profile with media engines, too.
Cluster twoModels() {
  Cluster cluster;
  mig::Profiles profiles = mig::testing::a100();
  profiles.push_back(profiles.front());
  profiles.back().name = "1g.5gb+me";
  profiles.back().media = true;
  for (const std::string model : {"A100", "A100X"}) {
    cluster.upsertNode({model});
    auto info = makeCard("card-" + model, model, 0, 40 * kGi, model);
    info.card.mig = profiles;
    cluster.upsertCard(info);
  }
  return cluster;
}

Request wanted(const std::string& profile, int64_t n) {
  Request request;
  request.mig = {profile, n};
  request.isolation = "mig";
  return request;
}

QuotaClaim ownerNamed(const std::string& name) { return {"ns", "ns/" + name, name, {}}; }

/// Decides within the quotas, and gives the claim its decision.
Together grant(Cluster& cluster, QuotaBook& book, const std::string& name, const Request& request) {
  auto together = decideWithin(cluster, book, {ownerNamed(name)}, {request});
  if (together.decisions.empty()) return together;
  commit(cluster, together.decisions.front(), name);
  const auto parts = partsOf(cluster, together.decisions.front());
  for (std::size_t i = 0; i < parts.size(); ++i)
    book.put(name, ownerNamed(name), together.decisions.front().placements[i].card, parts[i]);
  return together;
}

TEST(MigQuota, Object_OneQuotaForEachProfileBesideTheOthers) {
  const auto all = readQuotas(quotaObject({{"gpu", "8"}, {"mig-1g.5gb", "4"}}, {{"mig-3g.20gb", "1"}}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].profile, "");
  EXPECT_EQ(all[0].hard[0], 8);
  EXPECT_FALSE(all[0].hard[kInstances]);
  EXPECT_EQ(all[1].profile, "1g.5gb");
  EXPECT_EQ(all[1].hard[kInstances], 4);
  EXPECT_FALSE(all[1].hard[0]);
  EXPECT_EQ(all[2].perClaim[kInstances], 1);
  EXPECT_EQ(nameOf(QuotaKey::instances, "1g.5gb"), "mig-1g.5gb");
  EXPECT_EQ(readQuotas(quotaObject({})).size(), 1u);
}

TEST(MigQuota, Limit_CountsInstancesOfItsProfileOnly) {
  Cluster cluster = twoModels();
  QuotaBook book;
  book.setQuotas("ns", readQuotas(quotaObject({{"mig-1g.5gb", "3"}, {"claims", "9"}})));
  ASSERT_FALSE(grant(cluster, book, "a", wanted("1g.5gb", 2)).decisions.empty());
  ASSERT_FALSE(grant(cluster, book, "b", wanted("3g.20gb", 1)).decisions.empty());
  ASSERT_FALSE(grant(cluster, book, "c", wanted("1g.5gb.me", 1)).decisions.empty()) << "another profile";
  EXPECT_EQ(book.usage("ns", "team").at("1g.5gb")[kInstances], 2);
  EXPECT_EQ((*book.used("ns", "team"))[static_cast<std::size_t>(QuotaKey::claims)], 3);
  const auto refused = grant(cluster, book, "d", wanted("1g.5gb", 2));
  ASSERT_TRUE(refused.excess);
  EXPECT_EQ(refused.excess->text(), "quota team allows mig-1g.5gb 3, 2 is used: 1 too little for another 2");
  EXPECT_EQ(book.holders(*refused.excess, 3), "ns/a 2");
  EXPECT_EQ(book.releasesThatDo(*refused.excess, 3), std::vector<std::string>{"ns/a"});
  EXPECT_FALSE(grant(cluster, book, "d", wanted("1g.5gb", 1)).decisions.empty());
  book.drop("a");
  EXPECT_EQ(book.usage("ns", "team").at("1g.5gb")[kInstances], 1);
}

TEST(MigQuota, LimitPerClaim_AndOfAModel) {
  Cluster cluster = twoModels();
  QuotaBook book;
  auto object = quotaObject({}, {{"mig-1g.5gb", "1"}});
  object.spec.models = {"A100"};
  book.setQuotas("ns", readQuotas(object));
  const auto elsewhere = grant(cluster, book, "a", wanted("1g.5gb", 2));
  ASSERT_FALSE(elsewhere.decisions.empty());
  EXPECT_EQ(elsewhere.decisions.front().node, "A100X") << "cards of the other model do not count";
  const auto refused = grant(cluster, book, "b", wanted("1g.5gb", 6));
  ASSERT_TRUE(refused.excess);
  EXPECT_EQ(refused.excess->text(), "quota team allows each claim mig-1g.5gb of A100 1, this one would have 6");
}

TEST(MigQuota, ClaimsOfOnePod_Together) {
  Cluster cluster = twoModels();
  QuotaBook book;
  book.setQuotas("ns", readQuotas(quotaObject({{"mig-1g.5gb", "3"}, {"mig-2g.10gb", "1"}})));
  const auto decided = [&](int64_t n) {
    return decideWithin(cluster, book, {ownerNamed("a"), ownerNamed("b")}, {wanted("1g.5gb", 2), wanted("1g.5gb", n)});
  };
  EXPECT_EQ(decided(1).decisions.size(), 2u);
  const auto refused = decided(2);
  ASSERT_TRUE(refused.excess);
  EXPECT_EQ(refused.excess->resource(), "mig-1g.5gb");
  EXPECT_FALSE(refused.excess->elsewhere) << "no other model would be within the quota";
}

TEST(MigQuota, Allocation_CountsAsTheInstancesThatItHas) {
  Cluster cluster = twoModels();
  const mig::Profiles& profiles = *cluster.findCard("card-A100").mig;
  for (const auto& profile : profiles)
    for (int64_t n = 1; n <= 8; ++n) {
      const auto slots = mig::chooseSlots(profiles, profile, n, {});
      if (!slots) continue;
      Amount amount = mig::amountOf(profile, n, 1000);
      amount.slots = *slots;
      EXPECT_EQ(mig::findInstances(profiles, 1000, amount), (MigInstances{mig::keyOf(profile.name), n}));
      amount.slots = {};
      const auto nominated = mig::findInstances(profiles, 1000, amount);
      EXPECT_EQ(nominated.instances, profile.media ? 1 : n) << "nominations have no slots";
    }
  EXPECT_EQ(mig::findInstances(profiles, 1000, {100, kGi, {}}), MigInstances{});
  EXPECT_EQ(mig::findInstances(profiles, 1000, {}), MigInstances{});
  const auto part = quotaPartOf(cluster.findCard("card-A100"), mig::amountOf(profiles[0], 2, 1000));
  EXPECT_EQ(part.mig, (MigInstances{"1g.5gb", 2}));
  EXPECT_EQ(quotaPartOf(cluster.findCard("none"), {}).mig, MigInstances{});
}

}  // namespace
}  // namespace egpu::scheduler::testing
