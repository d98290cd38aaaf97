#include "controller/allocator/state/holder_ages.h"

#include <gtest/gtest.h>

#include "controller/base/timestamp.h"

namespace egpu::allocator {
namespace {

TEST(HolderAges, KnowsDevicesUntilTheyAreForgotten) {
  HolderAges ages;
  cache::Gpu device;
  device.metadata.name = "egpu-a";
  device.metadata.uid = "a";
  device.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
  ages.record(device);
  EXPECT_EQ(ages.createdAt("a"), base::unixSeconds("2026-01-02T03:04:05Z"));
  ASSERT_TRUE(ages.find("a"));
  EXPECT_EQ(ages.find("a")->device, "egpu-a");
  EXPECT_FALSE(ages.find("b"));
  ages.forget("b");
  ages.forget("a");
  EXPECT_FALSE(ages.find("a"));
  EXPECT_FALSE(ages.createdAt("a"));
}

}  // namespace
}  // namespace egpu::allocator
