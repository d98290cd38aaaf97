// Compares the choice of victims within quotas with trying every set of holders.
#include "controller/scheduler/quota/preempt_within.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/scheduler/state/fill.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

constexpr auto kMemory = static_cast<std::size_t>(QuotaKey::memory);
constexpr auto kCore = static_cast<std::size_t>(QuotaKey::core);
constexpr auto kClaims = static_cast<std::size_t>(QuotaKey::claims);

Request shareOf(int64_t core, int64_t memory, int64_t cards = 1) {
  Request request;
  request.cards = cards;
  request.perCard = {core, memory};
  return request;
}

/// A cluster whose holders are in a quota book, and their standings.
struct HeldQuota {
  Cluster cluster;
  QuotaBook book;
  std::map<std::string, EvictionRank, std::less<>> standings;

  void node(const std::string& name, int cards, const std::string& model = "A100", int64_t memory = 80 * kGi) {
    cluster.upsertNode({name, true});
    for (int i = 0; i < cards; ++i)
      cluster.upsertCard(makeCard(name + "-" + std::to_string(i), name, i, memory, model));
  }
  /// Gives the claim its decision on that node and counts it in its namespace's quotas.
  bool give(const std::string& device, const std::string& space, Request request, const std::string& node,
            EvictionRank standing = {}, const std::string& cls = "a") {
    request.pinnedNode = node;
    const auto decision = decide(cluster, request);
    if (!decision.fits) return false;
    commit(cluster, decision, device);
    count(book, cluster, device, {space, space + "/" + device, device, cls}, decision);
    standings[device] = standing;
    return true;
  }
  Preemption without(const Request& request, int64_t priority, const std::string& cls = "a") {
    const QuotaClaim claim{"ns", "ns/new", "new", cls};
    return preemptWithin(cluster, book, {claim, request, {}}, {}, isEvictable(priority), standing());
  }
  IsEvictable isEvictable(int64_t priority) const {
    return [this, priority](std::string_view device) {
      const auto known = standings.find(device);
      return known != standings.end() && known->second.priority < priority;
    };
  }
  EvictionRankOf standing() const {
    return [this](std::string_view device) { return standings.find(device)->second; };
  }
};

std::vector<std::string> victimsOf(const Preemption& found) {
  std::vector<std::string> victims;
  for (const Victim& each : found.victims) victims.push_back(each.device);
  return victims;
}

Quota quotaOf(const std::string& name, std::size_t key, int64_t hard) {
  Quota quota;
  quota.name = name;
  quota.hard[key] = hard;
  return quota;
}

using Victims = std::vector<std::string>;

TEST(PreemptWithin, TheLowestThatGivesBackEnoughGoesThoughCardsAreEmpty) {
  HeldQuota held;
  held.node("n0", 2);
  held.node("n1", 2);
  held.book.setQuotas("ns", {quotaOf("team", kMemory, 100 * kGi)});
  ASSERT_TRUE(held.give("small", "ns", shareOf(100, 10 * kGi), "n0", {0, 50}));
  ASSERT_TRUE(held.give("low", "ns", shareOf(100, 40 * kGi), "n0", {0, 10}));
  ASSERT_TRUE(held.give("high", "ns", shareOf(100, 50 * kGi), "n1", {5, 60}));
  ASSERT_TRUE(held.give("other", "elsewhere", shareOf(100, 30 * kGi), "n1"));
  const auto found = held.without(shareOf(100, 40 * kGi), 1000);
  ASSERT_TRUE(found.possible);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(victimsOf(found), Victims{"low"});
  EXPECT_TRUE(found.decision.fits);
  EXPECT_EQ(victimsOf(held.without(shareOf(100, 50 * kGi), 1000)), Victims{"high"}) << "one goes rather than two";
  EXPECT_EQ(victimsOf(held.without(shareOf(100, 50 * kGi), 3)), (Victims{"low", "small"})) << "high may not";
  EXPECT_FALSE(held.without(shareOf(100, 60 * kGi), 3).possible);
  EXPECT_FALSE(held.without(shareOf(100, 70 * kGi, 2), 1000).possible) << "more than the quota allows at all";
}

