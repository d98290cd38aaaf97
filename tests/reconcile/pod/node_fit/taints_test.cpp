// Cases of the Kubernetes page "Taints and Tolerations".
#include "controller/reconcile/pod/node_fit/taints.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

struct TaintCase {
  std::string what;
  core::Toleration toleration;
  core::Taint taint;
  bool tolerated;
};

TEST(Taints, Tolerations) {
  const core::Taint taint{"key1", "value1", "NoSchedule"};
  const std::vector<TaintCase> cases = {
      {"Equal: key, value and effect", {"key1", "Equal", "value1", "NoSchedule"}, taint, true},
      {"no operator means Equal", {"key1", "", "value1", "NoSchedule"}, taint, true},
      {"Equal: another value", {"key1", "Equal", "value2", "NoSchedule"}, taint, false},
      {"Equal: another key", {"key2", "Equal", "value1", "NoSchedule"}, taint, false},
      {"Equal: another effect", {"key1", "Equal", "value1", "NoExecute"}, taint, false},
      {"Exists: whatever the value", {"key1", "Exists", "", "NoSchedule"}, taint, true},
      {"Exists: another key", {"key2", "Exists", "", "NoSchedule"}, taint, false},
      {"an empty effect matches all effects", {"key1", "Exists", "", ""}, {"key1", "v", "NoExecute"}, true},
      {"an empty key with Exists matches all keys", {"", "Exists", "", ""}, taint, true},
      {"an empty key with Exists keeps to its effect", {"", "Exists", "", "NoExecute"}, taint, false},
      {"an empty key with Equal matches nothing", {"", "Equal", "value1", ""}, taint, false},
      {"Equal: a taint without value", {"key1", "Equal", "", ""}, {"key1", "", "NoSchedule"}, true},
      {"an operator nobody knows", {"key1", "Like", "value1", ""}, taint, false},
  };
  for (const auto& c : cases) EXPECT_EQ(tolerates(c.toleration, c.taint), c.tolerated) << c.what;
}

TEST(Taints, ThreeTaintsAndTwoTolerations) {
  // The page's example: the third taint is not tolerated, so the node does not fit.
  core::Node node;
  node.taints = {{"key1", "value1", "NoSchedule"}, {"key1", "value1", "NoExecute"}, {"key2", "value2", "NoSchedule"}};
  core::Pod pod;
  pod.tolerations = {{"key1", "Equal", "value1", "NoSchedule"}, {"key1", "Equal", "value1", "NoExecute"}};
  ASSERT_NE(untolerated(pod, node), nullptr);
  EXPECT_EQ(untolerated(pod, node)->key, "key2");
  node.taints.pop_back();
  EXPECT_EQ(untolerated(pod, node), nullptr);
}

TEST(Taints, PreferNoScheduleIsAScoreOnly) {
  core::Node node;
  node.taints = {{"a", "", "PreferNoSchedule"}, {"b", "", "PreferNoSchedule"}};
  core::Pod pod;
  EXPECT_EQ(untolerated(pod, node), nullptr);
  EXPECT_EQ(taintsToAvoid(pod, node), 2);
  pod.tolerations = {{"a", "Exists", "", ""}, {"b", "Exists", "", "NoSchedule"}};
  EXPECT_EQ(taintsToAvoid(pod, node), 1);
}

TEST(Taints, Cordon) {
  core::Node node;
  core::Pod pod;
  EXPECT_FALSE(cordonedFor(pod, node));
  node.unschedulable = true;
  EXPECT_TRUE(cordonedFor(pod, node));
  pod.tolerations = {{"node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"}};
  EXPECT_FALSE(cordonedFor(pod, node));
}

}  // namespace
}  // namespace egpu::reconcile
