// Gangs: the header's example, explanations for those that don't fit, quotas, and random gangs compared with plain
// loops.
#include "controller/scheduler/gang.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/scheduler/state/state.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

Request share(int64_t core, int64_t memory = kGi) {
  Request request;
  request.perCard = {core, memory};
  return request;
}

void addNode(Cluster& cluster, const std::string& name, int cards = 2, const std::string& model = "V100") {
  cluster.upsertNode({name, true});
  for (int c = 0; c < cards; ++c)
    cluster.upsertCard(makeCard(name + "-" + std::to_string(c), name, c, 32 * kGi, model));
}

Cluster nodesOfTwo(int nodes) {
  Cluster cluster;
  for (int n = 0; n < nodes; ++n) addNode(cluster, "n" + std::to_string(n));
  return cluster;
}

std::vector<GangMember> same(std::size_t members, const Request& request) {
  return std::vector<GangMember>(members, GangMember{request});
}

std::vector<std::string> nodesOf(const GangDecision& gang) {
  std::vector<std::string> nodes;
  for (const auto& decision : gang.decisions) nodes.push_back(decision.node);
  return nodes;
}

/// Returns the usage as text, to prove that a trial leaves no change.
std::string usedOf(const Cluster& cluster) {
  std::string text;
  for (const auto& node : cluster.nodes()) {
    text += std::to_string(cluster.nodeUsed(node).cpuMilli) + ": ";
    for (const auto& card : cluster.cardsOf(node)) {
      const auto known = cluster.findCard(card);
      text += std::to_string(known.used.core) + "/" + std::to_string(known.claims) + " ";
    }
  }
  return text + cluster.state().check();
}

using Names = std::vector<std::string>;

TEST(Gang, TheHeadersExample) {
  auto cluster = nodesOfTwo(4);
  const auto gang = same(3, whole(2));
  EXPECT_EQ(nodesOf(decideGang(cluster, gang)), (Names{"n0", "n1", "n2"}));
  cluster.take("n2-0", "x", {1000, kGi});
  EXPECT_EQ(nodesOf(decideGang(cluster, gang)), (Names{"n0", "n1", "n3"}));
  cluster.take("n3-1", "y", {1000, kGi});
  const auto before = usedOf(cluster);
  const auto none = decideGang(cluster, gang);
  EXPECT_TRUE(none.decisions.empty());
  EXPECT_EQ(none.lacking, (GangShort{2, 2, "", std::nullopt}));
  EXPECT_EQ(usedOf(cluster), before);
  addNode(cluster, "n4");
  EXPECT_EQ(nodesOf(decideGang(cluster, gang)), (Names{"n0", "n1", "n4"}));
  const std::vector<TopologyGroup> racks{{"a", {"n0", "n1", "n2"}}, {"b", {"n3", "n4"}}};
  const auto apart = decideGang(cluster, gang, &racks);
  EXPECT_TRUE(apart.decisions.empty());
  EXPECT_EQ(apart.lacking, (GangShort{2, 2, "a", std::nullopt}));
}

TEST(Gang, WhatOneLacksIsExplainedBesideTheOthers) {
  auto cluster = nodesOfTwo(3);
  cluster.take("n2-0", "x", {1000, kGi});
  const auto before = usedOf(cluster);
  auto gang = same(3, whole(2));
  const Explanation e = explainGang(cluster, gang);
  EXPECT_EQ(usedOf(cluster), before);
  EXPECT_EQ(e.text(),
            "0/3 nodes fit: 6 cards: 5 in use; nodes: 1 with too few fitting cards (need 2, best has 1); "
            "1 whole card would fit now (node n2); or free 1 more card of node n2: n2-0");
  cluster.giveBack("n2-0", "x");
  EXPECT_FALSE(decideGang(cluster, gang).decisions.empty()) << "what was offered does it";
  EXPECT_TRUE(explainGang(cluster, gang).stages.empty()) << "all fit";

  const std::vector<TopologyGroup> racks{{"a", {"n0", "n1"}}, {"b", {"n2"}}};
  const Explanation apart = explainGang(cluster, gang, &racks);
  EXPECT_EQ(apart.stages.front().reasons, (std::vector<std::pair<std::string, int64_t>>{{"outside of a", 1}}));
  gang[2].suits = [](std::string_view node) { return node != "n2"; };
  const Explanation unsuited = explainGang(cluster, gang, nullptr, {}, [](std::size_t member, std::string_view node) {
    return std::to_string(member) + " not on " + std::string(node);
  });
  EXPECT_EQ(unsuited.stages.front().reasons, (std::vector<std::pair<std::string, int64_t>>{{"2 not on n2", 1}}));
}