TEST(PreemptWithin, OneThatGivesBackBothGoesRatherThanTwo) {
  HeldQuota held;
  held.node("n0", 1);
  held.node("n1", 1);
  held.book.setQuotas("ns", {quotaOf("team", kMemory, 100 * kGi)});
  ASSERT_TRUE(held.give("card", "elsewhere", shareOf(900, 10 * kGi), "n0", {0, 50}));
  ASSERT_TRUE(held.give("quota", "ns", shareOf(100, 40 * kGi), "n0", {0, 50}));
  ASSERT_TRUE(held.give("both", "ns", shareOf(1000, 50 * kGi), "n1", {100, 10}));
  EXPECT_EQ(victimsOf(held.without(shareOf(800, 50 * kGi), 1000)), Victims{"both"});
  EXPECT_EQ(victimsOf(held.without(shareOf(800, 50 * kGi), 50)), (Victims{"card", "quota"}));
}

TEST(PreemptWithin, NoneGoesForNothing) {
  HeldQuota held;
  held.node("n0", 1);
  auto a100 = quotaOf("a100", kClaims, 1);
  a100.models = {"A100"};
  held.node("n1", 1, "T4", 16 * kGi);
  held.book.setQuotas("ns", {a100});
  ASSERT_TRUE(held.give("on-a100", "ns", shareOf(500, kGi), "n0"));
  const auto fits = held.without(shareOf(500, kGi), 1000);
  ASSERT_TRUE(fits.possible);
  EXPECT_TRUE(fits.victims.empty()) << "the T4 is not counted";
  EXPECT_EQ(fits.decision.node, "n1");
  EXPECT_EQ(victimsOf(held.without(shareOf(500, 20 * kGi), 1000)), Victims{"on-a100"});
}

TEST(PreemptWithin, OfManyThatGiveBackALittleTheLargestGo) {
  HeldQuota held;
  held.node("n0", 16);
  held.book.setQuotas("ns", {quotaOf("team", kMemory, 420 * kGi)});
  for (int i = 0; i < 60; ++i)
    ASSERT_TRUE(held.give("d" + std::to_string(i), "ns", shareOf(10, (4 + i % 7) * kGi), "n0", {i % 5, i}));
  const auto found = held.without(shareOf(10, 70 * kGi), 1000);
  ASSERT_TRUE(found.possible);
  const int64_t used = held.book.used("ns", "team")->at(kMemory);
  int64_t given = 0, least = 80 * kGi;
  for (const auto& victim : found.victims) {
    given += victim.holdings.front().charged.memory;
    least = std::min(least, victim.holdings.front().charged.memory);
  }
  EXPECT_LE(used - given + 70 * kGi, 420 * kGi);
  EXPECT_GT(used - given + least + 70 * kGi, 420 * kGi) << "one of them could stay";
}

/// Holders, Σ priorities, −Σ since, millionths, node.
using Cost = std::tuple<int64_t, int64_t, int64_t, int64_t, std::string>;

Cost costOf(const HeldQuota& held, const Holdings& holders, std::size_t set, const std::string& node) {
  Cost cost{0, 0, 0, 0, node};
  std::size_t i = 0;
  for (const auto& [device, holdings] : holders) {
    if ((set >> i++ & 1) == 0) continue;
    const auto& standing = held.standings.find(device)->second;
    std::get<0>(cost) += 1;
    std::get<1>(cost) += standing.priority;
    std::get<2>(cost) -= standing.since;
    for (const auto& each : holdings)
      std::get<3>(cost) += fillOf(each.charged, held.cluster.findCard(each.card).capacity);
  }
  return cost;
}

/// Returns the node that the claim gets after the holders with set bits are removed; empty: none, or a quota is
/// exceeded.
std::string nodeWithout(const HeldQuota& held, const Holdings& holders, std::size_t set, const QuotaClaim& claim,
                        const Request& request) {
  Cluster cluster = held.cluster;
  QuotaBook book = held.book;
  std::size_t i = 0;
  for (const auto& [device, holdings] : holders)
    if (set >> i++ & 1) release(cluster, device, holdings), book.drop(device);
  std::string first;
  for (const auto& node : cluster.nodes()) {
    auto here = request;
    here.pinnedNode = node;
    if (decideWithin(cluster, book, claim, here).fits && (first.empty() || node < first)) first = node;
  }
  return first;
}

