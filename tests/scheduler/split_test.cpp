// Totals divided over several cards: the published cases of the allocators that define these rules, and exact results
// where those allocators round.
#include "controller/scheduler/choice/split.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/explain.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

using Parts = std::multiset<int64_t>;

/// Returns the parts of a total by card, over cards with these capacities, with card policy binpack.
std::map<uint32_t, int64_t> byCard(Split split, int64_t total, std::vector<int64_t> capacities) {
  std::vector<CardCandidate> candidates(capacities.size());
  const NodeRecord node;
  const Division division(split, total, std::move(capacities));
  if (!division.possible()) return {};
  Chosen chosen;
  findCardPolicy("binpack")->divide({node, candidates, 0}, division, chosen);
  const std::vector<int64_t> parts = division.parts(chosen.cards);
  std::map<uint32_t, int64_t> result;
  for (std::size_t i = 0; i < parts.size(); ++i) result[chosen.cards[i]] = parts[i];
  return result;
}
Parts divided(Split split, int64_t total, std::vector<int64_t> capacities) {
  Parts parts;
  for (const auto& [card, part] : byCard(split, total, std::move(capacities))) parts.insert(part);
  return parts;
}

using ByCard = std::map<uint32_t, int64_t>;

// Percents of a card; cards without capacity are excluded, as in decide().
TEST(Evenly, ThePublishedCases) {
  EXPECT_EQ(divided(Split::evenly, 66, {5, 10, 20, 30}), Parts{}) << "one more than there is";
  EXPECT_EQ(byCard(Split::evenly, 20, {5, 10, 20, 30}), (ByCard{{2, 20}})) << "the least free that fits";
  EXPECT_EQ(byCard(Split::evenly, 50, {5, 10, 20, 30}), (ByCard{{2, 20}, {3, 30}}));
  EXPECT_EQ(byCard(Split::evenly, 65, {5, 10, 20, 30}), (ByCard{{0, 5}, {1, 10}, {2, 20}, {3, 30}}));
  EXPECT_EQ(byCard(Split::evenly, 60, {5, 10, 20, 30}), (ByCard{{1, 10}, {2, 20}, {3, 30}}));
  EXPECT_EQ(byCard(Split::evenly, 100, {30, 30, 90}), (ByCard{{0, 30}, {1, 30}, {2, 40}}))
      << "evenness before few cards";
  EXPECT_EQ(byCard(Split::evenly, 231, {80, 75, 70, 30}), (ByCard{{0, 67}, {1, 67}, {2, 67}, {3, 30}}));
  EXPECT_EQ(byCard(Split::evenly, 200, {80, 75, 70, 30}), (ByCard{{0, 67}, {1, 67}, {2, 66}}));
  EXPECT_EQ(byCard(Split::evenly, 600, {200, 300, 300, 500}), (ByCard{{1, 300}, {2, 300}}));
  EXPECT_EQ(byCard(Split::evenly, 20, {50, 50, 50}), (ByCard{{2, 20}})) << "of equal cards the last";
  EXPECT_EQ(byCard(Split::evenly, 600, {100, 150, 200, 300, 300, 400, 450, 500, 500}), (ByCard{{3, 300}, {4, 300}}));
  EXPECT_EQ(byCard(Split::evenly, 1100, {100, 150, 200, 300, 300, 400, 450, 500, 500}),
            (ByCard{{3, 275}, {4, 275}, {5, 275}, {6, 275}}));
  EXPECT_EQ(divided(Split::evenly, 600, {100, 100, 100, 100, 100, 100, 100, 100}),
            (Parts{100, 100, 100, 100, 100, 100}));
  EXPECT_EQ(divided(Split::evenly, 150, {100, 100}), (Parts{75, 75}));
  EXPECT_EQ(divided(Split::evenly, 175, {100, 100}), (Parts{88, 87})) << "nothing is rounded away";
}

