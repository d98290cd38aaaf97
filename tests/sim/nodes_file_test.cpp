#include "controller/standalone/sim/nodes_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "api/v1alpha/validation.h"
#include "controller/base/files.h"

namespace egpu::sim {
namespace {

std::vector<SimNode> parsed(const std::string& yaml) {
  auto r = parseNodes(yaml);
  EXPECT_TRUE(r.ok()) << r.status().str();
  return r.ok() ? *r : std::vector<SimNode>{};
}

std::string refused(const std::string& yaml) {
  auto r = parseNodes(yaml);
  EXPECT_FALSE(r.ok());
  return r.ok() ? "" : r.status().message();
}

TEST(NodesFile, CountMakesNumberedNodesAndCards) {
  const auto nodes = parsed(
      "nodes:\n- name: n\n  count: 3\n  cpu: 1500m\n  memory: 2Gi\n  gpus:\n  - {model: T4, count: 2, memory: 16Gi, "
      "sms: 40, tflops: 65}\n  - {model: L4, memory: 24Gi, tflops: 30.3}\n");
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[2].node.metadata.name, "n-2");
  EXPECT_EQ(nodes[0].node.cpuMilli, 1500);
  EXPECT_EQ(nodes[0].node.memoryBytes, int64_t{2} << 30);
  ASSERT_EQ(nodes[0].cards.size(), 3U);
  EXPECT_EQ(nodes[0].cards[2].model, "L4");
  EXPECT_EQ(nodes[0].cards[2].index, 2);
  EXPECT_EQ(nodes[0].cards[1].memory, int64_t{16} << 30);
  EXPECT_EQ(nodes[0].cards[1].core, 1000);
  EXPECT_EQ(nodes[0].cards[1].milliTflops, 65'000);
  EXPECT_EQ(nodes[0].cards[2].milliTflops, 30'300);
}

TEST(NodesFile, WithoutCountTheNameIsUsedAsItIs) {
  EXPECT_EQ(parsed("nodes: [{name: lab}]")[0].node.metadata.name, "lab");
}

TEST(NodesFile, ANodeMayHaveAsManyCardsAsAClaimMayAskFor) {
  const auto cards =
      parsed("nodes: [{name: n, gpus: [{model: A, count: 100, memory: 8Gi}, {model: B, count: 28, memory: 8Gi}]}]")[0]
          .cards;
  ASSERT_EQ(cards.size(), 128U);
  EXPECT_EQ(cards[127].index, 127);
  std::set<std::string> buses;
  for (const auto& card : cards) buses.insert(card.topology.pcie);
  EXPECT_EQ(buses.size(), 128U);
  EXPECT_NE(refused("nodes: [{name: n, gpus: [{model: A, count: 128, memory: 8Gi}, {model: B, memory: 8Gi}]}]")
                .find("nodes[0].gpus[1] (line 1): a node has at most 128 cards"),
            std::string::npos);
}

TEST(NodesFile, LongNamesFitTheirLabels) {
  const std::string name(100, 'n');
  const auto node = parsed("nodes: [{name: " + name + "}]")[0].node;
  EXPECT_EQ(node.metadata.name, name);
  EXPECT_EQ(node.metadata.label("kubernetes.io/hostname"), v1alpha::labelValueOf(name));
  EXPECT_EQ(node.metadata.label("kubernetes.io/hostname").size(), 63U);
  EXPECT_EQ(parsed("nodes: [{name: lab}]")[0].node.metadata.label("kubernetes.io/hostname"), "lab");
}

TEST(NodesFile, UuidsAreUniqueAndStable) {
  const std::string yaml = "nodes: [{name: n, count: 50, gpus: [{model: T4, count: 8, memory: 16Gi}]}]";
  std::set<std::string> uuids;
  for (const auto& n : parsed(yaml))
    for (const auto& c : n.cards) {
      EXPECT_EQ(c.uuid.size(), 40U) << c.uuid;
      EXPECT_EQ(c.nodeName, n.node.metadata.name);
      uuids.insert(c.uuid);
    }
  EXPECT_EQ(uuids.size(), 400U);
  EXPECT_EQ(parsed(yaml)[7].cards[3].uuid, parsed(yaml)[7].cards[3].uuid);
}

TEST(NodesFile, UuidsMayBeStated) {
  const auto nodes = parsed(
      "nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, uuid: GPU-One}, {model: T4, count: 2, memory: 16Gi, uuids: "
      "[GPU-2, GPU-3], nvlinks: [[1, 2, 4]]}, {model: T4, memory: 16Gi}]}]");
  ASSERT_EQ(nodes[0].cards.size(), 4U);
  EXPECT_EQ(nodes[0].cards[0].uuid, "GPU-One");
  EXPECT_EQ(cardObject(nodes[0].cards[0]).metadata.name, "gpu-one");
  EXPECT_EQ(nodes[0].cards[2].uuid, "GPU-3");
  EXPECT_EQ(nodes[0].cards[1].topology.links[0].peer, "GPU-3");
  EXPECT_EQ(nodes[0].cards[3].uuid,
            parsed("nodes: [{name: a, gpus: [{model: T4, count: 4, memory: 16Gi}]}]")[0].cards[3].uuid);
}

TEST(NodesFile, StatedUuidsAreValidAndUnique) {
  const struct {
    const char *gpus, *message;
  } cases[] = {
      {"[{model: T4, memory: 1Gi, uuid: 'a b'}]", "nodes[0].gpus[0].uuid (line 1): \"a b\" can't name a card"},
      {"[{model: T4, memory: 1Gi, uuid: ''}]", "nodes[0].gpus[0].uuid"},
      {"[{model: T4, memory: 1Gi, uuid: egpu-1}]", "begins with egpu-"},
      {"[{model: T4, memory: 1Gi, uuid: [a]}]", "must be a single value"},
      {"[{model: T4, memory: 1Gi, count: 2, uuid: a}]", "is one for 2 cards"},
      {"[{model: T4, memory: 1Gi, count: 2, uuids: [a]}]", "one for each of 2 cards"},
      {"[{model: T4, memory: 1Gi, uuid: a, uuids: [a]}]", "give one of uuid and uuids"},
      {"[{model: T4, memory: 1Gi, count: 2, uuids: [a, A]}]", "nodes[0].gpus (line 1): uuid \"A\" is used twice"},
  };
  for (const auto& c : cases) {
    const auto text = "nodes: [{name: n, gpus: " + std::string(c.gpus) + "}]";
    EXPECT_NE(refused(text.c_str()).find(c.message), std::string::npos) << c.gpus << " → " << refused(text.c_str());
  }
  EXPECT_NE(refused("nodes: [{name: n, count: 2, gpus: [{model: T4, memory: 1Gi, uuid: a}]}]").find("is used twice"),
            std::string::npos);
}

TEST(NodesFile, LinksAreSymmetric) {
  const auto node =
      parsed("nodes: [{name: n, gpus: [{model: V100, count: 3, memory: 32Gi, nvlinks: [[0, 2, 2]]}]}]")[0];
  ASSERT_EQ(node.cards[0].topology.links.size(), 1U);
  EXPECT_EQ(node.cards[0].topology.links[0].peer, node.cards[2].uuid);
  EXPECT_EQ(node.cards[2].topology.links[0].peer, node.cards[0].uuid);
  EXPECT_EQ(node.cards[2].topology.links[0].count, 2);
  EXPECT_TRUE(node.cards[1].topology.links.empty());
}

TEST(NodesFile, SwitchLinksReachEveryPeerThatHasThem) {
  const auto node =
      parsed("nodes: [{name: n, gpus: [{model: A, count: 2, memory: 8Gi, nvswitch: 18}, {model: B, memory: 8Gi}]}]")[0];
  ASSERT_EQ(node.cards[0].topology.links.size(), 1U);
  EXPECT_EQ(node.cards[0].topology.links[0].type, "nvswitch");
  EXPECT_EQ(node.cards[0].topology.links[0].count, 18);
  EXPECT_TRUE(node.cards[2].topology.links.empty());
}

TEST(NodesFile, ErrorsNameFieldAndLine) {
  const struct {
    const char *yaml, *field;
  } cases[] = {
      {"nodes: []", "nodes"},
      {"[]", "nodes"},
      {"nodes: [{cpu: 3}]", "nodes[0].name"},
      {"nodes: [{name: Bad_Name}]", "nodes[0].name"},
      {"nodes: [{name: a}, {name: a}]", "nodes[1].name"},
      {"nodes: [{name: a, colour: red}]", "nodes[0].colour"},
      {"nodes: [{name: a, cpu: lots}]", "nodes[0].cpu"},
      {"nodes: [{name: a, memory: 64}]", "nodes[0].memory"},
      {"nodes: [{name: a, count: -1}]", "nodes[0].count"},
      {"nodes: [{name: a, count: 100001}]", "nodes[0].count"},
      {"nodes: [{name: a, gpus: [{memory: 8Gi}]}]", "nodes[0].gpus[0].model"},
      {"nodes: [{name: a, gpus: [{model: T4}]}]", "nodes[0].gpus[0].memory"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16}]}]", "nodes[0].gpus[0].memory"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: -16Gi}]}]", "nodes[0].gpus[0].memory"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, count: 129}]}]", "nodes[0].gpus[0].count"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, count: 2, numa: [0]}]}]", "nodes[0].gpus[0].numa"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, nvlinks: [[0, 1, 1]]}]}]", "nodes[0].gpus[0].nvlinks"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, nvlinks: [[0, 0, 1]]}]}]", "nodes[0].gpus[0].nvlinks"},
      {"nodes: [{name: a, taints: [{key: k, effect: Never}]}]", "nodes[0].taints[0].effect"},
      {"nodes: [{name: a, labels: {'not a key': v}}]", "nodes[0].labels.not a key"},
      {"nodes: [{name: a, labels: {k: 'not a value'}}]", "nodes[0].labels.k"},
      {"nodes: [{name: a, cpu: '1e12'}]", "nodes[0].cpu"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 2Pi}]}]", "nodes[0].gpus[0].memory"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, tflops: 0}]}]", "nodes[0].gpus[0].tflops"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, tflops: 8.12345}]}]", "nodes[0].gpus[0].tflops"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, tflops: 2000000}]}]", "nodes[0].gpus[0].tflops"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, tflops: fast}]}]", "nodes[0].gpus[0].tflops"},
      {"nodes: [{name: a, gpus: [{model: T4, memory: 16Gi, count: 2, nvlinks: [[0, 1, 1], [1, 0, 2]]}]}]",
       "nodes[0].gpus[0].nvlinks"},
  };
  for (const auto& c : cases) EXPECT_EQ(refused(c.yaml).rfind(c.field, 0), 0U) << c.yaml << " → " << refused(c.yaml);
  EXPECT_NE(refused("nodes:\n- name: a\n  cpu: x\n").find("line 3"), std::string::npos)
      << refused("nodes:\n- name: a\n  cpu: x\n");
}

