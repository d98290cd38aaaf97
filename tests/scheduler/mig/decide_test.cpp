// Decisions for MIG instances: requests, choice of card and slots, explanations, preemption, and random operations.
#include "controller/scheduler/decide.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/forecast.h"
#include "controller/scheduler/mig/instances.h"
#include "controller/scheduler/preempt.h"
#include "controller/scheduler/state/state.h"
#include "tests/scheduler/mig/instances.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

using v1alpha::Slots;

std::vector<v1alpha::MigProfile> profiles() {
  const auto profile = [](const char* name, int64_t gib, int64_t compute, int64_t size, uint16_t starts) {
    v1alpha::MigProfile out;
    out.name = name;
    out.memory = gib * kGi;
    out.compute = compute;
    out.size = size;
    out.starts = {starts};
    return out;
  };
  auto media = profile("1g.10gb+me", 10, 1, 1, 0b1111111);
  media.media = true;
  return {profile("1g.10gb", 10, 1, 1, 0b1111111), media, profile("2g.20gb", 20, 2, 2, 0b10101),
          profile("3g.40gb", 40, 3, 4, 0b10001), profile("7g.80gb", 80, 7, 8, 0b1)};
}

CardInfo migCard(const std::string& name, const std::string& node, int64_t index) {
  auto info = makeCard(name, node, index, 80 * kGi, "A100");
  info.card.mig = profiles();
  return info;
}

Request instances(const std::string& profile, int64_t n = 1) {
  Request request;
  request.mig = {profile, n};
  request.isolation = "mig";
  return request;
}

/// One node with a MIG card and a card without MIG.
Cluster twoCards() {
  Cluster cluster;
  cluster.upsertNode({"n1"});
  cluster.upsertCard(migCard("mig", "n1", 0));
  cluster.upsertCard(makeCard("plain", "n1", 1, 80 * kGi, "A100"));
  return cluster;
}

TEST(MigDecide, Instance_AmountsOfItsProfile) {
  const Decision decision = decide(twoCards(), instances("3g.40gb"));
  ASSERT_TRUE(decision.fits);
  const Placement& placement = decision.placements.front();
  EXPECT_EQ(placement.card, "mig");
  EXPECT_EQ(placement.granted.core, 428);  // ⌊1000 · 3 ÷ 7⌋
  EXPECT_EQ(placement.granted.memory, 40 * kGi);
  EXPECT_EQ(placement.charged, placement.granted);
  EXPECT_EQ(placement.granted.slots.bits, 0xf0);
  EXPECT_EQ(placement.isolation, "mig");
  EXPECT_EQ(placement.mig, (MigInstances{"3g.40gb", 1}));
}

TEST(MigDecide, OtherRequests_NeverOnACardInMigMode) {
  Cluster cluster = twoCards();
  commit(cluster, decide(cluster, whole(1)), "whole");
  EXPECT_EQ(cluster.findCard("plain").claims, 1);
  EXPECT_FALSE(decide(cluster, whole(1)).fits);
  Request share;
  share.perCard = {10, kGi};
  EXPECT_FALSE(decide(cluster, share).fits);
  EXPECT_TRUE(decide(cluster, instances("7g.80gb")).fits);
}

TEST(MigDecide, SlotsOfTwoHolders_FreeWhenBothAreGone) {
  Cluster cluster = twoCards();
  const Decision decision = decide(cluster, instances("7g.80gb"));
  commit(cluster, decision, "claim/1");
  commit(cluster, decision, "device");
  cluster.giveBack("mig", "claim/1");
  EXPECT_EQ(cluster.state().check(), "");
  EXPECT_FALSE(decide(cluster, instances("1g.10gb")).fits);
  cluster.giveBack("mig", "device");
  EXPECT_TRUE(decide(cluster, instances("1g.10gb")).fits);
}