TEST(Gang, NoRemedyReleasesWhatTheGangsOwnMembersNeed) {
  auto cluster = nodesOfTwo(2);
  cluster.take("n0-0", "x", {1000, kGi});
  auto gang = same(2, whole(2));
  gang[1].suits = [](std::string_view node) { return node == "n1"; };
  EXPECT_EQ(explainGang(cluster, gang).text(),
            "0/2 nodes fit: 1 not suitable for the pod; of 2 cards: 2 in use; add 2 cards on one node")
      << "the first member is on n1";
  gang[1].suits = {};
  EXPECT_EQ(explainGang(cluster, gang).text(),
            "0/2 nodes fit: 4 cards: 3 in use; nodes: 1 with too few fitting cards (need 2, best has 1); 1 whole card "
            "would fit now (node n0); or free 1 more card of node n0: n0-0");
  auto shares = nodesOfTwo(1);
  shares.take("n0-0", "x", {100, kGi});
  shares.take("n0-1", "y", {900, kGi});
  EXPECT_EQ(explainGang(shares, same(2, share(800))).smallestChange.find("free"), std::string::npos)
      << "n0-0 has 10% that is not the first member's: " << explainGang(shares, same(2, share(800))).smallestChange;
  shares.giveBack("n0-0", "x");
  shares.take("n0-0", "x", {200, kGi});
  EXPECT_NE(explainGang(shares, same(2, share(500))).smallestChange.find("free 20% of card n0-0"), std::string::npos)
      << explainGang(shares, same(2, share(500))).smallestChange;
}

TEST(Gang, OfNoGroupIsNowhere) {
  auto cluster = nodesOfTwo(4);
  const std::vector<TopologyGroup> none;
  EXPECT_EQ(decideGang(cluster, same(2, share(10)), &none).lacking, GangShort{});
  EXPECT_FALSE(decideGang(cluster, {}).lacking);
}

TEST(Gang, GoesToTheGroupThatTheFirstMemberLikesAndFromThereToOthers) {
  auto cluster = nodesOfTwo(6);
  cluster.take("n4-0", "x", {100, kGi});  // binpack's favourite
  const std::vector<TopologyGroup> racks{{"a", {"n0", "n1"}}, {"b", {"n2", "n3"}}, {"c", {"n4", "n5"}}};
  EXPECT_EQ(decideGang(cluster, same(2, share(600)), &racks).group, "c");
  const auto large = decideGang(cluster, same(4, whole(1)), &racks);  // three cards of c are empty
  EXPECT_EQ(large.group, "a");
  EXPECT_EQ(nodesOf(large), (Names{"n0", "n0", "n1", "n1"}));
}

TEST(Gang, TheLargestFirstWhereTheirOrderIsInTheWay) {
  auto cluster = nodesOfTwo(2);
  cluster.take("n0-0", "x", {500, kGi});
  auto spread = share(100);
  spread.nodePolicy = spread.cardPolicy = "spread";  // it prefers an empty node
  const auto gang = decideGang(cluster, {{spread}, {whole(2)}});
  EXPECT_EQ(nodesOf(gang), (Names{"n0", "n1"}));
}

