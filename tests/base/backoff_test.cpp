#include "controller/base/backoff.h"

#include <gtest/gtest.h>

namespace egpu::base {
namespace {

using namespace std::chrono_literals;

TEST(ExponentialBackoff, DoublesUpToTheMaximum) {
  EXPECT_EQ(exponentialBackoff(200ms, 0, 1s), 0ms);
  EXPECT_EQ(exponentialBackoff(200ms, 1, 1s), 200ms);
  EXPECT_EQ(exponentialBackoff(200ms, 2, 1s), 400ms);
  EXPECT_EQ(exponentialBackoff(200ms, 3, 1s), 800ms);
  EXPECT_EQ(exponentialBackoff(200ms, 4, 1s), 1s);
  EXPECT_EQ(exponentialBackoff(200ms, 1'000'000'000, 1s), 1s);
  EXPECT_EQ(exponentialBackoff(2s, 1, 1s), 1s);
}

TEST(ExponentialBackoff, FollowsThePreviousOne) {
  EXPECT_EQ(nextBackoff(0ms, 200ms, 1s), 200ms);
  EXPECT_EQ(nextBackoff(200ms, 200ms, 1s), 400ms);
  EXPECT_EQ(nextBackoff(800ms, 200ms, 1s), 1s);
}

TEST(Backoff, LastsLongerAfterEachFailure) {
  ManualClock clock;
  Backoff<> backoff(clock, 1s, 3s);
  EXPECT_FALSE(backoff.inBackoff("a"));
  backoff.next("a");
  EXPECT_EQ(backoff.remaining("a"), 1s);
  EXPECT_FALSE(backoff.inBackoff("b"));
  clock.advance(1s);
  EXPECT_FALSE(backoff.inBackoff("a"));
  backoff.next("a");
  EXPECT_EQ(backoff.remaining("a"), 2s);
  backoff.next("a");
  EXPECT_EQ(backoff.remaining("a"), 3s);
}

TEST(Backoff, StartsAgainAfterAReset) {
  ManualClock clock;
  Backoff<int> backoff(clock, 1s, 1min);
  backoff.next(1);
  backoff.next(1);
  backoff.reset(1);
  EXPECT_FALSE(backoff.inBackoff(1));
  backoff.next(1);
  EXPECT_EQ(backoff.remaining(1), 1s);
}

TEST(Backoff, LetsTheFirstFailuresPass) {
  ManualClock clock;
  Backoff<> backoff(clock, 1s, 1min, 2);
  backoff.next("a");
  backoff.next("a");
  EXPECT_FALSE(backoff.inBackoff("a"));
  backoff.next("a");
  EXPECT_EQ(backoff.remaining("a"), 1s);
}

TEST(Backoff, ForgetsKeysWhoseBackoffEndedLongAgo) {
  ManualClock clock;
  Backoff<> backoff(clock, 1s, 10s);
  backoff.next("a");
  clock.advance(11s);
  backoff.next("b");
  backoff.collectGarbage();
  EXPECT_EQ(backoff.size(), 2u);
  clock.advance(1ms);
  backoff.collectGarbage();
  EXPECT_EQ(backoff.size(), 1u);
  EXPECT_TRUE(backoff.inBackoff("b"));
}

}  // namespace
}  // namespace egpu::base
