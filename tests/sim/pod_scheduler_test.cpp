#include "controller/standalone/sim/pod_scheduler.h"

#include <gtest/gtest.h>

#include "controller/standalone/sim/kubelet_admission.h"

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

TEST(PodScheduler, EachFilterReportsWhy) {
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

TEST(PodScheduler, AnExtendedResourceIsOfferedOrThePodWaits) {
  const auto a = node("a"), b = node("b");
  auto p = pod();
  p.containers[0].requests = {{"nvidia.com/gpu", "2"}};
  auto none = choose(p, {&a, &b}, {}, {});
  EXPECT_EQ(none.node, "");
  EXPECT_EQ(
      none.message.rfind("0/2 nodes are available: 2 Insufficient nvidia.com/gpu. No node has nvidia.com/gpu.", 0), 0u)
      << none.message;
  EXPECT_NE(none.message.find("manifests/migrate"), std::string::npos) << none.message;
  EXPECT_NE(none.message.find("egpu.elasticgpu.io/gpu"), std::string::npos) << none.message;
  EXPECT_EQ(choose(p, {&a, &b}, {}, {}, {{"b", {{"nvidia.com/gpu", 2}}}}).node, "b");
  NodeUse used;
  used.extended["nvidia.com/gpu"] = 1;
  none = choose(p, {&a, &b}, {{"b", used}}, {}, {{"b", {{"nvidia.com/gpu", 2}}}});
  EXPECT_EQ(none.message, "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.");
  p.containers[0].requests = {{"nvidia.com/hostdev", "1"}, {"nvidia.com/gpu", "0"}};
  EXPECT_EQ(choose(p, {&a}, {}, {}).message,
            "0/1 nodes are available: 1 Insufficient nvidia.com/hostdev. No node has nvidia.com/hostdev.")
      << "a NIC is no GPU";
  p.containers[0].requests = {{"hugepages-2Mi", "4Mi"}, {"ephemeral-storage", "1"}};
  EXPECT_EQ(unsuitable(p, a, {}), "Insufficient ephemeral-storage");
}

TEST(PodScheduler, TheKubeletRefusesWhatANodeCantRun) {
  auto n = node("a");
  auto p = pod();
  EXPECT_FALSE(rejectionOf(p, n, {}, {}));
  p.containers[0].requests = {{"cpu", "3"}};
  EXPECT_FALSE(rejectionOf(p, n, {1000, 0, 1}, {}));
  const auto refused = rejectionOf(p, n, {2000, 0, 1}, {});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, "OutOfcpu");
  EXPECT_EQ(refused->message,
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000");
  auto mirror = p;
  mirror.metadata.annotations["kubernetes.io/config.mirror"] = "x";
  EXPECT_FALSE(rejectionOf(mirror, n, {2000, 0, 1}, {})) << "others go for a static pod";
  p.containers[0].requests = {{"nvidia.com/gpu", "2"}};
  EXPECT_FALSE(rejectionOf(p, n, {}, {})) << "what the node does not know is not the kubelet's to count";
  EXPECT_FALSE(rejectionOf(p, n, {0, 0, 1, 0, {{"nvidia.com/gpu", 2}}}, {})) << "nor if another pod requests it";
  EXPECT_EQ(rejectionOf(p, n, {}, {{"nvidia.com/gpu", 1}})->reason, "OutOfnvidia.com/gpu");
  p.nodeSelector = {{"zone", "b"}};
  EXPECT_EQ(rejectionOf(p, n, {}, {})->reason, "NodeAffinity");
  n.unschedulable = true;
  n.taints = {{"k", "v", "NoSchedule"}};
  EXPECT_FALSE(rejectionOf(pod(), n, {}, {})) << "which keep off the scheduler alone";
  n.taints = {{"k", "v", "NoExecute"}};
  EXPECT_EQ(rejectionOf(pod(), n, {}, {})->reason, "TaintToleration");
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
  EXPECT_FALSE(admits({}, n));      // a selector without terms matches nothing
  EXPECT_FALSE(admits({{{}}}, n));  // an empty term matches nothing either
  core::NodeSelector byName{{{{}, {{"metadata.name", "In", {"a"}}}}}};
  EXPECT_TRUE(admits(byName, n));
  byName.terms[0].matchFields[0].values = {"b"};
  EXPECT_FALSE(admits(byName, n));
}

}  // namespace
}  // namespace egpu::sim