TEST(MigDecide, Explanation_NamesTheObstacle) {
  Cluster cluster = twoCards();
  commit(cluster, decide(cluster, instances("2g.20gb")), "a");
  const auto text = [&](const Request& request) { return explain(cluster, request).text(); };
  EXPECT_NE(text(instances("7g.80gb")).find("short of free core"), std::string::npos) << text(instances("7g.80gb"));
  EXPECT_NE(text(instances("4g.40gb")).find("without the MIG profile 4g.40gb"), std::string::npos);
  EXPECT_NE(text(instances("1g.10gb")).find("not in MIG mode"), std::string::npos) << text(instances("1g.10gb"));
  commit(cluster, decide(cluster, instances("1g.10gb.me")), "b");
  EXPECT_NE(text(instances("1g.10gb.me")).find("without free slots for 1 MIG instance of 1g.10gb.me"),
            std::string::npos)
      << text(instances("1g.10gb.me"));
  commit(cluster, decide(cluster, whole(1)), "c");
  EXPECT_NE(text(whole(1)).find("in MIG mode (only MIG instances can be allocated)"), std::string::npos)
      << text(whole(1));
}

TEST(MigDecide, Remedies_SmallerInstanceAndClaimsInTheWay) {
  Cluster cluster = twoCards();
  commit(cluster, decide(cluster, instances("3g.40gb")), "a");
  commit(cluster, decide(cluster, instances("1g.10gb")), "b");
  const Explanation explanation = explain(cluster, instances("3g.40gb"));
  ASSERT_EQ(explanation.remedies.size(), 2u) << explanation.text();
  EXPECT_EQ(explanation.remedies[0].text, "mig-2g.20gb 1 fits now (node n1)");
  EXPECT_NE(explanation.remedies[1].text.find("release 1 claim in slots"), std::string::npos)
      << explanation.remedies[1].text;
  EXPECT_EQ(explanation.remedies[1].nodeClaims, 1);
  const Explanation several = explain(cluster, instances("1g.10gb", 5));
  ASSERT_FALSE(several.remedies.empty());
  EXPECT_EQ(several.remedies[0].text, "mig-1g.10gb 3 fits now (node n1)");
}

TEST(MigDecide, Forecast_CountsPlacesBySlots) {
  Cluster cluster = twoCards();
  const auto times = [&](const Request& request) {
    int64_t sum = 0;
    for (const auto& [model, n] : forecast(cluster, request).byModel) sum += n;
    return sum;
  };
  EXPECT_EQ(times(instances("1g.10gb")), 7);
  EXPECT_EQ(times(instances("3g.40gb")), 2);
  EXPECT_EQ(times(instances("1g.10gb.me")), 1);
  commit(cluster, decide(cluster, instances("1g.10gb")), "a");
  EXPECT_EQ(times(instances("3g.40gb")), 1);
  EXPECT_EQ(times(instances("2g.20gb", 2)), 1);
}

TEST(MigDecide, Preemption_EvictsTheClaimInTheSlots) {
  Cluster cluster;
  cluster.upsertNode({"n1"});
  cluster.upsertCard(migCard("mig", "n1", 0));
  commit(cluster, decide(cluster, instances("1g.10gb.me")), "media");
  commit(cluster, decide(cluster, instances("1g.10gb")), "other");
  const auto found = preempt(cluster, instances("1g.10gb.me"));
  ASSERT_TRUE(found.possible);
  ASSERT_EQ(found.victims.size(), 1u);
  EXPECT_EQ(found.victims.front().device, "media");
}

