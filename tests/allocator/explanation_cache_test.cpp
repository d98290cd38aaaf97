#include "controller/allocator/explanation_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::allocator {
namespace {

using Clock = ExplanationCache::Clock;
using std::chrono::milliseconds;

scheduler::Request share(int64_t core) {
  scheduler::Request request;
  request.perCard.core = core;
  return request;
}
scheduler::Explanation because(const std::string& change) {
  scheduler::Explanation e;
  e.smallestChange = change;
  return e;
}

TEST(ExplanationCache, SlowExplanation_IsValidForTwentyTimesAsLong) {
  ExplanationCache all;
  const auto t = Clock::now();
  EXPECT_EQ(all.find(share(100), {}, t), nullptr);
  all.store(share(100), {}, because("a"), t, t + milliseconds(10));
  const auto end = t + milliseconds(10 + 20 * 10);
  ASSERT_NE(all.find(share(100), {}, end - milliseconds(1)), nullptr);
  EXPECT_EQ(all.find(share(100), {}, end - milliseconds(1))->smallestChange, "a");
  EXPECT_EQ(all.find(share(200), {}, end - milliseconds(1)), nullptr) << "of another request";
  EXPECT_EQ(all.find(share(100), "tainted", end - milliseconds(1)), nullptr) << "on other nodes";
  EXPECT_EQ(all.find(share(100), {}, end), nullptr);
}

TEST(ExplanationCache, WhatIsQuicklyMadeIsMadeAnew) {
  ExplanationCache all;
  const auto t = Clock::now();
  all.store(share(100), {}, because("a"), t, t + ExplanationCache::kLong - std::chrono::nanoseconds(1));
  EXPECT_EQ(all.find(share(100), {}, t + ExplanationCache::kLong), nullptr);
}

TEST(ExplanationCache, OfManyTheLatestAreCached) {
  ExplanationCache all;
  const auto t = Clock::now();
  const auto max = static_cast<int64_t>(ExplanationCache::kMax);
  for (int64_t core = 1; core <= max + 1; ++core)
    all.store(share(core), {}, because(std::to_string(core)), t, t + milliseconds(10));
  EXPECT_EQ(all.find(share(1), {}, t + milliseconds(11)), nullptr);
  for (int64_t core = 2; core <= max + 1; ++core) {
    const auto* cached = all.find(share(core), {}, t + milliseconds(11));
    ASSERT_NE(cached, nullptr) << core;
    EXPECT_EQ(cached->smallestChange, std::to_string(core));
  }
}

}  // namespace
}  // namespace egpu::allocator