TEST(Gang, WhatPodsTakeOfANodeCountsForThoseAfterThem) {
  Cluster cluster;
  for (const auto* name : {"a", "b"}) {
    addNode(cluster, name, 4);
    cluster.upsertNode({name, true, 8000, 0});
  }
  auto request = share(10);
  request.cpuMilli = 3000;
  EXPECT_EQ(nodesOf(decideGang(cluster, same(4, request))), (Names{"a", "a", "b", "b"}));
  EXPECT_EQ(decideGang(cluster, same(5, request)).lacking, (GangShort{4, 4, "", std::nullopt}));
}

TEST(Gang, MembersOfOnePodGoToTheFirstNodeThatHasCapacityForAllOfThem) {
  auto cluster = nodesOfTwo(3);
  cluster.take("n0-0", "x", {1000, kGi});  // binpack's favourite, with capacity for one
  std::vector<GangMember> gang{{whole(1)}, {whole(1)}, {whole(1)}};
  gang[1].with = 0;
  EXPECT_EQ(nodesOf(decideGang(cluster, gang)), (Names{"n1", "n1", "n0"}));
  gang[2].with = 0;
  const auto before = usedOf(cluster);
  EXPECT_EQ(decideGang(cluster, gang).lacking, (GangShort{2, 0, "", std::nullopt}));
  EXPECT_EQ(usedOf(cluster), before);
}

TEST(Gang, PlacedMembersAreGivenToThePredicateOfPodCapacity) {
  auto cluster = nodesOfTwo(3);
  auto gang = same(3, share(100));
  for (auto& member : gang)  // two pods per node
    member.hasCapacity = [](std::string_view, std::span<const std::size_t> placed) { return placed.size() < 2; };
  EXPECT_EQ(nodesOf(decideGang(cluster, gang)), (Names{"n0", "n0", "n1"}));
}

TEST(Gang, WhatChangesBetweenTwoGroupsIsSeen) {
  auto cluster = nodesOfTwo(4);
  cluster.take("n0-0", "x", {1000, kGi});
  const std::vector<TopologyGroup> racks{{"a", {"n0", "n1"}}, {"b", {"n2", "n3"}}};
  const auto gang = decideGang(cluster, same(2, whole(2)), &racks, {}, [&] {
    EXPECT_EQ(cluster.findCard("n1-0").claims, 0);
    cluster.removeNode("n3");
  });
  EXPECT_TRUE(gang.decisions.empty());
}

/// Whole nodes of two cards, and a member for each of the first nodes. Counts the calls of the members' predicates.
struct Large {
  Cluster cluster;
  std::vector<TopologyGroup> all{{"all", {}}};
  std::vector<GangMember> members;
  int asked = 0;

  Large(int nodes, std::size_t size) : cluster(nodesOfTwo(nodes)), members(same(size, whole(2))) {
    for (int n = 0; n < nodes; ++n) all.front().nodes.push_back("n" + std::to_string(n));
    for (auto& member : members)
      member.suits = [this](std::string_view) {
        ++asked;
        return true;
      };
  }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = delete;
};

TEST(Gang, MembersOfOneKindAreEvaluatedOnce) {
  Large of(40, 20);
  for (std::size_t i = 0; i < of.members.size(); ++i) {
    of.members[i].kind = i % 2;
    if (i % 4 == 3) of.members[i].request = whole(1);
  }
  ASSERT_EQ(decideGang(of.cluster, of.members, &of.all).decisions.size(), of.members.size());
  EXPECT_LE(of.asked, 2 * 40 + 20) << "each node for each kind, and the chosen one for each member";
  const int kinds = std::exchange(of.asked, 0);
  for (auto& member : of.members) member.kind.reset();
  (void)decideGang(of.cluster, of.members, &of.all);
  EXPECT_GT(of.asked, 5 * kinds);
}