TEST(Evenly, TwentyTimesOnePercentFillsTheLeastFreeFirst) {
  std::vector<int64_t> capacities{5, 10, 20, 30};
  for (int i = 0; i < 20; ++i) {
    std::vector<int64_t> left;
    std::vector<uint32_t> which;
    for (uint32_t c = 0; c < capacities.size(); ++c)
      if (capacities[c] > 0) left.push_back(capacities[c]), which.push_back(c);
    const ByCard parts = byCard(Split::evenly, 1, left);
    ASSERT_EQ(parts.size(), 1u);
    capacities[which[parts.begin()->first]] -= 1;
  }
  EXPECT_EQ(capacities, (std::vector<int64_t>{0, 0, 15, 30}));
}

TEST(Fill, ThePublishedCases) {
  EXPECT_EQ(byCard(Split::fill, 150, {100, 100}), (ByCard{{0, 100}, {1, 50}}));
  EXPECT_EQ(byCard(Split::fill, 175, {100, 100}), (ByCard{{0, 100}, {1, 75}}));
  EXPECT_EQ(divided(Split::fill, 795, {100, 100, 100, 100, 100, 100, 100, 100}),
            (Parts{95, 100, 100, 100, 100, 100, 100, 100}));
  EXPECT_EQ(byCard(Split::fill, 50, {80, 100}), (ByCard{{1, 50}})) << "most free first";
  EXPECT_EQ(divided(Split::fill, 201, {100, 100}), Parts{});
}

TEST(Fill, SmallPartsAlternateBetweenTheFreest) {
  std::vector<int64_t> capacities{100, 100};
  for (int i = 0; i < 100; ++i) capacities[byCard(Split::fill, 1, capacities).begin()->first] -= 1;
  EXPECT_EQ(capacities, (std::vector<int64_t>{50, 50}));
}

TEST(Division, NeverOnMoreCardsThanADeviceHas) {
  const std::vector<int64_t> capacities(20, 10);
  EXPECT_EQ(divided(Split::evenly, 160, capacities).size(), 16u);
  EXPECT_EQ(divided(Split::evenly, 161, capacities), Parts{});
  EXPECT_EQ(divided(Split::fill, 161, capacities), Parts{});
}

Request total(int64_t core, Split split, const char* cardPolicy = "binpack") {
  Request r;
  r.perCard.core = core;
  r.memoryFromCore = true;
  r.split = split;
  r.cardPolicy = cardPolicy;
  return r;
}

Cluster oneNode(int cards, int64_t memory = 32 * kGi) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int c = 0; c < cards; ++c) cluster.upsertCard(makeCard("c" + std::to_string(c), "n", c, memory));
  return cluster;
}

std::map<std::string, Amount> grantedIn(const Decision& decision) {
  std::map<std::string, Amount> granted;
  for (const Placement& p : decision.placements) granted[p.card] = p.granted;
  return granted;
}

// backend.ai's published map: 0.2 of a device, then 1.2. The 0.2 goes to the last of two equal devices, so the devices
// hold 0.60 and 0.80.
TEST(Split, TwoClaimsOnTwoDevices) {
  Cluster cluster = oneNode(2);
  const Decision first = decide(cluster, total(200, Split::evenly));
  ASSERT_EQ(first.placements.size(), 1u);
  commit(cluster, first, "a");
  const Decision second = decide(cluster, total(1200, Split::evenly));
  ASSERT_TRUE(second.fits);
  commit(cluster, second, "b");
  EXPECT_EQ(cluster.findCard("c0").used.core, 600);
  EXPECT_EQ(cluster.findCard("c1").used.core, 800);
  EXPECT_EQ(cluster.findCard("c1").used.memory, (6553 + 19660) * kMi)
      << "each part has its card's memory in proportion";

  Cluster filled = oneNode(2);
  commit(filled, decide(filled, total(200, Split::fill)), "a");
  commit(filled, decide(filled, total(1200, Split::fill)), "b");
  EXPECT_EQ(filled.findCard("c0").used.core, 400);
  EXPECT_EQ(filled.findCard("c1").used.core, 1000);
}

