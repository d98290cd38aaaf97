// Compares the choice of victims for several requests, all or none, with trying every set of holders.
#include "controller/scheduler/choice/preempt_together.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler/crowd.h"

namespace egpu::scheduler::testing {
namespace {

std::vector<std::string> victimsOf(const PreemptionTogether& found) {
  std::vector<std::string> victims;
  for (const Victim& each : found.victims) victims.push_back(each.device);
  return victims;
}

/// Derives the standing from the uid. It has few values, so that ties occur.
EvictionRank standingOf(std::string_view device) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : device) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return {static_cast<int64_t>(hash % 4) * 100, static_cast<int64_t>(hash / 4 % 3) * 1000};
}

/// Returns true if all members fit after the holders with set bits are removed. With `within`: in one of the groups,
/// each considered separately.
bool fitWithout(const Cluster& cluster, const Holdings& holders, std::size_t set,
                const std::vector<GangMember>& members, const std::vector<TopologyGroup>* within) {
  Cluster copy = cluster;
  std::size_t i = 0;
  for (const auto& [device, holdings] : holders)
    if (set >> i++ & 1) release(copy, device, holdings);
  return !decideGang(copy, members, within).lacking;
}

/// Returns the size of the smallest set of victims that suffices.
std::optional<std::size_t> fewestOf(const Cluster& cluster, const Holdings& holders,
                                    const std::vector<GangMember>& members, const std::vector<TopologyGroup>* within) {
  std::optional<std::size_t> fewest;
  for (std::size_t set = 0; set < std::size_t{1} << holders.size(); ++set) {
    const auto size = static_cast<std::size_t>(__builtin_popcountll(set));
    if (fewest && size >= *fewest) continue;
    if (fitWithout(cluster, holders, set, members, within)) fewest = size;
  }
  return fewest;
}

struct GangPreemptionCase {
  std::vector<GangMember> members;
  std::vector<TopologyGroup> groups;
  const std::vector<TopologyGroup>* within = nullptr;
  IsEvictable isEvictable{};
};

GangPreemptionCase caseOf(Crowd& crowd, int i) {
  GangPreemptionCase made;
  auto& random = crowd.random;
  auto request = crowd.request();
  const bool alike = i % 2 == 0, onePod = i % 5 == 4;
  for (int64_t m = pick(random, 1, 3); m >= 0; --m) {
    auto& member = made.members.emplace_back(GangMember{alike ? request : crowd.request()});
    if (onePod && made.members.size() > 1) member.with = 0;
    if (pick(random, 0, 5) == 0)
      member.suits = [odd = pick(random, 0, 1)](std::string_view node) { return node.back() % 2 == odd; };
    if (pick(random, 0, 5) == 0)
      member.hasCapacity = [](std::string_view, std::span<const std::size_t> placed) { return placed.empty(); };
  }
  if (i % 3 == 0) made.isEvictable = [](std::string_view device) { return standingOf(device).priority < 200; };
  if (i % 4 == 1) made.groups = {{"x", {"node-0", "node-2"}}, {"y", {"node-1"}}, {"none", {}}};
  return made;
}

/// Returns true if all members have the same request and may go to the same nodes independently.
bool areAlike(const std::vector<GangMember>& members) {
  return std::all_of(members.begin(), members.end(), [&](const GangMember& each) {
    return each.request == members.front().request && !each.suits && !each.hasCapacity && !each.with;
  });
}