TEST(Gang, OthersDecideBetweenTwoMembersWhereASearchTakesLong) {
  Large of(600, 30);
  const auto before = usedOf(of.cluster);
  const auto want = decideGang(of.cluster, of.members, &of.all);
  for (const std::vector<TopologyGroup>* within : {&of.all, static_cast<std::vector<TopologyGroup>*>(nullptr)}) {
    int pauses = 0, max = 0;
    of.asked = 0;
    if (within == nullptr)  // few nodes suit; otherwise the index finds one at once
      for (auto& member : of.members)
        member.suits = [&of](std::string_view node) {
          ++of.asked;
          return node.size() == 4 && node > "n56";
        };
    const auto got = decideGang(of.cluster, of.members, within, {}, [&] {
      ++pauses;
      max = std::max(max, std::exchange(of.asked, 0));
      EXPECT_EQ(usedOf(of.cluster), before) << "what was tried is given back";
    });
    EXPECT_GE(pauses, 2);
    EXPECT_LT(max, 10 * 600) << "of 18,000";
    EXPECT_EQ(got.decisions.size(), of.members.size());
    if (within != nullptr) {
      EXPECT_EQ(got.decisions, want.decisions) << "nothing happened meanwhile";
    }
    EXPECT_EQ(usedOf(of.cluster), before);
  }
}

/// Checks that each card of the decision is still free.
void expectFree(const Cluster& cluster, const GangDecision& gang) {
  std::vector<std::string> cards;
  for (const auto& decision : gang.decisions)
    for (const auto& placement : decision.placements) {
      EXPECT_EQ(cluster.findCard(placement.card).claims, 0) << placement.card;
      EXPECT_EQ(std::count(cards.begin(), cards.end(), placement.card), 0) << placement.card;
      cards.push_back(placement.card);
    }
}

TEST(Gang, WhatOthersTakeMeanwhileIsNotDecided) {
  for (const int max : {1, 2, 1000}) {
    Large of(600, 30);
    auto nodes = of.all.front().nodes;
    std::sort(nodes.begin(), nodes.end());  // in the order of choice
    std::size_t taken = 0;
    int pauses = 0;
    const auto got = decideGang(of.cluster, of.members, &of.all, {}, [&] {
      if (++pauses > max) return;
      of.cluster.take(nodes[taken++] + "-0", "other", {1000, kGi});  // the first member's node
    });
    ASSERT_EQ(got.decisions.size(), of.members.size()) << max;
    expectFree(of.cluster, got);
    EXPECT_EQ(taken, static_cast<std::size_t>(std::min(max, 3))) << "it comes to an end whatever others do";
  }
  Large of(600, 30);
  for (auto& member : of.members) member.suits = [](std::string_view node) { return node != "n0"; };
  of.members.back().suits = [](std::string_view node) { return node == "n0"; };
  ASSERT_FALSE(decideGang(of.cluster, of.members, &of.all).lacking);
  const auto got = decideGang(of.cluster, of.members, &of.all, {}, [&] { of.cluster.removeNode("n0"); });
  EXPECT_EQ(got.lacking, (GangShort{29, 29, "all", std::nullopt})) << "what fits no more";
}

QuotaBook bookOf(core::StringMap hard, std::vector<std::string> models = {}) {
  v1alpha::ElasticGPUQuota quota;
  quota.metadata.name = "team";
  quota.metadata.namespace_ = "ns";
  quota.spec.hard = std::move(hard);
  quota.spec.models = std::move(models);
  QuotaBook book;
  book.setQuotas("ns", {readQuota(quota)});
  return book;
}

std::vector<GangMember> counted(std::size_t members, const Request& request) {
  auto all = same(members, request);
  for (std::size_t i = 0; i < members; ++i) {
    const auto id = "m" + std::to_string(i);
    all[i].claim = QuotaClaim{"ns", "ns/" + id, id, "share"};
  }
  return all;
}

