// States that are kept equal those that are read anew.
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

/// What NodeStates says of each node, without its numbers.
void expectEqual(const Cluster::State& state, const NodeStates& kept, const NodeStates& fresh) {
  ASSERT_EQ(kept.free(), fresh.free());
  ASSERT_EQ(kept.cards(), fresh.cards());
  std::map<uint32_t, uint32_t> nodesIn;
  for (NodeId node = 0; node < state.nodes.size(); ++node) {
    const uint32_t number = kept.stateOf(node), freshNumber = fresh.stateOf(node);
    ASSERT_EQ(number == NodeStates::kNotOffered, freshNumber == NodeStates::kNotOffered) << node;
    if (number == NodeStates::kNotOffered) continue;
    ++nodesIn[number];
    const KnownState &a = kept.known(number), &b = fresh.known(freshNumber);
    ASSERT_EQ(a.state, b.state) << node;
    ASSERT_EQ(a.free, b.free) << node;
    NodeState now;
    readNode(state, node, now);
    ASSERT_EQ(a.state, now) << node;
  }
  for (uint32_t number = 0; number < kept.states(); ++number) ASSERT_EQ(kept.nodesIn(number), nodesIn[number]);
}

TEST(NodeStates, KeptUpToDateEqualsOneTakenAnew) {
  Cluster cluster;
  Random random(7);
  for (int n = 0; n < 30; ++n) addNode(cluster, "n" + std::to_string(n), 1 + n % 4);
  NodeStates kept;
  uint64_t generations = 0;
  std::map<NodeId, uint32_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const std::string node = "n" + std::to_string(pick(random, 0, 29));
    const std::string card = node + "-" + std::to_string(pick(random, 0, 3));
    const auto id = [&] { return cluster.state().findNode(node); };
    switch (pick(random, 0, 99)) {
      case 0:
        cluster.upsertNode({node, pick(random, 0, 1) == 0, 64'000, 256 * kGi});
        kept.replaced(id());
        break;
      case 1:
        kept.replaced(id());
        cluster.removeNode(node);
        for (const std::string& each : cluster.cardsOf(node)) cluster.removeCard(each);
        addNode(cluster, node, pick(random, 1, 4));
        kept.replaced(id());
        break;
      default:
        cluster.take(card, "d", {pick(random, 0, 1000), pick(random, 0, 16) * kGi}, {pick(random, 0, 9), 0});
        kept.changed(id());
    }
    if (pick(random, 0, 3) == 0) continue;  // so that several changes are read together
    const Cluster::State& state = cluster.state();
    if (i % 5 > 0) {
      const std::vector<NodeStates::Change>& changes = kept.read(state);
      // Whoever listens to the changes alone knows every node's state.
      if (kept.generation() != generations) seen.clear();
      generations = kept.generation();
      std::set<NodeId> changed;
      for (const NodeStates::Change& change : changes) EXPECT_TRUE(changed.insert(change.node).second);
      for (NodeId each = 0; each < state.nodes.size(); ++each) {
        if (seen.count(each) > 0 && changed.count(each) == 0) {
          ASSERT_EQ(seen[each], kept.stateOf(each)) << i;
        }
        seen[each] = kept.stateOf(each);
      }
    }
    if (i % 50 != 49) continue;
    kept.read(state);
    for (NodeId each = 0; each < state.nodes.size(); ++each) seen[each] = kept.stateOf(each);
    generations = kept.generation();
    NodeStates fresh;
    fresh.read(state);
    ASSERT_NO_FATAL_FAILURE(expectEqual(state, kept, fresh)) << "step " << i;
  }
  EXPECT_GT(generations, 1u);  // more states were met than are kept
}

TEST(NodeStates, SaysWhichNodesAreOthersThanBefore) {
  Cluster cluster;
  addNode(cluster, "a", 2);
  addNode(cluster, "b", 2);
  NodeStates nodeStates;
  (void)nodeStates.read(cluster.state());  // and from here on it must be told
  nodeStates.changed(0);
  EXPECT_TRUE(nodeStates.read(cluster.state()).empty());  // told so, but as before
  cluster.take("b-0", "d", {500, 0});
  nodeStates.changed(1);
  nodeStates.changed(1);
  ASSERT_EQ(nodeStates.read(cluster.state()).size(), 1u);
  nodeStates.changed(0);
  nodeStates.replaced(0);
  const std::vector<NodeStates::Change>& changes = nodeStates.read(cluster.state());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].node, 0u);
  EXPECT_TRUE(changes[0].replaced);
  EXPECT_EQ(nodeStates.nodesIn(nodeStates.stateOf(0)), 1u);
  EXPECT_EQ(nodeStates.free(), 3500);
}

TEST(RoomColumns, RefuseOnlyWhatLacksSomething) {
  Random random(3);
  // Close together and beyond what a float tells apart.
  const auto amount = [&] { return pick(random, 0, 2) * (int64_t{1} << 40) + pick(random, 0, 3); };
  const auto any = [&] {
    FreeRoom room{{amount(), amount()}, {pick(random, 0, 3), amount()}, pick(random, 0, 8), 0};
    return room;
  };
  int refused = 0, held = 0;
  for (int round = 0; round < 200; ++round) {
    RoomColumns columns;
    std::vector<FreeRoom> rooms(1 + static_cast<std::size_t>(round) % 37);
    for (FreeRoom& room : rooms) columns.add(room = any());
    const FreeRoom least = any();
    const std::size_t first = rooms.size() / 3;
    std::vector<int32_t> answers(rooms.size() - first, 7);
    columns.sift(least, first, answers, 1, 0);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (rooms[first + i].has(least)) {
        ASSERT_EQ(answers[i], 1);
        ++held;
      }
      refused += answers[i] == 0;
    }
  }
  EXPECT_GT(held, 50);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace egpu::scheduler::fragmentation