/// Checks that each answer holds, and that the query does not change the cluster.
void expectSound(const Cluster& cluster, const GangPreemptionCase& each, const Holdings& holders,
                 const PreemptionTogether& got) {
  Cluster without = cluster;
  for (const Victim& victim : got.victims) {
    ASSERT_TRUE(holders.contains(victim.device)) << "one that may not go";
    ASSERT_EQ(holders.at(victim.device), victim.holdings);
    release(without, victim.device, victim.holdings);
  }
  ASSERT_TRUE(got.exact);
  const auto group = std::find_if(each.groups.begin(), each.groups.end(),
                                  [&](const TopologyGroup& one) { return one.value == got.after.group; });
  const auto only = group == each.groups.end() ? std::vector<TopologyGroup>() : std::vector{*group};
  const auto* within = each.within == nullptr ? nullptr : &only;
  ASSERT_EQ(got.after.decisions, decideGang(without, each.members, within).decisions);
  ASSERT_EQ(got.after.decisions.size(), each.members.size());
  for (const Victim& victim : got.victims) {
    hold(without, victim.device, victim.holdings);
    ASSERT_TRUE(decideGang(without, each.members, within).lacking) << victim.device << " goes for nothing";
    release(without, victim.device, victim.holdings);
  }
}

TEST(PreemptTogether, FreesCapacityWhereAnySetWouldAndNobodyGoesForNothing) {
  int asItIs = 0, needed = 0, several = 0, impossible = 0, grouped = 0, fewest = 0, more = 0;
  int missed[] = {0, 0, 0};  // if members are alike, if they are not, and if isolation modes differ in addition
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    CrowdShape shape;
    shape.nodes = 3;
    shape.cardsPerNode = 2;
    shape.claims = 10;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    const Cluster& cluster = crowd.situation.cluster;
    const std::string before = dump(cluster);
    for (int i = 0; i < 10; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
      GangPreemptionCase each = caseOf(crowd, i);
      each.within = each.groups.empty() ? nullptr : &each.groups;
      Holdings holders = holdingsOf(cluster);
      std::erase_if(holders, [&](const auto& of) { return each.isEvictable && !each.isEvictable(of.first); });
      const auto got = preemptTogether(cluster, each.members, each.within, {}, each.isEvictable, standingOf);
      const auto want = fewestOf(cluster, holders, each.members, each.within);
      ASSERT_EQ(dump(cluster), before);
      if (got.after.lacking) {
        ASSERT_TRUE(got.victims.empty()) << "nobody goes where not all are helped";
        ++(want ? missed[areAlike(each.members) ? 0 : shape.modes ? 2 : 1] : impossible);
        continue;
      }
      ASSERT_TRUE(want);
      ASSERT_NO_FATAL_FAILURE(expectSound(cluster, each, holders, got));
      if (*want == 0) {
        ASSERT_TRUE(got.victims.empty());
        ++asItIs;
        continue;
      }
      ++needed;
      several += got.victims.size() > 1;
      grouped += each.within != nullptr;
      ++(got.victims.size() == *want ? fewest : more);
    }
  }
  EXPECT_GT(asItIs, 15);
  EXPECT_GT(needed, 75);
  EXPECT_GT(several, 40);
  EXPECT_GT(grouped, 10);
  EXPECT_GT(impossible, 50);
  // decideGang() tries at most two orders: with all holders removed it may miss a solution that it finds with fewer
  // removed. It misses none if members are alike, and 1 to 2 % otherwise.
  EXPECT_EQ(missed[0], 0);
  EXPECT_LE(missed[1] * 50, needed);
  EXPECT_LE(missed[2] * 25, needed);
  EXPECT_LT(more * 10, needed) << fewest;
}

/// A gang of one member behaves like a single request.
TEST(PreemptTogether, OfOneIsPreempt) {
  int needed = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CrowdShape shape;
    shape.nodes = 3;
    shape.claims = 14;
    shape.modes = seed % 2 == 0;
    Crowd crowd(seed, shape);
    for (int i = 0; i < 4; ++i) {
      const Request request = crowd.request();
      const auto one = preempt(crowd.situation.cluster, request, {}, {}, kMaxPreemptions, {}, {}, standingOf);
      const auto got = preemptTogether(crowd.situation.cluster, {GangMember{request}}, nullptr, {}, {}, standingOf);
      ASSERT_EQ(got.after.lacking.has_value(), !one.possible) << "seed " << seed << ", request " << i;
      if (!one.possible) continue;
      ASSERT_EQ(got.victims, one.victims) << "seed " << seed << ", request " << i;
      ASSERT_EQ(got.after.decisions.at(0), one.decision);
      needed += !one.victims.empty();
    }
  }
  EXPECT_GT(needed, 40);
}