TEST(Gang, IsWithinTheQuotasAsAWhole) {
  auto cluster = nodesOfTwo(4);
  const auto book = bookOf({{"gpu", "5"}});
  EXPECT_EQ(decideGang(cluster, counted(5, whole(1)), nullptr, book).decisions.size(), 5u);
  const auto six = decideGang(cluster, counted(6, whole(1)), nullptr, book);
  ASSERT_TRUE(six.lacking && six.lacking->excess);
  EXPECT_EQ(six.lacking->member, 5u);
  EXPECT_EQ(six.lacking->excess->text(), "quota team allows gpu 5, 5 is used: 1 too little for another 1");
  EXPECT_FALSE(decideGang(cluster, counted(9, whole(1)), nullptr, bookOf({{"gpu", "9"}})).lacking->excess);
}

TEST(Gang, GoesOnWithCardsThatAQuotaDoesNotCount) {
  Cluster cluster;
  addNode(cluster, "a", 4, "A100");
  addNode(cluster, "b", 4, "V100");
  const auto book = bookOf({{"gpu", "2"}}, {"A100"});
  EXPECT_EQ(nodesOf(decideGang(cluster, counted(4, whole(1)), nullptr, book)), (Names{"a", "a", "b", "b"}));
}

TEST(Gang, OfTotalsToBeDividedIsCountedAsTheyWereDivided) {
  auto cluster = nodesOfTwo(4);
  auto total = share(1200, 4 * kGi);
  total.split = Split::evenly;
  EXPECT_FALSE(decideGang(cluster, counted(3, total), nullptr, bookOf({{"gpu", "6"}})).lacking);
  const auto over = decideGang(cluster, counted(3, total), nullptr, bookOf({{"gpu", "5"}}));
  ASSERT_TRUE(over.lacking && over.lacking->excess);
  EXPECT_EQ(over.lacking->member, 2u);
}

/// Gang decisions as plain loops over plain maps.
class Plain {
 public:
  Plain(const World& world, const std::vector<GangMember>& members) : world_(world), members_(members) {}

  GangDecision decide(const std::vector<TopologyGroup>* within) const {
    GangDecision best;
    if (within == nullptr) {
      (void)bothOrders(nullptr, best);
      return best;
    }
    const auto liked = world_.decide(members_.front().request, members_.front().suits).node;
    std::vector<const TopologyGroup*> ordered;
    for (const bool first : {true, false})
      for (const auto& group : *within) {
        const bool has = std::count(group.nodes.begin(), group.nodes.end(), liked) > 0;
        if (has == first) ordered.push_back(&group);
      }
    for (const auto* group : ordered)
      if (bothOrders(group, best)) return best;
    if (!best.lacking) best.lacking.emplace();
    return best;
  }

 private:
  using Unit = std::vector<std::size_t>;

