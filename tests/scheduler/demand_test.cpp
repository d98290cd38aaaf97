// Learned demand: the definition of classes, the decay of requests, and forgetting.
#include "controller/scheduler/state/demand.h"

#include <gtest/gtest.h>

namespace egpu::scheduler {
namespace {

Request core(int64_t milli) {
  Request request;
  request.perCard = {milli, 0};
  return request;
}

void observe(Demand& demand, const Request& request, int times) {
  for (int i = 0; i < times; ++i) demand.observe(request);
}

TEST(Demand, ReportsNothingBeforeTwentyRequests) {
  Demand demand;
  observe(demand, core(100), 19);
  EXPECT_FALSE(demand.known());
  EXPECT_TRUE(demand.classes().empty());
  demand.observe(core(200));
  EXPECT_TRUE(demand.known());
  ASSERT_EQ(demand.classes().size(), 2u);
  EXPECT_EQ(demand.classes()[0].request.perCard.core, 100);
}

TEST(Demand, ARequestCountsNineTenthsAfterTwoHundredMore) {
  Demand demand;
  demand.observe(core(100));
  observe(demand, core(200), 200);
  ASSERT_EQ(demand.classes().size(), 2u);
  EXPECT_EQ(demand.classes()[1].request.perCard.core, 100);
  // The weight is that before the next request: the first has been followed by 200 requests, and decays once itself.
  EXPECT_NEAR(demand.classes()[1].weight, 0.9 / 1.000526941363137, 1e-9);
  observe(demand, core(200), 200);
  EXPECT_NEAR(demand.classes()[1].weight, 0.81 / 1.000526941363137, 1e-9);
}

TEST(Demand, RemembersSomeNineteenHundredRequests) {
  Demand demand;
  observe(demand, core(100), 100'000);
  EXPECT_NEAR(demand.total(), 1 / (1.000526941363137 - 1), 1e-3);
  EXPECT_NEAR(demand.total(), 1897.7, 0.1);
}

TEST(Demand, TakesUpWithWhatIsAskedForNowAndForgetsTheRest) {
  Demand demand;
  observe(demand, core(100), 2000);
  observe(demand, core(200), 2000);
  ASSERT_EQ(demand.classes().size(), 2u);
  EXPECT_EQ(demand.classes()[0].request.perCard.core, 200);
  EXPECT_NEAR(demand.classes()[1].weight / demand.classes()[0].weight, 0.3487, 0.001);  // 0.9^10
  observe(demand, core(200), 30'000);
  EXPECT_EQ(demand.classes().size(), 1u);
}

TEST(Demand, AClassIsWhatIsAskedForAndNotHowItIsPlaced) {
  const Request plain = core(300);
  Request placed = plain;
  placed.nodePolicy = "fragmentation";
  placed.cardPolicy = "topology";
  placed.pinnedNode = "n";
  placed.maxClaimsPerCard = 3;
  EXPECT_TRUE(sameDemand(plain, placed));
  EXPECT_EQ(demandHash(plain), demandHash(placed));

  std::vector<Request> others(9, plain);
  others[0].perCard.core = 310;
  others[1].perCard.memory = 1;
  others[2].cards = 2;
  others[3].models = {"T4"};
  others[4].cpuMilli = 1000;
  others[5].podMemory = 1;
  others[6].wholeCards = true;
  others[7].minMemory = 1;
  others[8].split = Split::evenly;
  for (const Request& other : others) EXPECT_FALSE(sameDemand(plain, other));

  Request whole = others[6], same = whole;
  same.perCard = {1, 1};  // amounts of a whole card do not matter
  EXPECT_TRUE(sameDemand(whole, same));
}

TEST(Demand, RetainsTheHeaviestClasses) {
  Demand demand;
  for (int64_t i = 0; i < 2000; ++i) {
    demand.observe(core(1 + i));
    demand.observe(core(1 + i % 7));
  }
  EXPECT_LE(demand.classes().size(), Demand::kMax + static_cast<std::size_t>(Demand::kWindow));
  EXPECT_LE(demand.classes()[0].request.perCard.core, 7);
}

TEST(Demand, TheSameRequestsGiveTheSameWeights) {
  Demand a, b;
  for (int64_t i = 0; i < 1000; ++i) {
    a.observe(core(i % 37));
    b.observe(core(i % 37));
  }
  const auto x = a.classes(), y = b.classes();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i].weight, y[i].weight);
    EXPECT_EQ(x[i].request, y[i].request);
  }
}

}  // namespace
}  // namespace egpu::scheduler
