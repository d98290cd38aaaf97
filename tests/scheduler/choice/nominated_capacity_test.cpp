// Compares the search for required victims with trying each victim on a copy of the whole cluster.
#include "controller/scheduler/choice/nominated_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/scheduler/choice/colocate.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

struct Nominated {
  std::string node;
  Request request;
};

/// Returns true if all requests of each node fit there in this cluster.
bool allFit(Cluster& cluster, const std::vector<Nominated>& nominated) {
  return std::all_of(nominated.begin(), nominated.end(), [&](const Nominated& one) {
    std::vector<Request> requests;
    for (const Nominated& each : nominated)
      if (each.node == one.node) requests.push_back(each.request);
    return !togetherOn(cluster, requests, one.node).empty();
  });
}

TEST(NominatedCapacity, SparesAsTryingEachOnTheWholeCluster) {
  int needed = 0, spared = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CrowdShape shape;
    shape.nodes = 3;
    Crowd crowd(seed, shape);
    Cluster plain = crowd.situation.cluster;
    const auto request = [&crowd] {
      auto& random = crowd.random;
      if (pick(random, 0, 2) == 0) return whole(pick(random, 1, 3));
      Request share;
      share.perCard = {pick(random, 1, 9) * 100, pick(random, 1, 20) * kGi};
      return share;
    };
    std::vector<Nominated> nominated;
    NominatedCapacity tried;
    for (const std::string node : {"node-0", "node-2"})
      for (int i = 0; i < 2; ++i) {
        nominated.push_back({node, request()});
        tried.add(plain, node, nominated.back().request, std::nullopt);
      }
    const Holdings holders = holdingsOf(plain);
    std::vector<std::string> victims;
    for (const auto& [device, holdings] : holders) {
      victims.push_back(device);
      release(plain, device, holdings);
    }
    ASSERT_EQ(tried.release(victims), allFit(plain, nominated));
    if (!allFit(plain, nominated)) {
      ++impossible;
      continue;
    }
    for (const auto& victim : victims) {
      hold(plain, victim, holders.at(victim));
      const bool fits = allFit(plain, nominated);
      if (!fits) release(plain, victim, holders.at(victim));
      ASSERT_EQ(tried.spare(victim), fits) << victim;
      ++(fits ? spared : needed);
    }
    const auto decisions = tried.decisions();
    ASSERT_EQ(decisions.size(), nominated.size());
    for (std::size_t i = 0; i < nominated.size(); ++i) EXPECT_EQ(decisions[i].node, nominated[i].node);
  }
  EXPECT_GT(needed, 30);
  EXPECT_GT(spared, 100);
  EXPECT_GT(impossible, 10);
}

/// Returns nodes of eight cards, each card held by a holder of its own.
Cluster full(int nodes) {
  Cluster cluster;
  for (int n = 0; n < nodes; ++n) {
    const auto node = "n" + std::to_string(100 + n);
    cluster.upsertNode({node, true});
    for (int c = 0; c < 8; ++c) {
      const auto card = node + "-" + std::to_string(c);
      cluster.upsertCard(makeCard(card, node, c));
      cluster.take(card, "of-" + card, {1000, 32 * kGi});
    }
  }
  return cluster;
}

TEST(NominatedCapacity, OneTryPerVictimAndNode) {
  const Cluster cluster = full(40);
  NominatedCapacity capacity;
  std::vector<std::string> victims;
  for (const auto& node : cluster.nodes()) capacity.add(cluster, node, whole(7), std::nullopt);
  for (const auto& [device, holdings] : holdingsOf(cluster)) victims.push_back(device);
  ASSERT_TRUE(capacity.release(victims));
  const auto spared =
      std::count_if(victims.begin(), victims.end(), [&](const auto& each) { return capacity.spare(each); });
  EXPECT_EQ(spared, 40) << "one of eight on each node";
  EXPECT_EQ(capacity.tries(), 40U + 320U);
}

TEST(NominatedCapacity, WhoGivesBackQuotaElsewhereIsNeededForIt) {
  Cluster cluster = full(2);
  QuotaBook book;
  v1alpha::ElasticGPUQuota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  quota.spec.hard = {{"gpu", "2"}};
  book.setQuotas("ns", {readQuota(quota)});
  const auto counts = [&](const std::string& device, const std::string& claim) {
    book.put(device, {"ns", "ns/" + claim, claim, "share"}, device.substr(3), {"A", {1000, 32 * kGi}, 1000, 0});
  };
  counts("of-n101-0", "a");
  counts("of-n101-1", "b");
  NominatedCapacity capacity(book);
  capacity.add(cluster, "n100", whole(1), QuotaClaim{"ns", "ns/m", "m", "share"});
  ASSERT_TRUE(capacity.release({"of-n100-0", "of-n101-0", "of-n101-1"}));
  EXPECT_TRUE(capacity.spare("of-n101-0")) << "one card of two is left to the claim";
  EXPECT_FALSE(capacity.spare("of-n101-1"));
  EXPECT_FALSE(capacity.spare("of-n100-0"));
}

/// A gang that needs all cards of the holders: the cost of its plan is linear in their number.
TEST(PreemptTogetherOfMany, EachMemberStaysOnItsNodeWhileVictimsAreSpared) {
  const Cluster cluster = full(60);
  int asked = 0;
  std::vector<GangMember> members(40, GangMember{whole(7)});
  for (auto& member : members)
    member.suits = [&asked](std::string_view) {
      ++asked;
      return true;
    };
  const EvictionRankOf standing = [](std::string_view device) { return EvictionRank{device.back() - '0', 0}; };
  const auto found = preemptTogether(cluster, members, nullptr, {}, {}, standing);
  ASSERT_FALSE(found.after.lacking);
  EXPECT_EQ(found.victims.size(), 40U * 7U) << "none of them for nothing";
  EXPECT_FALSE(found.exact);
  for (const Victim& each : found.victims) EXPECT_NE(each.device.back(), '7') << "the highest of each node stays";
  Cluster without = cluster;
  for (const Victim& each : found.victims) release(without, each.device, each.holdings);
  for (std::size_t i = 0; i < members.size(); ++i)
    hold(without, "member-" + std::to_string(i), found.after.decisions.at(i));
  for (const auto& node : without.nodes())
    for (const auto& card : without.cardsOf(node)) EXPECT_LE(without.allocationsOn(card).size(), 1U) << card;
  EXPECT_LT(asked, 40 * 60) << "not each node for each member";
}

}  // namespace
}  // namespace egpu::scheduler::testing