TEST(Split, MemoryFollowsTheCorePartsAndIsExact) {
  Cluster cluster = oneNode(3);
  cluster.take("c2", "x", {900, 0});
  Request r = total(2100, Split::evenly);
  r.memoryFromCore = false;
  r.perCard.memory = 10 * kGi;
  const auto granted = grantedIn(decide(cluster, r));
  ASSERT_EQ(granted.size(), 3u);
  EXPECT_EQ(granted.at("c0"), (Amount{1000, 4877 * kMi})) << "10240 × 1000 ÷ 2100 = 4876.2 MiB, and one that was left";
  EXPECT_EQ(granted.at("c1"), (Amount{1000, 4876 * kMi}));
  EXPECT_EQ(granted.at("c2"), (Amount{100, 487 * kMi}));
  r.perCard.memory = 10 * kGi + 1;  // not a multiple of a MiB: exact to the byte
  int64_t sum = 0;
  for (const auto& [card, amount] : grantedIn(decide(cluster, r))) sum += amount.memory;
  EXPECT_EQ(sum, 10 * kGi + 1);
}

TEST(Split, MemoryAloneIsDividedItself) {
  Cluster cluster = oneNode(3);
  cluster.take("c0", "x", {0, 20 * kGi});
  Request r;
  r.split = Split::evenly;
  r.perCard = {0, 40 * kGi};
  EXPECT_EQ(grantedIn(decide(cluster, r)),
            (std::map<std::string, Amount>{{"c1", {0, 20 * kGi}}, {"c2", {0, 20 * kGi}}}));
  r.perCard.memory = 76 * kGi;
  EXPECT_EQ(grantedIn(decide(cluster, r)),
            (std::map<std::string, Amount>{{"c0", {0, 12 * kGi}}, {"c1", {0, 32 * kGi}}, {"c2", {0, 32 * kGi}}}));
  r.perCard.memory += 1;
  EXPECT_FALSE(decide(cluster, r).fits);
}

TEST(Split, CardsOfUnequalSize) {
  Cluster cluster = oneNode(0);
  CardInfo large = makeCard("large", "n", 0, 80 * kGi), small = makeCard("small", "n", 1, 16 * kGi);
  large.card.milliTflops = 312'000;
  small.card.milliTflops = 65'000;
  cluster.upsertCard(large);
  cluster.upsertCard(small);
  Request r = total(1500, Split::evenly);
  EXPECT_EQ(grantedIn(decide(cluster, r)),
            (std::map<std::string, Amount>{{"large", {750, 60 * kGi}}, {"small", {750, 12 * kGi}}}));
  r.memoryFromCore = false;  // the small card's memory is used up first: 16 of 48 GiB are 50 of 150 %
  r.perCard.memory = 48 * kGi;
  EXPECT_EQ(grantedIn(decide(cluster, r)),
            (std::map<std::string, Amount>{{"large", {1000, 32 * kGi}}, {"small", {500, 16 * kGi}}}));
  r = Request();
  r.split = Split::evenly;
  r.milliTflopsPerCard = 350'000;
  r.memoryFromCore = true;
  const auto granted = grantedIn(decide(cluster, r));
  EXPECT_EQ(granted.at("small").core, 1000) << "all of its 65 TFLOPS";
  EXPECT_EQ(granted.at("large").core, 914) << "285 of 312, up to a milli-card";
}

TEST(Split, OvercommitChargesEachPart) {
  Cluster cluster = oneNode(2);
  cluster.take("c0", "x", {700, 0});
  Request r = total(1400, Split::fill);
  r.coreOvercommit = 2000;
  const Decision decision = decide(cluster, r);
  ASSERT_TRUE(decision.fits);
  EXPECT_EQ(decision.placements[0].granted.core, 1000) << "never more than a card of one card";
  EXPECT_EQ(decision.placements[0].charged.core, 500);
  EXPECT_EQ(decision.placements[1].granted.core, 400);
  EXPECT_EQ(decision.placements[1].charged.core, 200);
}

TEST(Split, LimitsAndQuarantineHold) {
  Cluster cluster = oneNode(3);
  cluster.take("c0", "x", {10, 0});
  Request r = total(2500, Split::evenly);
  ASSERT_TRUE(decide(cluster, r).fits);
  r.maxClaimsPerCard = 1;
  EXPECT_FALSE(decide(cluster, r).fits);
  r.maxClaimsPerCard = 0;
  r.maxClaimsPerNode = 1;
  EXPECT_FALSE(decide(cluster, r).fits);
  r.maxClaimsPerNode = 0;
  CardInfo sick = makeCard("c2", "n", 2);
  sick.healthy = false;
  cluster.upsertCard(sick);
  EXPECT_FALSE(decide(cluster, r).fits);
}