class RandomHolders {
 public:
  explicit RandomHolders(uint64_t seed) : random_(seed) {
    held.node("n0", 2);
    held.node("n1", 1, "V100", 32 * kGi);
    held.node("n2", 2);
    std::vector<Quota> quotas;
    for (int64_t n = pick(random_, 1, 2); n > 0; --n) {
      Quota quota = quotaOf("q" + std::to_string(n), kMemory, pick(random_, 40, 120) * kGi);
      if (pick(random_, 0, 1) == 0) quota.hard[kCore] = pick(random_, 800, 2500);
      if (pick(random_, 0, 2) == 0) quota.hard[kClaims] = pick(random_, 2, 5);
      if (pick(random_, 0, 2) == 0) quota.models = {"A100"};
      if (pick(random_, 0, 3) == 0) quota.classes = {"a"};
      quotas.push_back(std::move(quota));
    }
    held.book.setQuotas("ns", std::move(quotas));
    for (int i = 0; i < 10; ++i) {
      const EvictionRank standing{pick(random_, 0, 3) * 100, pick(random_, 0, 3)};
      held.give("d" + std::to_string(i), pick(random_, 0, 2) == 0 ? "other" : "ns", request(),
                "n" + std::to_string(pick(random_, 0, 2)), standing, pick(random_, 0, 1) == 0 ? "a" : "b");
    }
  }
  Request request() {
    auto made = shareOf(pick(random_, 1, 9) * 100, pick(random_, 1, 30) * kGi, pick(random_, 0, 4) == 0 ? 2 : 1);
    made.memoryFromCore = pick(random_, 0, 4) == 0;
    return made;
  }
  int64_t priority() { return pick(random_, 1, 4) * 100; }
  HeldQuota held;

 private:
  Random random_;
};

TEST(PreemptWithin, EqualsTheCheapestOfAllSets) {
  int quota = 0, both = 0, several = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    RandomHolders world(seed);
    HeldQuota& held = world.held;
    const auto request = world.request();
    const int64_t priority = world.priority();
    const QuotaClaim claim{"ns", "ns/new", "new", "a"};
    Holdings holders = holdingsOf(held.cluster);
    std::erase_if(holders, [&](const auto& each) { return held.standings[each.first].priority >= priority; });
    std::optional<Cost> want;
    for (std::size_t set = 0; set < std::size_t{1} << holders.size(); ++set) {
      auto cost = costOf(held, holders, set, {});
      if (want && *want <= cost) continue;
      const auto node = nodeWithout(held, holders, set, claim, request);
      if (node.empty()) continue;
      std::get<4>(cost) = node;
      if (!want || cost < *want) want = cost;
    }
    const auto got = held.without(request, priority);
    SCOPED_TRACE(seed);
    ASSERT_EQ(got.possible, want.has_value());
    if (!want) {
      ++impossible;
      continue;
    }
    ASSERT_TRUE(got.exact);
    std::size_t set = 0, i = 0;
    for (const auto& [device, holdings] : holders) {
      const auto is = [&device = device](const Victim& victim) { return victim.device == device; };
      set |= std::size_t{std::any_of(got.victims.begin(), got.victims.end(), is)} << i++;
    }
    ASSERT_EQ(static_cast<std::size_t>(__builtin_popcountll(set)), got.victims.size()) << "others may not go";
    const auto cost = costOf(held, holders, set, {});
    ASSERT_EQ(std::tie(std::get<0>(cost), std::get<1>(cost), std::get<2>(cost), std::get<3>(cost)),
              std::tie(std::get<0>(*want), std::get<1>(*want), std::get<2>(*want), std::get<3>(*want)));
    ASSERT_FALSE(nodeWithout(held, holders, set, claim, request).empty());
    const bool fitsNow = decide(held.cluster, request).fits;
    quota += fitsNow && !got.victims.empty();
    both += !fitsNow;
    several += got.victims.size() > 1;
  }
  EXPECT_GT(quota, 10);
  EXPECT_GT(both, 5);
  EXPECT_GT(several, 8);
  EXPECT_GT(impossible, 10);
}

