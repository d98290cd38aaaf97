#include "controller/allocator/reservation_budget.h"

#include <gtest/gtest.h>

namespace egpu::allocator {
namespace {

constexpr int64_t kMax = ReservationBudget::kMaxReservationTime;

TEST(ReservationBudget, WhoUsedAllRestsForAsLong) {
  ReservationBudget budget;
  budget.use("a", 1000, 1000 + kMax - 1);
  EXPECT_FALSE(budget.pausedUntil("a", 1000 + kMax - 1));
  budget.use("a", 1000 + kMax - 1, 1000 + kMax);
  EXPECT_EQ(budget.pausedUntil("a", 1000 + kMax), 1000 + 2 * kMax);
  EXPECT_EQ(budget.pausedUntil("a", 999 + 2 * kMax), 1000 + 2 * kMax);
  EXPECT_FALSE(budget.pausedUntil("a", 1000 + 2 * kMax));
  EXPECT_FALSE(budget.pausedUntil("b", 1000));
  EXPECT_EQ(budget.size(), 0u);
}

TEST(ReservationBudget, TheHeadersExample) {
  ReservationBudget budget;
  constexpr int64_t hour = 3600;
  budget.use("a", 0, 10 * hour);
  budget.use("a", 14 * hour, 19 * hour);
  budget.use("a", 19 * hour, 32 * hour);
  EXPECT_TRUE(budget.pausedUntil("a", 32 * hour)) << "11 and 13 hours";
}

TEST(ReservationBudget, ReservationsAtTheSameTimeCountOnce) {
  ReservationBudget budget;
  budget.use("a", 0, kMax / 2);
  budget.use("a", 0, kMax / 2);
  budget.use("a", kMax / 4, kMax - 1);
  EXPECT_FALSE(budget.pausedUntil("a", kMax - 1));
  budget.use("a", 0, kMax);
  EXPECT_TRUE(budget.pausedUntil("a", kMax));
}

TEST(ReservationBudget, TimeThatServedDoesNotCount) {
  ReservationBudget budget;
  budget.use("a", 0, kMax - 10);
  budget.giveBack("a", kMax - 100);
  budget.use("a", kMax - 10, kMax + 10);
  EXPECT_FALSE(budget.pausedUntil("a", kMax + 10));
  budget.forget("a");
  EXPECT_EQ(budget.size(), 0u);
}

TEST(ReservationBudget, AClockThatIsSetBackBeginsTheRestAnew) {
  ReservationBudget budget;
  budget.use("a", 5000, 5000 + kMax);
  ASSERT_TRUE(budget.pausedUntil("a", 5000 + kMax));
  EXPECT_EQ(budget.pausedUntil("a", 2000), 2000 + kMax);
  budget.use("b", 5000, 6000);
  budget.use("b", 100, 200);
  EXPECT_FALSE(budget.pausedUntil("b", 200));
}

}  // namespace
}  // namespace egpu::allocator