  bool bothOrders(const TopologyGroup* group, GangDecision& best) const {
    std::vector<Unit> order;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].with) order.push_back({i});
      for (auto& unit : order)
        if (members_[i].with && unit.front() == *members_[i].with) unit.push_back(i);
    }
    if (inOrder(group, order, best)) return true;
    std::stable_sort(order.begin(), order.end(), [this](const Unit& a, const Unit& b) {
      const Request &x = members_[a.front()].request, &y = members_[b.front()].request;
      return std::tuple(x.wholeCards, x.perCard.core * x.cards, x.perCard.memory * x.cards, x.cards) >
             std::tuple(y.wholeCards, y.perCard.core * y.cards, y.perCard.memory * y.cards, y.cards);
    });
    return inOrder(group, order, best);
  }

  Decision one(const World& world, std::size_t i, const TopologyGroup* group, const std::vector<Decision>& so,
               const std::vector<std::string>& tried) const {
    const auto& member = members_[i];
    return world.decide(member.request, [&](std::string_view node) {
      std::vector<std::size_t> placed;
      for (std::size_t k = 0; k < so.size(); ++k)
        if (so[k].fits && so[k].node == node) placed.push_back(k);
      return std::count(tried.begin(), tried.end(), node) == 0 &&
             (!group || std::count(group->nodes.begin(), group->nodes.end(), node) > 0) &&
             (!member.suits || member.suits(node)) && (!member.with || so[*member.with].node == node) &&
             (!member.hasCapacity || member.hasCapacity(node, placed));
    });
  }

  /// Returns nothing, or the member that does not fit.
  std::optional<std::size_t> unitIn(World& world, const Unit& unit, const TopologyGroup* group,
                                    std::vector<Decision>& so) const {
    std::optional<std::size_t> lacks;
    std::vector<std::string> tried;
    const World before = unit.size() > 1 ? world : World();
    const auto decided = so;
    while (true) {
      std::size_t fit = 0;
      for (; fit < unit.size(); ++fit) {
        const auto i = unit[fit];
        so[i] = one(world, i, group, so, tried);
        if (!so[i].fits) break;
        NodeAmount ofNode{members_[i].request.cpuMilli, members_[i].request.podMemory};
        for (const auto& p : so[i].placements)
          world.take(p.card, "m" + std::to_string(i), p.charged, std::exchange(ofNode, {}));
      }
      if (fit == unit.size()) return std::nullopt;
      lacks = std::max(lacks.value_or(unit[fit]), unit[fit]);
      if (fit == 0) return lacks;
      tried.push_back(so[unit.front()].node);
      world = before;
      so = decided;
    }
  }

  bool inOrder(const TopologyGroup* group, const std::vector<Unit>& order, GangDecision& best) const {
    World world = world_;
    std::vector<Decision> decisions(members_.size());
    std::size_t fit = 0;
    for (const auto& unit : order) {
      if (const auto lacks = unitIn(world, unit, group, decisions)) {
        if (!best.lacking || fit > best.lacking->fit)
          best.lacking = GangShort{*lacks, fit, group ? group->value : "", std::nullopt};
        return false;
      }
      fit += unit.size();
    }
    best = {std::move(decisions), group ? group->value : "", std::nullopt};
    return true;
  }

  const World& world_;
  const std::vector<GangMember>& members_;
};

Request randomRequest(Random& random) {
  static const char* const kPolicies[] = {"binpack", "spread", "compact-first", "low-load-first"};
  auto request =
      pick(random, 0, 2) == 0 ? whole(pick(random, 1, 3)) : share(pick(random, 1, 9) * 100, pick(random, 1, 8) * kGi);
  if (!request.wholeCards && pick(random, 0, 3) == 0) request.cards = 2;
  request.nodePolicy = kPolicies[pick(random, 0, 3)];
  request.cardPolicy = kPolicies[pick(random, 0, 3)];
  if (pick(random, 0, 4) == 0) request.cpuMilli = pick(random, 1, 8) * 1000;
  if (pick(random, 0, 9) == 0) request.maxClaimsPerNode = pick(random, 1, 3);
  if (pick(random, 0, 9) == 0) request.models = {"A100"};
  if (pick(random, 0, 19) == 0) request.pinnedNode = "node-" + std::to_string(pick(random, 0, 5));
  return request;
}

World randomWorld(Random& random) {
  World world;
  const auto nodes = pick(random, 1, 9);
  for (int64_t n = 0; n < nodes; ++n) {
    const auto node = "node-" + std::to_string(n);
    NodeInfo info{node, pick(random, 0, 9) != 0};
    if (pick(random, 0, 1) == 0) info.cpuMilli = pick(random, 4, 32) * 1000;
    world.upsertNode(info);
    for (int64_t c = pick(random, 0, 4); c-- > 0;) {
      const auto name = node + "-" + std::to_string(c);
      auto card = makeCard(name, node, c, 16 * kGi, n % 3 == 0 ? "A100" : "V100");
      card.healthy = pick(random, 0, 9) != 0;
      world.upsertCard(card);
      if (pick(random, 0, 2) == 0)
        world.take(name, "old-" + name, {pick(random, 1, 10) * 100, pick(random, 1, 8) * kGi});
    }
  }
  return world;
}