TEST(NodesFile, JunkIsAnErrorNotACrash) {
  for (const char* junk : {"", "{", "\t- [", "nodes: [", "a: b: c", "nodes: {x: 1}", "nodes: 7", "&a [*a]",
                           "nodes: [7]", "nodes: [[[[]]]]", "\xff\xfe", "nodes: [{name: a, cpu: 8, cpu: 9}]",
                           "nodes: [{name: a}]\n---\nnodes: [{name: b}]\n"})
    EXPECT_FALSE(refused(junk).empty()) << junk;
}

TEST(NodesFile, TheSamplesAreValid) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EGPU_SOURCE_DIR "/manifests/samples/nodes")) {
    EXPECT_GE(parsed(*base::readFile(entry.path())).size(), 1U) << entry.path();
    ++found;
  }
  EXPECT_GE(found, 3U);
}

TEST(NodesFile, EveryNodeHasAnAddressThatNobodyElseHas) {
  const auto nodes = parsed("nodes: [{name: a}, {name: n, count: 1000}]");
  EXPECT_EQ(nodes[0].node.internalIP, "192.0.2.1");
  EXPECT_EQ(nodes[254].node.internalIP, "198.51.100.1");
  EXPECT_EQ(nodes[761].node.internalIP, "203.0.113.254");
  std::set<std::string> all;
  for (const auto& n : nodes) all.insert(n.node.internalIP);
  EXPECT_EQ(all.size(), nodes.size());
}

TEST(NodesFile, CardObjectIsNamedAfterItsUuidAndLabelled) {
  const auto card = parsed("nodes: [{name: n, gpus: [{model: T4, memory: 16Gi}]}]")[0].cards[0];
  const auto object = cardObject(card);
  EXPECT_EQ(object.metadata.name.substr(0, 4), "gpu-");
  EXPECT_TRUE(std::none_of(object.metadata.name.begin(), object.metadata.name.end(),
                           [](char c) { return c >= 'A' && c <= 'Z'; }));
  EXPECT_EQ(object.metadata.label("elasticgpu.io/role"), "card");
  EXPECT_EQ(object.metadata.label("elasticgpu.io/simulated"), "true");
  EXPECT_TRUE(object.metadata.hasFinalizer("elasticgpu.io/ledger"));
  EXPECT_EQ(object.spec.source->kind, v1alpha::SourceKind::physicalGPU);
}

}  // namespace
}  // namespace egpu::sim
