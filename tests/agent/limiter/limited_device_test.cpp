#include "controller/agent/limiter/limited_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/limiter/pages.h"

namespace egpu::agent::limiter::testing {
namespace {

using ::testing::HasSubstr;
constexpr int64_t kGi = int64_t{1} << 30;

std::vector<v1alpha::DeviceCard> shares(int64_t memory) {
  v1alpha::DeviceCard card;
  card.uuid = kUuid;
  card.memory = memory;
  return {card};
}
PodProcess process(int64_t pid, const std::string& pod, int64_t memory, bool hasSlot = true) {
  return {{kUuid, pid, memory, 10}, pod, hasSlot};
}
std::string name(int64_t) { return "python3"; }

TEST(FindBypassTest, AProcessWithoutASlotEvades) {
  EXPECT_FALSE(findBypass(shares(kGi), {}, name));
  EXPECT_FALSE(findBypass(shares(kGi), {process(1, "a", kGi)}, name));
  const auto found = findBypass(shares(kGi), {process(1, "a", kGi), process(2, "b", 5, false)}, name);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->card, kUuid);
  EXPECT_EQ(found->pod, "b");
  EXPECT_THAT(found->message, HasSubstr("process 2 (python3) uses card " + std::string(kUuid)));
  auto elsewhere = process(2, "b", 5, false);
  elsewhere.process.uuid = "GPU-other";
  EXPECT_FALSE(findBypass(shares(kGi), {elsewhere}, name)) << "another card of its pod";
}

TEST(FindBypassTest, MemoryBeyondTheShareAndContextsIsABypassOfTheLargestPod) {
  EXPECT_FALSE(findBypass(shares(kGi), {process(1, "a", 2 * kGi)}, name)) << "a context may have the rest";
  EXPECT_FALSE(findBypass(shares(kGi), {process(1, "a", 5 * kGi), process(2, "a", -1)}, name)) << "unknown";
  const auto found = findBypass(shares(kGi), {process(1, "a", kGi), process(2, "b", 3 * kGi)}, name);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pod, "b");
  EXPECT_EQ(found->message,
            "its processes use 4Gi of the memory of card " + std::string(kUuid) + ", of which it has 1Gi");
}

TEST(SuspicionTest, ReportsWhatLastsAndEndsLate) {
  Suspicion suspicion;
  const Bypass bypass{kUuid, "a", "evades"};
  EXPECT_FALSE(suspicion.observe(bypass)) << "it may be a process that ends";
  EXPECT_FALSE(suspicion.observe(std::nullopt));
  EXPECT_FALSE(suspicion.observe(bypass));
  EXPECT_EQ(suspicion.observe(Bypass{kUuid, "a", "evades more"})->message, "evades more");
  EXPECT_EQ(suspicion.observe(bypass)->message, "evades more") << "one event is enough";
  for (int i = 1; i < Suspicion::kQuietRounds; ++i) EXPECT_TRUE(suspicion.observe(std::nullopt));
  EXPECT_FALSE(suspicion.observe(std::nullopt));
  suspicion.observe(bypass);
  EXPECT_TRUE(suspicion.observe(bypass));
  EXPECT_FALSE(suspicion.observe(std::nullopt, true)) << "its processes have ended";
}

TEST(FactorsTest, FollowTheMeasurementOncePerPeriod) {
  Factors factors;
  base::Clock::Steady now{std::chrono::hours(1)};
  constexpr uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ(factors.next(kUuid, 0, now, 0, 30), 0u) << "the period begins";
  now += std::chrono::milliseconds(250);
  EXPECT_EQ(factors.next(kUuid, 0, now, kSecond / 10, 30), 0u);
  now += std::chrono::milliseconds(750);
  // It charged 90 % of a second, of which the card shows 30 %.
  const auto less = factors.next(kUuid, 0, now, kSecond * 9 / 10, 30);
  EXPECT_EQ(less, egpu_limiter_next_factor(0, kSecond * 3 / 10, kSecond * 9 / 10));
  EXPECT_LT(less, EGPU_LIMITER_FACTOR_ONE);
  now += Factors::kPeriod;
  EXPECT_EQ(factors.next(kUuid, less, now, kSecond * 18 / 10, -1), less) << "unknown";
  now += Factors::kPeriod;
  EXPECT_EQ(factors.next(kUuid, less, now, 0, 50), egpu_limiter_next_factor(less, kSecond / 2, 0 - kSecond * 18 / 10))
      << "a page that was damaged";
}

}  // namespace
}  // namespace egpu::agent::limiter::testing
