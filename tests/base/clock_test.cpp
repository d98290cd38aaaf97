#include "controller/base/clock.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace egpu::base {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, standsUntilAdvanced) {
  ManualClock clock;
  const auto now = clock.now();
  const auto wall = clock.wall();
  EXPECT_EQ(clock.now(), now);
  clock.advance(1500ms);
  EXPECT_EQ(clock.now() - now, 1500ms);
  EXPECT_EQ(clock.wall() - wall, 1500ms);
}

TEST(ManualClock, pastAndPresentNeedNoSleep) {
  ManualClock clock;
  EXPECT_TRUE(clock.sleepUntil(clock.now(), {}));
  EXPECT_TRUE(clock.sleepUntil(clock.now() - 1s, {}));
}

TEST(ManualClock, sleeperWakesWhenItsTimeHasCome) {
  ManualClock clock;
  const auto start = clock.now();
  auto woken = std::async(std::launch::async, [&] {
    const bool good = clock.sleepUntil(start + 2s, {});
    return std::pair(good, clock.now());
  });
  clock.advance(1s);
  clock.advance(1s);
  const auto [good, when] = woken.get();
  EXPECT_TRUE(good);
  EXPECT_EQ(when, start + 2s);
}

TEST(ManualClock, stopEndsASleep) {
  ManualClock clock;
  std::stop_source stop;
  auto slept = std::async(std::launch::async, [&] { return clock.sleepFor(1h, stop.get_token()); });
  stop.request_stop();
  EXPECT_FALSE(slept.get());
}

TEST(SystemClock, stopEndsASleep) {
  SystemClock clock;
  std::stop_source stop;
  auto slept = std::async(std::launch::async, [&] { return clock.sleepFor(1h, stop.get_token()); });
  stop.request_stop();
  EXPECT_FALSE(slept.get());
}

TEST(SystemClock, sleepsAtLeastSoLong) {
  SystemClock clock;
  const auto until = clock.now() + 2ms;
  EXPECT_TRUE(clock.sleepUntil(until, {}));
  EXPECT_GE(clock.now(), until);
}

TEST(Timestamps, areRfc3339) {
  const Clock::Wall t(std::chrono::seconds(1767323045));
  EXPECT_EQ(rfc3339(t), "2026-01-02T03:04:05Z");
  EXPECT_EQ(rfc3339Micro(t), "2026-01-02T03:04:05.000000Z");
  EXPECT_EQ(rfc3339Micro(t + 42us), "2026-01-02T03:04:05.000042Z");
  EXPECT_EQ(rfc3339(t + 999ms), "2026-01-02T03:04:05Z");
  EXPECT_EQ(rfc3339Micro(Clock::Wall(-1us)), "1969-12-31T23:59:59.999999Z");
}

}  // namespace
}  // namespace egpu::base
