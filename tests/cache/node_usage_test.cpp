#include "controller/cache/node_usage.h"

#include <gtest/gtest.h>

namespace egpu::cache {
namespace {

core::Pod pod(const std::string& name, const std::string& node, int64_t cpu, const std::string& version = "1",
              const std::string& uid = {}) {
  core::Pod p;
  p.metadata.name = name;
  p.metadata.namespace_ = "ns";
  p.metadata.uid = uid.empty() ? name : uid;
  p.metadata.resourceVersion = version;
  p.nodeName = node;
  core::Container c;
  c.requests["cpu"] = std::to_string(cpu) + "m";
  p.containers = {c};
  return p;
}

const core::ObjectKey kNobody{"ns", "nobody"};

class NodeUsageTest : public ::testing::Test {
 protected:
  NodeUsageTest() {
    usage.onFreed([this](const std::string& node) { freed.push_back(node); });
  }
  int64_t cpu(const std::string& node, const core::ObjectKey& without = kNobody,
              int64_t priority = NodeUsage::kAllPriorities) {
    return usage.of(node, without, priority).requests.cpuMilli;
  }
  NodeUsage usage;
  std::vector<std::string> freed;
};

TEST_F(NodeUsageTest, APodCountsFromItsNodeToItsEnd) {
  usage.seen(pod("a", "", 100));
  EXPECT_EQ(cpu("n1"), 0);
  usage.seen(pod("a", "n1", 100, "2"));
  usage.seen(pod("b", "n1", 50));
  EXPECT_EQ(usage.of("n1", kNobody), (NodeUsage::Sum{{150, 0, 0}, 2}));
  EXPECT_TRUE(freed.empty());
  auto leaving = pod("a", "n1", 100, "3");
  leaving.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  usage.seen(leaving);
  EXPECT_EQ(cpu("n1"), 150) << "it still runs";
  leaving.phase = "Succeeded";
  leaving.metadata.resourceVersion = "4";
  usage.seen(leaving);
  EXPECT_EQ(usage.of("n1", kNobody), (NodeUsage::Sum{{50, 0, 0}, 1}));
  EXPECT_EQ(freed, std::vector<std::string>{"n1"});
  usage.gone({"ns", "b"}, "another");
  EXPECT_EQ(cpu("n1"), 50);
  usage.gone({"ns", "b"}, "b");
  EXPECT_EQ(usage.of("n1", kNobody), NodeUsage::Sum{});
}

TEST_F(NodeUsageTest, WithoutOneAndByPriority) {
  auto high = pod("high", "n1", 1000);
  high.priority = 100;
  usage.seen(high);
  usage.seen(pod("low", "n1", 10));
  auto negative = pod("negative", "n1", 1);
  negative.priority = -5;
  usage.seen(negative);
  EXPECT_EQ(cpu("n1"), 1011);
  EXPECT_EQ(cpu("n1", {"ns", "low"}), 1001);
  EXPECT_EQ(cpu("n1", kNobody, 0), 1010);
  EXPECT_EQ(cpu("n1", kNobody, 100), 1000);
  EXPECT_EQ(cpu("n1", {"ns", "low"}, 100), 1000) << "it was left out already";
  EXPECT_EQ(cpu("n1", kNobody, 101), 0);
}

TEST_F(NodeUsageTest, PodsWithoutClaimsLast) {
  const auto others = [this](const core::ObjectKey& without = kNobody) {
    return usage.ofLastingPods("n1", without).requests.cpuMilli;
  };
  auto holder = pod("holder", "n1", 1000);
  holder.resourceClaims.emplace_back();
  usage.seen(holder);
  usage.seen(pod("other", "n1", 10));
  EXPECT_EQ(cpu("n1"), 1010);
  EXPECT_EQ(others(), 10);
  EXPECT_EQ(others({"ns", "holder"}), 10);
  EXPECT_EQ(others({"ns", "other"}), 0);
  holder.resourceClaims.clear();
  holder.metadata.resourceVersion = "2";
  usage.seen(holder);
  EXPECT_EQ(others(), 1010);
  usage.gone({"ns", "holder"}, "holder");
  usage.gone({"ns", "other"}, "other");
  EXPECT_EQ(others(), 0);
}

TEST_F(NodeUsageTest, PodsThatAreReplacedLastThoughTheyUseClaims) {
  const auto lasting = [this] { return usage.ofLastingPods("n1", kNobody).requests.cpuMilli; };
  auto holder = pod("holder", "n1", 1000);
  holder.resourceClaims.emplace_back();
  core::OwnerReference owner;
  owner.kind = "Job";
  owner.controller = true;
  holder.metadata.ownerReferences = {owner};
  usage.seen(holder);
  EXPECT_EQ(lasting(), 0);
  holder.metadata.ownerReferences.front().kind = "ReplicaSet";
  holder.metadata.resourceVersion = "2";
  usage.seen(holder);
  EXPECT_EQ(lasting(), 1000);
  usage.gone({"ns", "holder"}, "holder");
  EXPECT_EQ(lasting(), 0);
}

TEST_F(NodeUsageTest, OldNewsAndRecreatedPods) {
  usage.seen(pod("a", "n1", 100, "5"));
  usage.seen(pod("a", "", 100, "4"));
  EXPECT_EQ(cpu("n1"), 100);
  usage.seen(pod("a", "", 100, "6", "anew"));
  EXPECT_EQ(cpu("n1"), 0) << "of that name is another one now";
}

TEST_F(NodeUsageTest, APlanCountsUntilThePodIsThere) {
  usage.plan(pod("a", "", 100), "n1");
  EXPECT_EQ(cpu("n1"), 100);
  usage.seen(pod("a", "", 100, "7"));
  EXPECT_EQ(cpu("n1"), 100) << "it has no node yet";
  usage.plan(pod("a", "", 100), "n2");
  EXPECT_EQ(cpu("n1"), 0);
  EXPECT_EQ(freed, std::vector<std::string>{"n1"});
  usage.seen(pod("a", "n2", 100, "8"));
  usage.unplan({"ns", "a"});
  usage.plan(pod("a", "", 100), "n1");
  EXPECT_EQ(cpu("n2"), 100) << "where it is, is no plan any more";
  EXPECT_EQ(cpu("n1"), 0);
}

TEST_F(NodeUsageTest, TwoPodsAreNotPromisedTheSameCapacity) {
  const auto fits = [](const NodeUsage::Sum& taken) { return taken.requests.cpuMilli + 100 <= 150; };
  EXPECT_TRUE(usage.plan(pod("a", "", 100), "n1", fits));
  EXPECT_FALSE(usage.plan(pod("b", "", 100), "n1", fits));
  EXPECT_TRUE(usage.plan(pod("a", "", 100), "n1", fits)) << "it has it already";
  EXPECT_EQ(cpu("n1"), 100);
}

TEST_F(NodeUsageTest, APlanEndsWithItsPod) {
  usage.plan(pod("a", "", 100), "n1");
  usage.unplan({"ns", "a"});
  EXPECT_EQ(cpu("n1"), 0);
  usage.plan(pod("a", "", 100), "n1");
  usage.gone({"ns", "a"}, "a");
  EXPECT_EQ(cpu("n1"), 0);
  usage.plan(pod("a", "", 100), "n1");
  usage.seen(pod("a", "", 100, "9", "anew"));
  EXPECT_EQ(cpu("n1"), 0);
}

TEST_F(NodeUsageTest, AListReportsWhatIsThereAndWhatIsNot) {
  usage.seen(pod("a", "n1", 100));
  usage.plan(pod("b", "", 10), "n1");
  usage.plan(pod("c", "", 1), "n1");
  usage.listBegins();
  usage.listed(pod("a", "n1", 100));  // from a list that is interrupted
  usage.listBegins();
  usage.listed(pod("b", "", 10, "8"));
  usage.listed(pod("d", "n2", 7, "8"));
  EXPECT_EQ(cpu("n1"), 111);
  usage.listEnds();
  EXPECT_EQ(cpu("n1"), 10);
  EXPECT_EQ(cpu("n2"), 7);
  EXPECT_EQ(freed.size(), 2u);
}

TEST_F(NodeUsageTest, AListOfARestoredServerReplacesWhatIsThere) {
  usage.seen(pod("a", "n1", 100, "20"));
  usage.seen(pod("b", "n1", 10, "21"));
  usage.listBegins();
  usage.listed(pod("a", "", 100, "5"));
  usage.listed(pod("b", "n2", 10, "6"));
  usage.listEnds();
  EXPECT_EQ(cpu("n1"), 0);
  EXPECT_EQ(cpu("n2"), 10);
}

TEST_F(NodeUsageTest, WhatIsSeenWhileAListIsDeliveredStays) {
  usage.listBegins();
  usage.seen(pod("a", "n1", 100, "20"));
  usage.listed(pod("a", "n2", 100, "5"));
  usage.listEnds();
  EXPECT_EQ(cpu("n1"), 100);
}

}  // namespace
}  // namespace egpu::cache
