// The worth of free parts of cards: small cases by hand, and both halves of duality on random ones.
#include "controller/scheduler/fragmentation/card_worth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace egpu::scheduler::fragmentation {
namespace {

TEST(CardWorth, WithoutDemandOnlyAWholeCardIsWorthAnything) {
  const CardWorth worth = worthOfRests({});
  EXPECT_EQ(worth[999], 0);
  EXPECT_EQ(worth[1000], 1000);
}

TEST(CardWorth, OfHalvesARestIsWorthItsHalves) {
  const CardWorth worth = worthOfRests({{500, 3}});
  EXPECT_EQ(worth[499], 0);
  EXPECT_EQ(worth[500], 500);
  EXPECT_EQ(worth[999], 500);
  EXPECT_EQ(worth[1000], 1000);
}

// 10 of 600 and 10 of 400 fill ten cards: their prices add up to 1. With 20 of 400 some cards are cut into two 400s, so
// that a 400 is worth half a card, and a 600 the other half.
TEST(CardWorth, PricesDependOnHowOftenEachIsAskedFor) {
  const CardWorth many = worthOfRests({{600, 10}, {400, 20}});
  EXPECT_EQ(many[400], 500);
  EXPECT_EQ(many[600], 500);
  EXPECT_EQ(many[800], 1000);
  const CardWorth few = worthOfRests({{600, 20}, {400, 10}});  // some 600 have a card of their own
  EXPECT_EQ(few[400], 0);
  EXPECT_EQ(few[600], 1000);
}

TEST(CardWorth, NeverFallsAndNoCutOfACardBringsInMore) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::set<int64_t> sizes;
    while (static_cast<int>(sizes.size()) < 1 + round % 12) sizes.insert(1 + static_cast<int64_t>(random() % 1000));
    std::vector<ShareDemand> demand;
    for (const int64_t size : sizes) demand.push_back({size, 1 + static_cast<double>(random() % 100)});
    const CardWorth worth = worthOfRests(demand);
    for (std::size_t rest = 1; rest <= 1000; ++rest) {
      ASSERT_GE(worth[rest], worth[rest - 1]);
      // Two parts of one card are worth no more than the card; thousandths are rounded.
      ASSERT_LE(worth[rest] + worth[1000 - rest], 1001 + (rest == 1000 ? 0 : 1));
    }
    ASSERT_LE(worth[0], 0);
    // The prices are an optimum: the demand is worth at least the cards that its volume fills.
    double value = 0, volume = 0, weights = 0;
    for (const ShareDemand& each : demand) {
      weights += each.weight;
      value += each.weight * worth[static_cast<std::size_t>(each.size)];
      volume += each.weight * static_cast<double>(each.size);
    }
    ASSERT_GE(value, volume * 0.9999 - 0.5 * weights);  // each worth is rounded
  }
}

}  // namespace
}  // namespace egpu::scheduler::fragmentation
