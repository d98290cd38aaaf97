// Shares of GPU time in simulation: 30 and 70 percent are met within 3 points.
#include "bench/gpu/shares.h"

#include <gtest/gtest.h>

#include "provisioners/gpushare/limiter/bucket.h"

namespace egpu::bench::testing {
namespace {

TEST(SharesTest, ThirtyAndSeventyAreMetWithinThreePoints) {
  for (const auto& one : shareCases()) {
    SharesSetting setting;
    setting.kernels[0] = one.first;
    setting.kernels[1] = one.second;
    const Shares shares = simulateShares(setting);
    EXPECT_NEAR(shares.percent[0], 30, 3) << one.name;
    EXPECT_NEAR(shares.percent[1], 70, 3) << one.name;
  }
}

TEST(SharesTest, EventTimeAloneGivesTooLittle) {
  SharesSetting setting;
  setting.kernels[0] = setting.kernels[1] = {2000000};
  setting.corrected = false;
  EXPECT_LT(simulateShares(setting).percent[0], 25);  // the events contain the other program's slices
}

TEST(SharesTest, ABucketIsAlwaysBetweenDebtAndBurst) {
  for (const uint64_t granted : {uint64_t{0}, uint64_t{1} << 62, UINT64_MAX, uint64_t{1} << 63})
    for (const uint64_t refilled : {uint64_t{0}, UINT64_MAX, uint64_t{1000}}) {
      egpu_limiter_bucket bucket = {};
      bucket.granted = granted;
      bucket.refilled = refilled;
      EXPECT_LE(egpu_bucket_refill(&bucket, 300, 5000), egpu_bucket_max(300));
      EXPECT_GE(egpu_bucket_tokens(&bucket), -EGPU_BUCKET_MAX_DEBT);
      EXPECT_EQ(egpu_bucket_allows(&bucket, 300) != 0, egpu_bucket_tokens(&bucket) >= 0);
    }
}

}  // namespace
}  // namespace egpu::bench::testing