TEST(PreemptTogether, TheHeadersExample) {
  Cluster cluster;
  for (const auto* node : {"n0", "n1"}) {
    cluster.upsertNode({node, true});
    for (int c = 0; c < 2; ++c) cluster.upsertCard(makeCard(node + std::to_string(c), node, c));
  }
  const Amount all{1000, 32 * kGi};
  cluster.take("n00", "a", all);
  cluster.take("n01", "b", all);
  cluster.take("n10", "c", all);
  cluster.take("n11", "d", all);
  const std::vector<GangMember> members(2, GangMember{whole(1)});
  const auto standing = [](std::string_view device) { return EvictionRank{device == "c" ? 5 : 0, 0}; };
  const std::vector<TopologyGroup> racks{{"x", {"n0"}}, {"y", {"n1"}}};
  std::string stay = "b";
  const IsEvictable isEvictable = [&stay](std::string_view device) { return stay.find(device) == std::string::npos; };
  const auto names = [&](const std::vector<TopologyGroup>* within) {
    const auto found = preemptTogether(cluster, members, within, {}, isEvictable, standing);
    EXPECT_EQ(found.after.lacking.has_value(), found.victims.empty());
    return victimsOf(found);
  };
  EXPECT_EQ(names(nullptr), (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(names(&racks), (std::vector<std::string>{"c", "d"}));
  stay = "bd";
  EXPECT_EQ(names(nullptr), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(names(&racks), std::vector<std::string>());
}

TEST(PreemptTogether, QuotasCountAllMembers) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int c = 0; c < 2; ++c) {
    cluster.upsertCard(makeCard("c" + std::to_string(c), "n", c));
    cluster.take("c" + std::to_string(c), "old" + std::to_string(c), {1000, 32 * kGi});
  }
  QuotaBook book;
  v1alpha::ElasticGPUQuota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  quota.spec.hard = {{"gpu", "1"}};
  book.setQuotas("ns", {readQuota(quota)});
  std::vector<GangMember> members(2, GangMember{whole(1)});
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].claim = QuotaClaim{"ns", "ns/m" + std::to_string(i), "m" + std::to_string(i), "share"};
  EXPECT_TRUE(preemptTogether(cluster, members, nullptr, book).victims.empty()) << "both are more than the quota";
  members.pop_back();
  EXPECT_EQ(preemptTogether(cluster, members, nullptr, book).victims.size(), 1U);
}

/// Nodes of two cards that evictable holders have, each node a group of its own.
struct Apart {
  Cluster cluster;
  std::vector<TopologyGroup> groups;

  explicit Apart(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      const auto node = "n" + std::to_string(i);
      cluster.upsertNode({node, true});
      for (int c = 0; c < 2; ++c) {
        const auto card = node + "-" + std::to_string(c);
        cluster.upsertCard(makeCard(card, node, c));
        cluster.take(card, "of-" + card, {1000, 32 * kGi});
      }
      groups.push_back({node, {node}});
    }
  }
};

/// Returns members that count how often their node predicate is called.
std::vector<GangMember> counting(std::size_t members, Request request, int& asked) {
  std::vector<GangMember> all(members, GangMember{std::move(request)});
  for (auto& member : all)
    member.suits = [&asked](std::string_view) {
      ++asked;
      return true;
    };
  return all;
}

