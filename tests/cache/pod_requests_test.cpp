// The cases of the Kubernetes documents "Resource Management for Pods and Containers", "Sidecar Containers", "Init
// Containers" and "Pod Overhead".
#include "controller/cache/pod_requests.h"

#include <gtest/gtest.h>

namespace egpu::cache {
namespace {

constexpr int64_t kMi = int64_t{1} << 20;

core::Container container(const std::string& cpu, const std::string& memory = {}, bool sidecar = false) {
  core::Container c;
  if (!cpu.empty()) c.requests["cpu"] = cpu;
  if (!memory.empty()) c.requests["memory"] = memory;
  c.sidecar = sidecar;
  return c;
}

TEST(PodRequests, ContainersAddUp) {
  core::Pod pod;
  pod.containers = {container("250m", "64Mi"), container("250m", "64Mi")};
  pod.containers[1].requests["ephemeral-storage"] = "2Gi";
  EXPECT_EQ(requestsOf(pod), (PodRequests{500, 128 * kMi, 2048 * kMi}));
  EXPECT_EQ(requestsOf(core::Pod{}), PodRequests{});
}

TEST(PodRequests, FractionsAreRoundedUpOnce) {
  core::Pod pod;
  pod.containers = {container("0.5m"), container("0.5m"), container("0.1")};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 101);
  pod.containers = {container("100u")};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 1);
}

TEST(PodRequests, TheLargestInitContainerOrAllContainers) {
  core::Pod pod;
  pod.containers = {container("1"), container("1")};
  pod.initContainers = {container("1500m"), container("1")};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 2000);
  pod.initContainers[1] = container("3");
  EXPECT_EQ(requestsOf(pod).cpuMilli, 3000) << "one after the other: they don't add up";
}

TEST(PodRequests, EachResourceForItself) {
  core::Pod pod;
  pod.containers = {container("1", "1Mi")};
  pod.initContainers = {container("500m", "5Mi")};
  EXPECT_EQ(requestsOf(pod), (PodRequests{1000, 5 * kMi, 0}));
}

TEST(PodRequests, SidecarsRunBesideAllThatFollows) {
  core::Pod pod;
  pod.containers = {container("1")};
  pod.initContainers = {container("500m", {}, true)};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 1500);
  // An init container before the sidecar runs alone, one after it runs beside it.
  pod.initContainers = {container("1600m"), container("500m", {}, true)};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 1600);
  pod.initContainers = {container("500m", {}, true), container("1600m")};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 2100);
  pod.initContainers = {container("1", {}, true), container("1500m"), container("1", {}, true)};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 3000);
}

TEST(PodRequests, WhatThePodAsksForAsAWholeTakesThePlaceOfItsContainers) {
  core::Pod pod;
  pod.containers = {container("1", "1Mi"), container("1", "1Mi")};
  pod.containers[0].requests["ephemeral-storage"] = "1Mi";
  pod.requests = {{"cpu", "500m"}, {"ephemeral-storage", "9Mi"}};
  EXPECT_EQ(requestsOf(pod), (PodRequests{500, 2 * kMi, kMi})) << "of CPU and memory only";
}

TEST(PodRequests, OverheadComesOnTop) {
  core::Pod pod;
  pod.containers = {container("2", "200Mi"), container("500m", "100Mi")};
  pod.overhead = {{"cpu", "250m"}, {"memory", "120Mi"}};
  EXPECT_EQ(requestsOf(pod), (PodRequests{2750, 420 * kMi, 0}));
  pod.requests = {{"cpu", "3"}};
  EXPECT_EQ(requestsOf(pod).cpuMilli, 3250);
}

TEST(PodRequests, AbsurdAmountsDontOverflow) {
  core::Pod pod;
  pod.containers = {container("9e18", "9e18"), container("9e18", "9e18")};
  EXPECT_GT(requestsOf(pod).memoryBytes, int64_t{1} << 60);
}

}  // namespace
}  // namespace egpu::cache