TEST(Split, ANamedCardMustHoldAllOfIt) {
  Cluster cluster = oneNode(2);
  Request r = total(1200, Split::evenly);
  r.pinnedCards = {"c1"};
  EXPECT_FALSE(decide(cluster, r).fits);
  r.perCard.core = 700;
  EXPECT_EQ(grantedIn(decide(cluster, r)).begin()->first, "c1");
  r.cards = 2;
  r.pinnedCards = {"c0", "c1"};
  EXPECT_EQ(decide(cluster, r).placements.size(), 2u) << "exactly these";
}

TEST(Split, ExplainsWhatIsShortInAll) {
  Cluster cluster = oneNode(2);
  cluster.take("c0", "x", {400, 0});
  const Explanation e = explain(cluster, total(1800, Split::evenly));
  EXPECT_EQ(e.stages.back().reasons,
            (std::vector<std::pair<std::string, int64_t>>{
                {"short of free capacity on all its cards together (need 180%, best has 160%)", 1}}));
  EXPECT_EQ(e.remedies.at(0).request.perCard.core, 1600);
  EXPECT_EQ(e.remedies.at(1).shortages.at(0), (Remedy::CardCapacity{"c0", {200, 0}, 0}));
  EXPECT_EQ(e.smallestChange, "gpu-core 160 would fit now (node n); or free 20% of card c0 (node n)");
  Request memory;
  memory.split = Split::fill;
  memory.perCard.memory = 70 * kGi;
  EXPECT_EQ(explain(cluster, memory).stages.back().reasons.at(0).first,
            "short of free capacity on all its cards together (need 70Gi, best has 64Gi)");
  Request sets;
  sets.cardPolicy = "static";
  sets.perCard = {100, kGi};
  EXPECT_EQ(explain(cluster, sets).stages.back().reasons.at(0).first, "without a fixed set of fitting cards");
}

// Worked example of the README: the card policy chooses among several equally even sets.
TEST(Split, TheCardPolicyChoosesAmongEquallyEvenSets) {
  Cluster cluster = oneNode(4);
  cluster.take("c0", "x", {100, 0});
  cluster.take("c2", "y", {300, 0});
  auto cards = [&](const char* policy) {
    std::set<std::string> names;
    for (const auto& [name, amount] : grantedIn(decide(cluster, total(1200, Split::evenly, policy))))
      names.insert(name);
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(cards("binpack"), (Names{"c0", "c2"})) << "the least room is left";
  EXPECT_EQ(cards("spread"), (Names{"c1", "c3"}));
  EXPECT_EQ(cards("simple"), (Names{"c0", "c1"}));
}

TEST(Split, TopologyAndFixedSetsOnADgx1) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (v1alpha::Card card : topology::testing::dgx1Volta()) {
    card.nodeName = "n";
    cluster.upsertCard({"c" + std::to_string(card.index), card, true});
  }
  cluster.take("c0", "x", {300, 0});
  auto cards = [&](int64_t core, const char* policy) {
    std::string names;
    for (const auto& [name, amount] : grantedIn(decide(cluster, total(core, Split::evenly, policy)))) names += name;
    return names;
  };
  EXPECT_EQ(cards(1200, "topology"), "c0c3") << "60 % still fits on card 0";
  EXPECT_EQ(cards(1800, "topology"), "c1c2") << "90 % does not";
  EXPECT_EQ(cards(1200, "static"), "c0c3");
  EXPECT_EQ(cards(1800, "static"), "c1c2");
  EXPECT_EQ(cards(2900, "static"), "c4c5c6c7") << "three cards are no set";
  EXPECT_EQ(cards(7800, "static"), "") << "the eight lack 10 %";
}

}  // namespace
}  // namespace egpu::scheduler::testing
