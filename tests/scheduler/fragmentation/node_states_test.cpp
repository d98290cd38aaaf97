// Cached node states equal the states of the nodes.
#include "controller/scheduler/fragmentation/node_states.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/scheduler/world.h"

namespace egpu::scheduler::fragmentation {
namespace {

using scheduler::testing::kGi;
using scheduler::testing::makeCard;
using scheduler::testing::pick;
using scheduler::testing::Random;

void addNode(Cluster& cluster, const std::string& name, int64_t cards) {
  cluster.upsertNode({name, true, 64'000, 256 * kGi});
  for (int64_t c = 0; c < cards; ++c)
    cluster.upsertCard(makeCard(name + "-" + std::to_string(c), name, c, 16 * kGi, c % 3 == 0 ? "T4" : "V100"));
}

/// Checks that NodeStates is right for each node, and that nodes in equal states have one number.
void expectTrue(const Cluster::State& state, const NodeStates& states) {
  std::map<uint32_t, uint32_t> nodesIn;
  for (NodeId node = 0; node < state.nodes.size(); ++node) {
    const uint32_t number = states.numberOf(node);
    ASSERT_EQ(number == NodeStates::kNotOffered, !state.nodes[node].offered()) << node;
    if (number == NodeStates::kNotOffered) continue;
    ++nodesIn[number];
    NodeState now;
    readNode(state, node, now);
    ASSERT_EQ(states.state(number), now) << node;
  }
  for (const auto& [a, nodes] : nodesIn) {
    ASSERT_EQ(states.nodesIn(a), nodes);
    for (const auto& [b, others] : nodesIn) ASSERT_EQ(states.state(a) == states.state(b), a == b);
  }
  for (uint32_t number = 1; number < states.numbers(); ++number) ASSERT_EQ(states.nodesIn(number), nodesIn[number]);
}

TEST(NodeStates, AreThoseOfTheNodesWhateverHappened) {
  Cluster cluster;
  Random random(7);
  for (int n = 0; n < 30; ++n) addNode(cluster, "n" + std::to_string(n), 1 + n % 4);
  NodeStates states;
  std::map<NodeId, uint32_t> numbers;      // as a listener of the changes knows them
  std::map<uint32_t, NodeState> standFor;  // as a listener of the changes knows them
  for (int i = 0; i < 20'000; ++i) {
    const std::string node = "n" + std::to_string(pick(random, 0, 29));
    const std::string card = node + "-" + std::to_string(pick(random, 0, 3));
    switch (pick(random, 0, 99)) {
      case 0:
        cluster.upsertNode({node, pick(random, 0, 1) == 0, 64'000, 256 * kGi});
        break;
      case 1:
        states.changed(cluster.state().findNode(node));
        cluster.removeNode(node);
        for (const std::string& each : cluster.cardsOf(node)) cluster.removeCard(each);
        addNode(cluster, node, pick(random, 1, 4));
        break;
      default:
        cluster.take(card, "d", {pick(random, 0, 1000), pick(random, 0, 16) * kGi}, {pick(random, 0, 9), 0});
    }
    states.changed(cluster.state().findNode(node));
    if (pick(random, 0, 3) == 0) continue;  // several changes are read together
    const Cluster::State& state = cluster.state();
    const NodeStates::Changes& changes = states.read(state);
    for (const NodeId each : changes.nodes) numbers[each] = states.numberOf(each);
    for (const uint32_t each : changes.numbers) standFor[each] = states.state(each);
    for (NodeId each = 0; each < state.nodes.size(); ++each) {
      const uint32_t number = states.numberOf(each);
      ASSERT_EQ(numbers[each], number) << i;
      if (number != NodeStates::kNotOffered) {
        ASSERT_EQ(standFor[number], states.state(number)) << i;
      }
    }
    ASSERT_NO_FATAL_FAILURE(expectTrue(state, states)) << "step " << i;
  }
  EXPECT_LE(states.numbers(), cluster.state().nodes.size() + 2);  // states without nodes are forgotten
}

TEST(NodeStates, ReadsOnlyWhatChanged) {
  Cluster cluster;
  addNode(cluster, "a", 2);
  addNode(cluster, "b", 2);
  NodeStates nodeStates;
  EXPECT_EQ(nodeStates.read(cluster.state()).nodes.size(), 2u);
  EXPECT_EQ(nodeStates.numberOf(0), nodeStates.numberOf(1));
  EXPECT_TRUE(nodeStates.read(cluster.state()).nodes.empty());
  nodeStates.changed(0);
  EXPECT_EQ(nodeStates.read(cluster.state()).nodes, std::vector<NodeId>{0});
  EXPECT_TRUE(nodeStates.read(cluster.state()).numbers.empty());  // the state is unchanged
  cluster.take("b-0", "d", {500, 0});
  nodeStates.changed(1);
  nodeStates.changed(1);
  const NodeStates::Changes& changes = nodeStates.read(cluster.state());
  EXPECT_EQ(changes.nodes, std::vector<NodeId>{1});
  EXPECT_EQ(changes.numbers, std::vector<uint32_t>{nodeStates.numberOf(1)});
  EXPECT_NE(nodeStates.numberOf(0), nodeStates.numberOf(1));
}

}  // namespace
}  // namespace egpu::scheduler::fragmentation
