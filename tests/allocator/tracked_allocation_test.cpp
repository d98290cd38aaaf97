#include "controller/allocator/state/tracked_allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace egpu::allocator {
namespace {

using scheduler::Amount;

constexpr AllocationSource kSources[] = {AllocationSource::ledger, AllocationSource::device, AllocationSource::assumed};

TEST(TrackedAllocation, ReportsWhatEachSourceReported) {
  std::mt19937 random(7);
  TrackedAllocation take("uid");
  std::map<AllocationSource, Amount> reported;
  for (int step = 0; step < 20'000; ++step) {
    const auto source = kSources[random() % 3];
    if (random() % 3 == 0) {
      take.set(source, std::nullopt);
      reported.erase(source);
    } else {
      const Amount amount{static_cast<int64_t>(random() % 3) * 100, static_cast<int64_t>(random() % 2) * 50};
      take.set(source, amount);
      reported[source] = amount;
    }
    Amount largest;
    for (const auto& [who, amount] : reported) {
      largest.core = std::max(largest.core, amount.core);
      largest.memory = std::max(largest.memory, amount.memory);
    }
    ASSERT_EQ(take.effective(), largest);
    ASSERT_EQ(take.empty(), reported.empty());
    for (const auto each : kSources) {
      const auto it = reported.find(each);
      ASSERT_EQ(take.hasSource(each), it != reported.end());
      ASSERT_EQ(take.of(each), it == reported.end() ? std::nullopt : std::optional(it->second));
    }
  }
  EXPECT_EQ(take.uid(), "uid");
}

// No ledger may hold a negative amount. If one does, it is reported unchanged and counts as zero.
TEST(TrackedAllocation, ANegativeAmountFreesNothing) {
  TrackedAllocation take("uid");
  take.set(AllocationSource::ledger, Amount{-5, -1});
  EXPECT_EQ(take.effective(), Amount{});
  EXPECT_EQ(take.of(AllocationSource::ledger), (Amount{-5, -1}));
}

}  // namespace
}  // namespace egpu::allocator