std::vector<GangMember> randomGang(Random& random) {
  std::vector<GangMember> members;
  const bool alike = pick(random, 0, 1) == 0, kinds = pick(random, 0, 1) == 0;
  const auto first = randomRequest(random);
  for (int64_t m = pick(random, 2, 7); m-- > 0;) {
    auto& member = members.emplace_back(GangMember{alike ? first : randomRequest(random)});
    const auto odd = pick(random, 0, 5), max = pick(random, 0, 11);
    if (odd < 2) member.suits = [odd](std::string_view node) { return node.back() % 2 == odd; };
    if (max == 1 || max == 2)
      member.hasCapacity = [max](std::string_view, std::span<const std::size_t> placed) {
        return static_cast<int64_t>(placed.size()) < max;
      };
    if (kinds) member.kind = static_cast<std::size_t>(std::min<int64_t>(odd, 2) * 3 + (max > 2 ? 0 : max));
    if (const auto last = members.size() - 1; last > 0 && pick(random, 0, 3) == 0)
      member.with = members[last - 1].with.value_or(last - 1);
  }
  return members;
}

std::vector<TopologyGroup> randomGroups(Random& random) {
  std::map<std::string, TopologyGroup> groups;
  for (int n = 0; n < 10; ++n) {  // some nodes do not exist, some are in no group
    const auto value = "rack-" + std::to_string(pick(random, 0, 3));
    if (pick(random, 0, 9) == 0) continue;
    groups[value].value = value;
    groups[value].nodes.push_back("node-" + std::to_string(n));
  }
  std::vector<TopologyGroup> all;
  for (auto& [value, group] : groups) all.push_back(std::move(group));
  return all;
}

TEST(Gang, RandomOnesAreDecidedAsThePlainLoopsDo) {
  int whole = 0, lacking = 0, grouped = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto world = randomWorld(random);
    const auto members = randomGang(random);
    const auto groups = randomGroups(random);
    auto cluster = world.build();
    const auto before = usedOf(cluster);
    for (const auto* within : {static_cast<const std::vector<TopologyGroup>*>(nullptr), &groups}) {
      const auto got = decideGang(cluster, members, within);
      const auto want = Plain(world, members).decide(within);
      ASSERT_EQ(got.decisions, want.decisions);
      ASSERT_EQ(got.group, want.group);
      ASSERT_EQ(got.decisions.empty(), got.lacking.has_value());
      if (got.lacking) {
        ASSERT_EQ(got.lacking, want.lacking);
      }
      ASSERT_EQ(usedOf(cluster), before);
      ++(got.lacking ? lacking : within ? grouped : whole);
    }
  }
  EXPECT_GT(whole, 300);
  EXPECT_GT(grouped, 300);
  EXPECT_GT(lacking, 300);
}

/// Equal shares of one card: as many members fit as the cards can hold, by division, and never one more.
TEST(Gang, OfEqualSharesFitsIfAndOnlyIfTheCardsHaveCapacityForIt) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto world = randomWorld(random);
    const auto request = share(pick(random, 1, 5) * 100, pick(random, 1, 5) * kGi);
    std::size_t capacity = 0;
    for (const auto& [name, card] : world.cards) {
      if (!card.info.healthy || !world.nodes.at(card.info.card.nodeName).info.schedulable) continue;
      const auto used = card.used();
      const auto max = std::min((card.info.card.core - used.core) / request.perCard.core,
                                (card.info.card.memory - used.memory) / request.perCard.memory);
      capacity += static_cast<std::size_t>(std::max<int64_t>(0, max));
    }
    auto cluster = world.build();
    if (capacity > 0) {
      EXPECT_EQ(decideGang(cluster, same(capacity, request)).decisions.size(), capacity);
    }
    EXPECT_EQ(decideGang(cluster, same(capacity + 1, request)).lacking,
              (GangShort{capacity, capacity, "", std::nullopt}));
  }
}

}  // namespace
}  // namespace egpu::scheduler::testing