TEST(MigDecide, RandomOperations_SlotsNeverOverlapAndStateIsConsistent) {
  Random random(1);
  Cluster cluster;
  for (const char* node : {"n1", "n2"}) {
    cluster.upsertNode({node});
    for (int i = 0; i < 2; ++i) cluster.upsertCard(migCard(node + std::string("-") + std::to_string(i), node, i));
  }
  std::map<std::string, Placement> held;
  const auto table = profiles();
  int64_t rejected = 0, full = 0;
  for (int step = 0; step < 4000; ++step) {
    if (!held.empty() && pick(random, 0, 2) == 0) {
      auto gone = held.begin();
      std::advance(gone, pick(random, 0, static_cast<int64_t>(held.size()) - 1));
      cluster.giveBack(gone->second.card, gone->first);
      held.erase(gone);
    } else {
      const auto& profile = table[static_cast<std::size_t>(pick(random, 0, 4))];
      const int64_t n = pick(random, 1, 3);
      const Decision decision = decide(cluster, instances(mig::keyOf(profile.name), n));
      std::map<std::string, Slots> used{{"n1-0", {}}, {"n1-1", {}}, {"n2-0", {}}, {"n2-1", {}}};
      for (const auto& [device, placement] : held)
        used[placement.card] = used[placement.card].with(placement.charged.slots);
      bool possible = false;
      for (const auto& [card, slots] : used) possible = possible || mig::canPlace(profile, n, slots);
      ASSERT_EQ(decision.fits, possible) << profile.name << " x " << n;
      if (!decision.fits) {
        ++rejected;
        continue;
      }
      const Placement& placement = decision.placements.front();
      ASSERT_FALSE(placement.charged.slots.overlaps(used[placement.card]));
      ASSERT_EQ(mig::testing::startsOf(profile, placement.charged.slots).size(), static_cast<std::size_t>(n));
      const std::string device = "d" + std::to_string(step);
      commit(cluster, decision, device);
      held.emplace(device, placement);
      ++full;
    }
    if (step % 100 == 0) {
      ASSERT_EQ(cluster.state().check(), "");
    }
  }
  EXPECT_GT(rejected, 100);
  EXPECT_GT(full, 100);
}

std::variant<Request, Refusal> made(v1alpha::StringMap requests, std::string_view provisioner = mig::kProvisioner) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec.requests = std::move(requests);
  v1alpha::ElasticGPUClass cls;
  cls.metadata.name = "mig";
  cls.provisioner = provisioner;
  return makeRequest(claim, cls);
}

TEST(MigRequest, Key_ProfileAndNumber) {
  const auto result = made({{"elasticgpu.io/mig-1g.5gb.me", "2"}});
  const auto* request = std::get_if<Request>(&result);
  ASSERT_NE(request, nullptr) << std::get<Refusal>(result).message;
  EXPECT_EQ(request->mig, (MigInstances{"1g.5gb.me", 2}));
  EXPECT_EQ(request->isolation, "mig");
  EXPECT_FALSE(request->wholeCards);
}

TEST(MigRequest, Refusals_NameTheFieldAndWhatToWrite) {
  const auto refused = [](const std::variant<Request, Refusal>& result) {
    const auto* refusal = std::get_if<Refusal>(&result);
    return refusal == nullptr ? std::string("accepted") : refusal->field + ": " + refusal->message;
  };
  EXPECT_NE(refused(made({{"elasticgpu.io/gpu", "1"}})).find("mig-1g.5gb: 1"), std::string::npos);
  EXPECT_NE(refused(made({})).find("mig-1g.5gb: 1"), std::string::npos);
  EXPECT_NE(refused(made({{"elasticgpu.io/mig-1g.5gb", "1"}}, "gpushare.provisioner.elasticgpu.io"))
                .find("provides no MIG instances"),
            std::string::npos);
  EXPECT_NE(refused(made({{"elasticgpu.io/mig-1g.5gb", "1"}, {"elasticgpu.io/gpu-core", "10"}}))
                .find("remove the other keys"),
            std::string::npos);
  EXPECT_NE(
      refused(made({{"elasticgpu.io/mig-1g.5gb", "1"}, {"elasticgpu.io/mig-2g.10gb", "1"}})).find("of one profile"),
      std::string::npos);
  EXPECT_NE(refused(made({{"elasticgpu.io/mig-1g.5gb", "0.5"}})), "accepted");
  EXPECT_NE(refused(made({{"elasticgpu.io/mig-1g.5gb", "9"}})), "accepted");
}

}  // namespace
}  // namespace egpu::scheduler::testing
