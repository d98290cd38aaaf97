// Cases of the Kubernetes page "Assigning Pods to Nodes" and of the NodeSelector types' descriptions.
#include "controller/reconcile/pod/node_fit/affinity.h"

#include <gtest/gtest.h>

namespace egpu::reconcile {
namespace {

using core::NodeSelector;
using core::NodeSelectorRequirement;
using core::NodeSelectorTerm;

core::Node node() {
  core::Node n;
  n.metadata.name = "worker-1";
  n.metadata.labels = {{"topology.kubernetes.io/zone", "antarctica-east1"},
                       {"disktype", "ssd"},
                       {"gen", "4"},
                       {"negative", "-2"},
                       {"empty", ""}};
  return n;
}

struct AffinityCase {
  std::string what;
  NodeSelectorRequirement requirement;
  bool holds;
};

TEST(NodeAffinity, Operators) {
  const std::vector<AffinityCase> cases = {
      {"In: one of the values", {"topology.kubernetes.io/zone", "In", {"antarctica-east1", "antarctica-west1"}}, true},
      {"In: none of the values", {"topology.kubernetes.io/zone", "In", {"antarctica-west1"}}, false},
      {"In: no such label", {"rack", "In", {"r1"}}, false},
      {"In: the empty value is a value", {"empty", "In", {""}}, true},
      {"NotIn: another value", {"disktype", "NotIn", {"hdd"}}, true},
      {"NotIn: that value", {"disktype", "NotIn", {"hdd", "ssd"}}, false},
      {"NotIn: no such label", {"rack", "NotIn", {"r1"}}, true},
      {"Exists", {"disktype", "Exists", {}}, true},
      {"Exists: an empty value too", {"empty", "Exists", {}}, true},
      {"Exists: no such label", {"rack", "Exists", {}}, false},
      {"DoesNotExist", {"rack", "DoesNotExist", {}}, true},
      {"DoesNotExist: it does", {"disktype", "DoesNotExist", {}}, false},
      {"Gt: above", {"gen", "Gt", {"3"}}, true},
      {"Gt: equal", {"gen", "Gt", {"4"}}, false},
      {"Gt: negative", {"negative", "Gt", {"-3"}}, true},
      {"Lt: below", {"gen", "Lt", {"5"}}, true},
      {"Lt: equal", {"gen", "Lt", {"4"}}, false},
      {"Lt: as numbers, not as text", {"gen", "Lt", {"10"}}, true},
      {"Gt: no such label", {"rack", "Gt", {"1"}}, false},
      {"Gt: a label that is no number", {"disktype", "Gt", {"1"}}, false},
      {"Gt: a bound that is no number", {"gen", "Gt", {"three"}}, false},
      {"Gt: two bounds", {"gen", "Gt", {"1", "2"}}, false},
      {"an operator nobody knows", {"gen", "Near", {"4"}}, false},
  };
  for (const auto& c : cases) EXPECT_EQ(matches(NodeSelectorTerm{{c.requirement}, {}}, node()), c.holds) << c.what;
}

TEST(NodeAffinity, Fields) {
  const auto name = [](const std::string& op, std::vector<std::string> values) {
    return NodeSelectorTerm{{}, {{"metadata.name", op, std::move(values)}}};
  };
  EXPECT_TRUE(matches(name("In", {"worker-1"}), node()));
  EXPECT_FALSE(matches(name("In", {"worker-2"}), node()));
  EXPECT_TRUE(matches(name("NotIn", {"worker-2"}), node()));
  EXPECT_FALSE(matches(name("NotIn", {"worker-1"}), node()));
  EXPECT_FALSE(matches(NodeSelectorTerm{{}, {{"spec.unschedulable", "In", {"false"}}}}, node())) << "no such field";
  EXPECT_FALSE(
      matches(NodeSelectorTerm{{{"disktype", "In", {"hdd"}}}, {{"metadata.name", "In", {"worker-1"}}}}, node()))
      << "expressions and fields both hold";
}

TEST(NodeAffinity, TermsAreAlternativesAndTheirRequirementsAllHold) {
  const NodeSelectorRequirement ssd{"disktype", "In", {"ssd"}}, hdd{"disktype", "In", {"hdd"}}, gen{"gen", "Gt", {"3"}};
  EXPECT_TRUE(matches(NodeSelector{{{{ssd, gen}, {}}}}, node()));
  EXPECT_FALSE(matches(NodeSelector{{{{hdd, gen}, {}}}}, node()));
  EXPECT_TRUE(matches(NodeSelector{{{{hdd}, {}}, {{gen}, {}}}}, node()));
  EXPECT_FALSE(matches(NodeSelector{{{{}, {}}}}, node())) << "an empty term selects nothing";
  EXPECT_TRUE(matches(NodeSelector{{{{}, {}}, {{ssd}, {}}}}, node()));
  EXPECT_FALSE(matches(NodeSelector{}, node())) << "no term selects nothing";
}

TEST(NodeAffinity, NodeSelector) {
  EXPECT_TRUE(selects({}, node()));
  EXPECT_TRUE(selects({{"disktype", "ssd"}, {"gen", "4"}}, node()));
  EXPECT_FALSE(selects({{"disktype", "ssd"}, {"gen", "5"}}, node()));
  EXPECT_FALSE(selects({{"rack", ""}}, node())) << "a missing label is not an empty one";
}

TEST(NodeAffinity, PreferredTermsAddUp) {
  core::Pod pod;
  EXPECT_EQ(preference(pod, node()), 0);
  pod.preferredNodeAffinity = {{1, {{{"disktype", "In", {"ssd"}}}, {}}},
                               {50, {{{"gen", "Exists", {}}}, {}}},
                               {100, {{{"disktype", "In", {"hdd"}}}, {}}},
                               {70, {}}};
  EXPECT_EQ(preference(pod, node()), 51) << "an empty term weighs nothing";
}

}  // namespace
}  // namespace egpu::reconcile
