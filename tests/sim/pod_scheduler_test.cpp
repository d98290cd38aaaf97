#include "controller/standalone/sim/pod_scheduler.h"

#include <gtest/gtest.h>

namespace egpu::sim {
namespace {

core::Node node(const std::string& name) {
  core::Node n;
  n.metadata.name = name;
  n.metadata.labels["zone"] = name.substr(0, 1);
  n.ready = true;
  n.cpuMilli = 4000;
  n.memoryBytes = int64_t{8} << 30;
  return n;
}
core::Pod pod() {
  core::Pod p;
  p.metadata.name = "p";
  core::Container c;
  c.name = "a";
  p.containers.push_back(c);
  return p;
}

TEST(PodScheduler, LeastPodsThenName) {
  const auto a = node("a"), b = node("b"), c = node("c");
  EXPECT_EQ(choose(pod(), {&c, &b, &a}, {}, {}).node, "a");
  EXPECT_EQ(choose(pod(), {&a, &b, &c}, {{"a", {0, 0, 2}}, {"b", {0, 0, 1}}, {"c", {0, 0, 1}}}, {}).node, "b");
}

TEST(PodScheduler, TheClaimsNodeBindsThePod) {
  const auto a = node("a"), b = node("b");
  EXPECT_EQ(choose(pod(), {&a, &b}, {}, {"b"}).node, "b");
  const auto none = choose(pod(), {&a, &b}, {}, {"a", "b"});
  EXPECT_TRUE(none.node.empty());
  EXPECT_TRUE(none.otherNodeSuits);
  EXPECT_EQ(none.message, "0/2 nodes are available: 2 node(s) didn't have the allocated devices of the pod's claims.");
}

TEST(PodScheduler, EachFilterSaysWhy) {
  auto p = pod();
  auto n = node("a");
  n.unschedulable = true;
  EXPECT_EQ(unsuitable(p, n, {}), "node(s) were unschedulable");
  n = node("a");
  n.ready = false;
  EXPECT_EQ(unsuitable(p, n, {}), "node(s) were not ready");
  n = node("a");
  n.taints = {{"k", "v", "NoSchedule"}};
  EXPECT_EQ(unsuitable(p, n, {}), "node(s) had untolerated taint {k: v}");
  p.tolerations = {{"k", "Equal", "v", ""}};
  EXPECT_EQ(unsuitable(p, n, {}), "");
  p.tolerations = {{"k", "Equal", "other", ""}};
  EXPECT_NE(unsuitable(p, n, {}), "");
  p.tolerations = {{"", "Exists", "", ""}};
  EXPECT_EQ(unsuitable(p, n, {}), "");
  n.taints = {{"k", "v", "PreferNoSchedule"}};
  p.tolerations.clear();
  EXPECT_EQ(unsuitable(p, n, {}), "");
  n = node("a");
  p.nodeSelector = {{"zone", "b"}};
  EXPECT_NE(unsuitable(p, n, {}), "");
  p.nodeSelector = {{"zone", "a"}};
  EXPECT_EQ(unsuitable(p, n, {}), "");
  p.containers[0].requests = {{"cpu", "2500m"}, {"memory", "1Gi"}};
  EXPECT_EQ(unsuitable(p, n, {1500, 0, 1}), "");
  EXPECT_EQ(unsuitable(p, n, {1501, 0, 1}), "Insufficient cpu");
  EXPECT_EQ(unsuitable(p, n, {0, int64_t{7} << 30, 1}), "");
  EXPECT_EQ(unsuitable(p, n, {0, (int64_t{7} << 30) + 1, 1}), "Insufficient memory");
  EXPECT_EQ(unsuitable(p, n, {0, 0, 110}), "Too many pods");
}

TEST(PodScheduler, InitContainersAreAFloorNotASum) {
  auto p = pod();
  p.containers[0].requests = {{"cpu", "1"}};
  core::Container init;
  init.requests = {{"cpu", "3"}};
  p.initContainers = {init, init};
  EXPECT_EQ(requestsOf(p).cpuMilli, 3000);
}

TEST(PodScheduler, SelectorOperators) {
  const auto n = node("a");
  auto one = [&](const std::string& key, const std::string& op, std::vector<std::string> values) {
    return admits({{{{{key, op, std::move(values)}}, {}}}}, n);
  };
  EXPECT_TRUE(one("zone", "In", {"a", "b"}));
  EXPECT_FALSE(one("zone", "NotIn", {"a"}));
  EXPECT_TRUE(one("none", "NotIn", {"a"}));
  EXPECT_TRUE(one("zone", "Exists", {}));
  EXPECT_TRUE(one("none", "DoesNotExist", {}));
  EXPECT_FALSE(one("zone", "Gt", {"1"}));
  EXPECT_FALSE(one("zone", "Unheard", {"1"}));
  EXPECT_FALSE(admits({}, n));      // no term admits nothing
  EXPECT_FALSE(admits({{{}}}, n));  // nor does an empty one
  core::NodeSelector byName{{{{}, {{"metadata.name", "In", {"a"}}}}}};
  EXPECT_TRUE(admits(byName, n));
  byName.terms[0].matchFields[0].values = {"b"};
  EXPECT_FALSE(admits(byName, n));
}

}  // namespace
}  // namespace egpu::sim
