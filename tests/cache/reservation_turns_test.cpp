#include "controller/cache/reservations/reservation_turns.h"

#include <gtest/gtest.h>

namespace egpu::cache {
namespace {

constexpr int64_t kMost = ReservationTurns::kReservationAtMost;

TEST(ReservationTurns, WhoUsedAllRestsForAsLong) {
  ReservationTurns turns;
  turns.use("a", 1000, 1000 + kMost - 1);
  EXPECT_FALSE(turns.restsUntil("a", 1000 + kMost - 1));
  turns.use("a", 1000 + kMost - 1, 1000 + kMost);
  EXPECT_EQ(turns.restsUntil("a", 1000 + kMost), 1000 + 2 * kMost);
  EXPECT_EQ(turns.restsUntil("a", 999 + 2 * kMost), 1000 + 2 * kMost);
  EXPECT_FALSE(turns.restsUntil("a", 1000 + 2 * kMost));
  EXPECT_FALSE(turns.restsUntil("b", 1000));
  EXPECT_EQ(turns.size(), 0u);
}

TEST(ReservationTurns, TheHeadersExample) {
  ReservationTurns turns;
  constexpr int64_t hour = 3600;
  turns.use("a", 0, 10 * hour);
  turns.use("a", 14 * hour, 19 * hour);
  turns.use("a", 19 * hour, 32 * hour);
  EXPECT_TRUE(turns.restsUntil("a", 32 * hour)) << "11 and 13 hours";
}

TEST(ReservationTurns, ReservationsAtTheSameTimeCountOnce) {
  ReservationTurns turns;
  turns.use("a", 0, kMost / 2);
  turns.use("a", 0, kMost / 2);
  turns.use("a", kMost / 4, kMost - 1);
  EXPECT_FALSE(turns.restsUntil("a", kMost - 1));
  turns.use("a", 0, kMost);
  EXPECT_TRUE(turns.restsUntil("a", kMost));
}

TEST(ReservationTurns, TimeThatServedDoesNotCount) {
  ReservationTurns turns;
  turns.use("a", 0, kMost - 10);
  turns.giveBack("a", kMost - 100);
  turns.use("a", kMost - 10, kMost + 10);
  EXPECT_FALSE(turns.restsUntil("a", kMost + 10));
  turns.forget("a");
  EXPECT_EQ(turns.size(), 0u);
}

TEST(ReservationTurns, AClockThatIsSetBackBeginsTheRestAnew) {
  ReservationTurns turns;
  turns.use("a", 5000, 5000 + kMost);
  ASSERT_TRUE(turns.restsUntil("a", 5000 + kMost));
  EXPECT_EQ(turns.restsUntil("a", 2000), 2000 + kMost);
  turns.use("b", 5000, 6000);
  turns.use("b", 100, 200);
  EXPECT_FALSE(turns.restsUntil("b", 200));
}

}  // namespace
}  // namespace egpu::cache
