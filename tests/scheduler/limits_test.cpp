// Class limits under every pair of policies and every split: claims are placed until none fits, and each limit is
// checked on the grants by its definition, without the scheduler's arithmetic.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "controller/scheduler/card_policy/card_policy.h"
#include "controller/scheduler/forecast.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "tests/scheduler/topology/nodes.h"
#include "tests/scheduler/world.h"

namespace egpu::scheduler::testing {
namespace {

struct Limit {
  const char* name;
  void (*set)(Request&);
};

/// A claim of 30 % and 5Gi, or of as much in TFLOPS; per card or, if split, in total over several cards.
constexpr Limit kLimits[] = {
    {"none", [](Request&) {}},
    {"tflops",
     [](Request& r) {
       r.milliTflopsPerCard = r.split == Split::none ? 31'000 : 97'500;
       r.perCard.core = 0;
     }},
    {"memory from core",
     [](Request& r) {
       r.memoryFromCore = true;
       r.perCard.memory = 0;
     }},
    {"core overcommit", [](Request& r) { r.coreOvercommit = 1700; }},
    {"memory overcommit", [](Request& r) { r.memoryOvercommit = 2300; }},
    {"both overcommitted, by rating",
     [](Request& r) {
       r.milliTflopsPerCard = 30'700;
       r.perCard.core = 0;
       r.coreOvercommit = 1999;
       r.memoryOvercommit = 1001;
     }},
    {"maxClaimsPerCard", [](Request& r) { r.maxClaimsPerCard = 2; }},
    {"maxClaimsPerNode", [](Request& r) { r.maxClaimsPerNode = 3; }},
    {"minMemory", [](Request& r) { r.minMemory = 20 * kGi; }},
    {"model",
     [](Request& r) {
       r.models = {"T4", "A100"};
     }},
    {"all together",
     [](Request& r) {
       r.coreOvercommit = 1500;
       r.maxClaimsPerCard = 3;
       r.maxClaimsPerNode = 5;
       r.minMemory = 20 * kGi;
     }},
};

/// Checks charged = ⌈granted · 1000 ÷ overcommit⌉ by search instead of computation.
bool isCharged(int64_t charged, int64_t granted, int64_t overcommit) {
  const auto enough = [&](int64_t c) {
    return static_cast<__int128>(c) * overcommit >= static_cast<__int128>(granted) * 1000;
  };
  return enough(charged) && (charged == 0 || !enough(charged - 1));
}

/// Three nodes of four cards: of one model, of another, and mixed; on each node one card is quarantined. With `machine`
/// also a DGX-1, which policies recognise by its wiring.
Cluster site(bool machine = false) {
  Cluster cluster;
  const auto add = [&](const std::string& node, int64_t index, const char* model, int64_t memory, int64_t milliTflops) {
    CardInfo card = makeCard(node + "-" + std::to_string(index), node, index, memory, model);
    card.card.milliTflops = milliTflops;
    card.healthy = index != 2;
    cluster.upsertCard(card);
  };
  for (const std::string node : {"n0", "n1", "n2"}) cluster.upsertNode({node, true});
  for (int64_t i = 0; i < 4; ++i) {
    add("n0", i, "V100", 32 * kGi, 125'000);
    add("n1", i, "T4", 16 * kGi, 65'130);
    add("n2", i, i % 2 == 0 ? "A100" : "T4", (i % 2 == 0 ? 80 : 16) * kGi, i % 2 == 0 ? 312'000 : 65'130);
  }
  if (!machine) return cluster;
  cluster.upsertNode({"n3", true});
  for (v1alpha::Card& card : topology::testing::dgx1Volta()) {
    card.nodeName = "n3";
    card.memory = 32 * kGi;
    card.milliTflops = 125'000;
    cluster.upsertCard({"n3-" + std::to_string(card.index), card, card.index != 2});
  }
  return cluster;
}

class PolicyLimits : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  /// Places claims until none fits. Returns their number.
  int64_t fill(Cluster& cluster, const Request& request) {
    int64_t placed = 0;
    std::map<std::string, int64_t> onNode;
    for (;;) {
      const Decision decision = decide(cluster, request);
      if (!decision.fits) return placed;
      if (++placed > 500) {
        ADD_FAILURE() << "there is no end to it";
        return placed;
      }
      check(cluster, request, decision);
      const int64_t here = ++onNode[decision.node];
      if (request.maxClaimsPerNode > 0) {
        EXPECT_LE(here, request.maxClaimsPerNode);
      }
      commit(cluster, decision, "d" + std::to_string(placed));
    }
  }

  static void check(const Cluster& cluster, const Request& request, const Decision& decision) {
    const bool total = request.split != Split::none;
    if (!total) {
      EXPECT_EQ(static_cast<int64_t>(decision.placements.size()), request.cards);
    }
    Amount sum;
    std::set<std::string> cards;
    for (const Placement& placement : decision.placements) {
      const CardView card = cluster.findCard(placement.card);
      const int64_t milliTflops = cluster.describe(placement.card).value().milliTflops;
      EXPECT_TRUE(cards.insert(placement.card).second) << "twice on " << placement.card;
      EXPECT_EQ(card.node, decision.node);
      EXPECT_TRUE(card.healthy) << placement.card << " is quarantined";
      EXPECT_GE(card.capacity.memory, request.minMemory);
      if (!request.models.empty()) {
        EXPECT_NE(card.model, "V100");
      }
      if (request.maxClaimsPerCard > 0) {
        EXPECT_LT(card.claims, request.maxClaimsPerCard);
      }
      EXPECT_TRUE(isCharged(placement.charged.core, placement.granted.core, request.coreOvercommit));
      EXPECT_TRUE(isCharged(placement.charged.memory, placement.granted.memory, request.memoryOvercommit));
      EXPECT_LE(card.used.core + placement.charged.core, card.capacity.core);
      EXPECT_LE(card.used.memory + placement.charged.memory, card.capacity.memory);
      // Regardless of overcommitment, no claim is granted more of a card than exists.
      EXPECT_LE(placement.granted.core, card.capacity.core);
      EXPECT_LE(placement.granted.memory, card.capacity.memory);
      if (request.memoryFromCore) {
        EXPECT_EQ(placement.granted.memory, card.capacity.memory / kMi * placement.granted.core / 1000 * kMi);
      }
      if (request.milliTflopsPerCard > 0 && !total) {
        EXPECT_GE(placement.granted.core * milliTflops, request.milliTflopsPerCard * 1000);
        EXPECT_LT((placement.granted.core - 1) * milliTflops, request.milliTflopsPerCard * 1000);
      } else if (!total) {
        EXPECT_EQ(placement.granted.core, request.perCard.core);
      }
      if (!request.memoryFromCore && !total) {
        EXPECT_EQ(placement.granted.memory, request.perCard.memory);
      }
      sum.core += request.milliTflopsPerCard > 0 ? placement.granted.core * milliTflops : placement.granted.core;
      sum.memory += placement.granted.memory;
    }
    if (!total) return;
    // Each part may be rounded up by less than a milli-card or a byte, none down.
    EXPECT_GE(sum.core, request.milliTflopsPerCard > 0 ? request.milliTflopsPerCard * 1000 : request.perCard.core);
    if (!request.memoryFromCore) {
      EXPECT_GE(sum.memory, request.perCard.memory);
    }
  }

  static Request request(Split split, int64_t cards) {
    Request r;
    r.nodePolicy = std::string(std::get<0>(GetParam()));
    r.cardPolicy = std::string(std::get<1>(GetParam()));
    r.split = split;
    r.cards = cards;
    r.perCard = split == Split::none ? Amount{300, 5 * kGi} : Amount{1300, 26 * kGi};
    return r;
  }
};

TEST_P(PolicyLimits, Hold) {
  const CardPolicy* policy = findCardPolicy(std::get<1>(GetParam()));
  ASSERT_NE(policy, nullptr);
  int64_t all = 0;
  for (const Limit& limit : kLimits)
    for (const auto& [split, cards] :
         {std::pair{Split::none, 1}, {Split::none, 2}, {Split::evenly, 1}, {Split::fill, 1}}) {
      SCOPED_TRACE(std::string(limit.name) + ", split " + std::to_string(static_cast<int>(split)) + ", cards " +
                   std::to_string(cards));
      Request r = request(split, cards);
      limit.set(r);
      Cluster cluster = site(!policy->takesAny);
      const Forecast foreseen = forecast(cluster, r);
      const int64_t placed = fill(cluster, r);
      EXPECT_EQ(placed, foreseen.count);
      all += placed;
      if (policy->takesAny) {
        EXPECT_GT(placed, 0);
      }
      for (const std::string card : {"n0-2", "n1-2", "n2-2", "n3-2"}) EXPECT_EQ(cluster.findCard(card).claims, 0);
    }
  EXPECT_GT(all, 100);
}

/// With one card each, no capacity is wasted under any policy: as many claims fit as plain division allows.
TEST_P(PolicyLimits, LeaveNoCapacityUnused) {
  Request r = request(Split::none, 1);
  Cluster shares = site();
  if (!findCardPolicy(r.cardPolicy)->takesAny) {  // the policy gives only sets of cards that these machines don't have
    EXPECT_EQ(fill(shares, r), 0);
    return;
  }
  EXPECT_EQ(fill(shares, r), 3 * 3 + 3 * 3 + 3 * 3) << "three of 30 % on each healthy card";
  r.coreOvercommit = 2000;
  Cluster twice = site();
  // 15 % are charged: six would fit by core; 5Gi goes six times into 32Gi, three times into 16Gi, sixteen into 80Gi.
  EXPECT_EQ(fill(twice, r), 3 * 6 + 3 * 3 + (6 + 2 * 3));
  r.maxClaimsPerCard = 4;
  Cluster limitedToFour = site();
  EXPECT_EQ(fill(limitedToFour, r), 3 * 4 + 3 * 3 + (4 + 2 * 3));
  r.maxClaimsPerNode = 7;
  Cluster limitedToSeven = site();
  EXPECT_EQ(fill(limitedToSeven, r), 3 * 7);
}

INSTANTIATE_TEST_SUITE_P(EveryPair, PolicyLimits,
                         ::testing::Combine(::testing::ValuesIn(nodePolicyNames()),
                                            ::testing::ValuesIn(cardPolicyNames())),
                         [](const auto& instance) {
                           std::string name = std::string(std::get<0>(instance.param)) + "_" +
                                              std::string(std::get<1>(instance.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

/// A machine that no policy recognises: no links, any model.
Cluster unknownMachine(int64_t cards) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int64_t i = 0; i < cards; ++i)
    cluster.upsertCard(makeCard("c" + std::string(1, static_cast<char>('a' + i)), "n", i, 16 * kGi, "T4"));
  return cluster;
}

std::string given(const Cluster& cluster, std::string_view policy, int64_t wanted) {
  Request request;
  request.cards = wanted;
  request.wholeCards = true;
  request.cardPolicy = policy;
  std::string names;
  for (const auto& placement : decide(cluster, request).placements) names += placement.card.substr(1);
  return names;
}

TEST(StaticMachine, GivesTheSetsOfTheMachineThatTheClassNames) {
  const auto eight = unknownMachine(8);
  EXPECT_EQ(given(eight, "static", 2), "") << "not recognised";
  EXPECT_EQ(given(eight, "static dgx1-pascal", 2), "ac");
  EXPECT_EQ(given(eight, "static dgx1-volta", 2), "ad");
  EXPECT_EQ(given(eight, "static dgx1-volta", 4), "abcd");
  EXPECT_EQ(given(eight, "static dgx1-volta", 8), "abcdefgh");
  EXPECT_EQ(given(eight, "static dgx1-volta", 3), "") << "no set has three";
  EXPECT_EQ(given(unknownMachine(16), "static dgx2", 16), "abcdefghijklmnop");
  EXPECT_EQ(given(unknownMachine(2), "static dgx1-volta", 2), "") << "half of each pair is missing";
}

TEST(ManyCards, AClaimMayHaveAllOfANodeOfOneHundredAndTwentyEight) {
  Cluster cluster;
  cluster.upsertNode({"n", true});
  for (int64_t i = 0; i < 128; ++i) cluster.upsertCard(makeCard("c" + std::to_string(i), "n", i, 16 * kGi, "T4"));
  for (const auto policy : cardPolicyNames()) {
    if (policy == "static") continue;
    for (const int64_t wanted : {17, 65, 128}) {
      Request request;
      request.cards = wanted;
      request.wholeCards = true;
      request.cardPolicy = policy;
      EXPECT_EQ(decide(cluster, request).placements.size(), static_cast<std::size_t>(wanted)) << policy;
    }
  }
}

TEST(StaticMachine, LeavesASetThatIsNotWhole) {
  auto eight = unknownMachine(8);
  eight.take("ca", "x", {1000, 0});
  EXPECT_EQ(given(eight, "static dgx1-volta", 2), "bc");
}

}  // namespace
}  // namespace egpu::scheduler::testing
