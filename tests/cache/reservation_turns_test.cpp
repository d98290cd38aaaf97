#include "controller/cache/reservations/reservation_turns.h"

#include <gtest/gtest.h>

namespace egpu::cache {
namespace {

constexpr int64_t kMax = ReservationTurns::kMaxReservationTime;

TEST(ReservationTurns, WhoUsedAllRestsForAsLong) {
  ReservationTurns turns;
  turns.use("a", 1000, 1000 + kMax - 1);
  EXPECT_FALSE(turns.restsUntil("a", 1000 + kMax - 1));
  turns.use("a", 1000 + kMax - 1, 1000 + kMax);
  EXPECT_EQ(turns.restsUntil("a", 1000 + kMax), 1000 + 2 * kMax);
  EXPECT_EQ(turns.restsUntil("a", 999 + 2 * kMax), 1000 + 2 * kMax);
  EXPECT_FALSE(turns.restsUntil("a", 1000 + 2 * kMax));
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
  turns.use("a", 0, kMax / 2);
  turns.use("a", 0, kMax / 2);
  turns.use("a", kMax / 4, kMax - 1);
  EXPECT_FALSE(turns.restsUntil("a", kMax - 1));
  turns.use("a", 0, kMax);
  EXPECT_TRUE(turns.restsUntil("a", kMax));
}

TEST(ReservationTurns, TimeThatServedDoesNotCount) {
  ReservationTurns turns;
  turns.use("a", 0, kMax - 10);
  turns.giveBack("a", kMax - 100);
  turns.use("a", kMax - 10, kMax + 10);
  EXPECT_FALSE(turns.restsUntil("a", kMax + 10));
  turns.forget("a");
  EXPECT_EQ(turns.size(), 0u);
}

TEST(ReservationTurns, AClockThatIsSetBackBeginsTheRestAnew) {
  ReservationTurns turns;
  turns.use("a", 5000, 5000 + kMax);
  ASSERT_TRUE(turns.restsUntil("a", 5000 + kMax));
  EXPECT_EQ(turns.restsUntil("a", 2000), 2000 + kMax);
  turns.use("b", 5000, 6000);
  turns.use("b", 100, 200);
  EXPECT_FALSE(turns.restsUntil("b", 200));
}

}  // namespace
}  // namespace egpu::cache
