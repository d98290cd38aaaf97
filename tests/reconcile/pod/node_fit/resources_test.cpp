#include "controller/reconcile/pod/node_fit/resources.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

constexpr int64_t kGi = int64_t{1} << 30;

core::Node smallNode() {
  core::Node n;
  n.cpuMilli = 4000;
  n.memoryBytes = 8 * kGi;
  n.ephemeralBytes = 20 * kGi;
  n.maxPods = 3;
  return n;
}

TEST(NodeResources, WhatIsLeftHolds) {
  const cache::NodeUsage::Sum taken{{1000, 2 * kGi, 5 * kGi}, 1};
  EXPECT_EQ(shortOf({3000, 6 * kGi, 15 * kGi}, taken, smallNode()), "");
  EXPECT_EQ(shortOf({3001, 0, 0}, taken, smallNode()), "short of CPU (the pod requests 3001m)");
  EXPECT_EQ(shortOf({0, 7 * kGi, 0}, taken, smallNode()), "short of memory (the pod requests 7Gi)");
  EXPECT_EQ(shortOf({0, 0, 16 * kGi}, taken, smallNode()), "short of ephemeral storage (the pod requests 16Gi)");
}

TEST(NodeResources, WhatIsNotAskedForIsNotMissed) {
  const cache::NodeUsage::Sum overdrawn{{9000, 9 * kGi, 90 * kGi}, 1};
  EXPECT_EQ(shortOf({}, overdrawn, smallNode()), "");
  EXPECT_NE(shortOf({1, 0, 0}, overdrawn, smallNode()), "");
}

TEST(NodeResources, APodIsOnePod) {
  EXPECT_EQ(shortOf({}, {{}, 2}, smallNode()), "");
  EXPECT_EQ(shortOf({}, {{}, 3}, smallNode()), "at the limit of pods");
}

}  // namespace
}  // namespace egpu::reconcile
