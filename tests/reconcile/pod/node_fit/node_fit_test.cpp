#include "controller/reconcile/pod/node_fit/node_fit.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

core::Node readyNode() {
  core::Node n;
  n.metadata.name = "n";
  n.metadata.labels = {{"zone", "x"}};
  n.ready = true;
  return n;
}

core::NodeSelector zone(const std::string& name) { return {{{{{"zone", "In", {name}}}, {}}}}; }

TEST(NodeFit, EachFilterReportsWhatItIs) {
  core::Pod pod;
  auto n = readyNode();
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "");
  n.unschedulable = true;
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "cordoned");
  n = readyNode();
  n.ready = false;
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "not ready");
  n = readyNode();
  pod.nodeSelector = {{"zone", "y"}};
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "not labelled zone=y as the pod selects");
  pod.nodeSelector.clear();
  pod.requiredNodeAffinity = zone("y");
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "excluded by the pod's required node affinity");
  pod.requiredNodeAffinity = zone("x");
  n.taints = {{"gpu", "only", "NoSchedule"}};
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "tainted gpu=only:NoSchedule, which the pod does not tolerate");
  pod.tolerations = {{"gpu", "Exists", "", ""}};
  EXPECT_EQ(nodeUnsuitable(pod, {}, n), "");
  EXPECT_EQ(nodeUnsuitable(pod, {zone("x"), zone("y")}, n), "out of reach of the pod's volumes");
}

TEST(NodeFit, APodThatHasItsNodeAsksNoFurther) {
  core::Pod pod;
  pod.nodeName = "n";
  pod.nodeSelector = {{"zone", "y"}};
  EXPECT_EQ(nodeUnsuitable(pod, {}, readyNode()), "");
  pod.nodeName = "m";
  EXPECT_NE(nodeUnsuitable(pod, {}, readyNode()), "");
}

TEST(NodeFit, ScoresAreBroughtToOneScaleAsTheSchedulerDoes) {
  // 2 · affinity (of 100) + 3 · tolerated taints (of 100).
  EXPECT_EQ(normalised({{100, 0}, {50, 0}, {0, 0}}), (std::vector<int64_t>{500, 400, 300}));
  EXPECT_EQ(normalised({{0, 2}, {0, 1}, {0, 0}}), (std::vector<int64_t>{0, 150, 300}));
  EXPECT_EQ(normalised({{0, 0}, {0, 0}}), (std::vector<int64_t>{300, 300})) << "nothing to tell them apart";
  EXPECT_EQ(normalised({{80, 1}, {0, 0}}), (std::vector<int64_t>{200, 300})) << "a taint weighs more than a wish";
  EXPECT_TRUE(normalised({}).empty());
}

}  // namespace
}  // namespace egpu::reconcile