TEST(PreemptTogether, AGroupWhoseCardsCanNotHoldThemAllIsNotSearched) {
  Apart apart(40);
  Request half;
  half.perCard = {600, kGi};
  const auto evaluations = [&](std::size_t size, const Request& request, const IsEvictable& isEvictable) {
    int asked = 0;
    const auto members = counting(size, request, asked);
    (void)decideGang(apart.cluster, members, &apart.groups);
    const int deciding = std::exchange(asked, 0);
    EXPECT_TRUE(preemptTogether(apart.cluster, members, &apart.groups, {}, isEvictable).after.lacking);
    return asked - deciding;
  };
  EXPECT_EQ(evaluations(3, whole(1), {}), 0) << "three cards of two";
  EXPECT_EQ(evaluations(3, half, {}), 0) << "one to a card";
  const IsEvictable first = [](std::string_view device) { return device.back() == '0'; };
  EXPECT_EQ(evaluations(2, whole(1), first), 0) << "one of each two stays";
  EXPECT_EQ(evaluations(2, half, first), 0);
}

TEST(PreemptTogether, EndsAtItsLimitWhereNobodyIsFoundToo) {
  Apart apart(40);
  int asked = 0;
  auto members = counting(2, whole(1), asked);
  for (auto& member : members)  // not on the same node, which the cards do not show
    member.hasCapacity = [](std::string_view, std::span<const std::size_t> placed) { return placed.empty(); };
  const auto evaluations = [&](int64_t limit) {
    asked = 0;
    const auto found = preemptTogether(apart.cluster, members, &apart.groups, {}, {}, {}, limit);
    EXPECT_TRUE(found.after.lacking && found.victims.empty());
    EXPECT_EQ(found.exact, limit == kMaxPreemptions) << "not all groups were tried";
    return asked;
  };
  const int all = evaluations(kMaxPreemptions), some = evaluations(10), few = evaluations(1);
  EXPECT_LT(few, some);
  EXPECT_LT(2 * (some - few), all - few);
}

TEST(PreemptTogether, ToFindWhoGoesCostsNothingOfFindingWhoStays) {
  const Apart apart(40);
  const auto found = preemptTogether(apart.cluster, {{whole(2)}, {whole(2)}}, nullptr, {}, {}, {}, 60);
  EXPECT_EQ(found.victims.size(), 4U);
  EXPECT_TRUE(found.exact) << "each was tried";
}

TEST(PreemptTogether, EndsWhenItIsEnoughWithWhatWasFound) {
  Apart apart(3);
  int left = 0;
  const StopCondition enough = [&left] { return --left < 0; };
  const auto find = [&](int asked, const std::vector<TopologyGroup>* within) {
    left = asked;
    const std::vector<GangMember> members(2, GangMember{whole(1)});
    return preemptTogether(apart.cluster, members, within, {}, {}, {}, kMaxPreemptions, enough);
  };
  int asked = 0;
  while (find(asked, &apart.groups).after.lacking) {
    EXPECT_FALSE(find(asked, &apart.groups).exact);
    ASSERT_LT(++asked, 1000);
  }
  EXPECT_GT(asked, 0);
  EXPECT_EQ(victimsOf(find(asked, &apart.groups)), (std::vector<std::string>{"of-n0-0", "of-n0-1"}));
  EXPECT_FALSE(find(asked, &apart.groups).exact) << "the other groups were not tried";
  EXPECT_TRUE(find(1000, &apart.groups).exact);
  EXPECT_TRUE(find(0, nullptr).after.lacking);
  EXPECT_FALSE(find(0, nullptr).exact);
}

TEST(PreemptTogether, WhateverTimeCutsShortIsNotExact) {
  const Apart apart(2);
  for (const auto* within : {&apart.groups, static_cast<const std::vector<TopologyGroup>*>(nullptr)}) {
    int asked = 0, max = std::numeric_limits<int>::max();
    const auto exact = [&] {
      asked = 0;
      const std::vector<GangMember> members(2, GangMember{whole(1)});
      const StopCondition enough = [&] { return ++asked > max; };
      return preemptTogether(apart.cluster, members, within, {}, {}, {}, kMaxPreemptions, enough).exact;
    };
    ASSERT_TRUE(exact());
    const int needed = asked;
    for (max = 0; max < needed; ++max) EXPECT_FALSE(exact()) << max << " of " << needed;
    EXPECT_TRUE(exact());
  }
}

}  // namespace
}  // namespace egpu::scheduler::testing