/// Σ over claims, in order.
TEST(PreemptWithin, OfSeveralTogetherVictimsGiveBackQuotaOnAnyNode) {
  HeldQuota held;
  held.node("n0", 2);
  held.node("n1", 2);
  held.book.setQuotas("ns", {quotaOf("team", kMemory, 100 * kGi)});
  ASSERT_TRUE(held.give("far", "ns", shareOf(100, 60 * kGi), "n1", {0, 10}));
  ASSERT_TRUE(held.give("near", "ns", shareOf(100, 30 * kGi), "n0", {0, 20}));
  ASSERT_TRUE(held.give("other", "elsewhere", shareOf(100, 30 * kGi), "n0", {0, 30}));
  std::vector<GangMember> members;
  for (const auto* name : {"x", "y"}) {
    members.push_back({shareOf(500, 20 * kGi)});
    members.back().claim = QuotaClaim{"ns", std::string("ns/") + name, name, "a"};
  }
  const auto found =
      preemptTogether(held.cluster, members, nullptr, held.book, held.isEvictable(1000), held.standing());
  EXPECT_FALSE(found.after.lacking);
  ASSERT_EQ(found.victims.size(), 1u);
  EXPECT_TRUE(found.victims.front().device == "far" || found.victims.front().device == "near");
  members.pop_back();
  members.front().request = shareOf(500, 75 * kGi);
  const auto larger =
      preemptTogether(held.cluster, members, nullptr, held.book, held.isEvictable(1000), held.standing());
  ASSERT_EQ(larger.victims.size(), 2u) << "neither alone gives back enough";
  members.front().request = shareOf(500, 60 * kGi);
  const auto one = preemptTogether(held.cluster, members, nullptr, held.book, held.isEvictable(1000), held.standing());
  ASSERT_EQ(one.victims.size(), 1u);
  EXPECT_EQ(one.victims.front().device, "far");
}

TEST(QuotaHold, CountsLessWhatVictimsGiveBackAndLeavesNoMoreThanIsFree) {
  QuotaBook book;
  book.setQuotas("ns", {quotaOf("team", kMemory, 100 * kGi)});
  const auto memory = [](int64_t gi) { return QuotaPart{"A100", {100, gi * kGi}, 1000, 0, true}; };
  const auto claim = [](const std::string& id) { return QuotaClaim{"ns", "ns/" + id, id, "a"}; };
  book.put("victim", claim("victim"), "c0", memory(50));
  book.put("stays", claim("stays"), "c1", memory(30));
  const QuotaHold hold{{claim("first"), {memory(60)}}, {"victim"}};
  book.hold({hold});
  EXPECT_EQ(*book.remaining(claim("later")).front().left[kMemory], 10 * kGi);
  const auto excess = book.excess({{claim("later"), {memory(11)}}});
  ASSERT_TRUE(excess);
  EXPECT_EQ(
      excess->text(),
      "quota team allows gpu-memory 100Gi, 80Gi is used and 10Gi is reserved for claim ns/first, ahead in the queue: "
      "1Gi too little for another 11Gi");
  EXPECT_EQ(book.used("ns", "team")->at(kMemory), 80 * kGi);
  book.hold({{hold.owner, {}}});
  EXPECT_EQ(*book.remaining(claim("later")).front().left[kMemory], -40 * kGi) << "nothing until 60Gi are free";
  book.hold({{{claim("first"), {memory(10)}}, {"victim"}}});
  EXPECT_EQ(*book.remaining(claim("later")).front().left[kMemory], 20 * kGi) << "what the victim has is not free yet";
  book.hold({});
  EXPECT_EQ(*book.remaining(claim("later")).front().left[kMemory], 20 * kGi);
}

TEST(QuotaExcess, NamesTheClaimsWhoseReleaseWouldDo) {
  QuotaBook book;
  book.setQuotas("ns", {quotaOf("team", kMemory, 100 * kGi), quotaOf("zone", kClaims, 3)});
  const auto memory = [](int64_t gi) { return QuotaPart{"A100", {100, gi * kGi}, 1000, 0, true}; };
  const auto claim = [](const std::string& id) { return QuotaClaim{"ns", "ns/" + id, id, "a"}; };
  book.put("a", claim("a"), "c0", memory(50));
  book.put("b", claim("b"), "c1", memory(30));
  const auto text = [&](int64_t gi, const std::string& id) {
    const auto excess = book.excess({{claim(id), {memory(gi)}}});
    return excess ? quotaHoldersText(book, *excess, true) : std::string();
  };
  EXPECT_EQ(text(40, "new"), "held by ns/a 50Gi, ns/b 30Gi: without ns/a it would be within its quotas");
  EXPECT_EQ(text(80, "new"), "held by ns/a 50Gi, ns/b 30Gi: without ns/a, ns/b it would be within its quotas");
  EXPECT_EQ(text(120, "new"), "held by ns/a 50Gi, ns/b 30Gi") << "more than the quota allows";
  EXPECT_EQ(text(60, "a"), "") << "30Gi and 60Gi";
  EXPECT_EQ(text(80, "a"), "held by ns/b 30Gi: without ns/b it would be within its quotas") << "not by itself";
}

}  // namespace
}  // namespace egpu::scheduler::testing
