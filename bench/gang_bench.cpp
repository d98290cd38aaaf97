// Measures decisions for gangs: 256 members on 10,000 nodes of 8 cards, in racks of 100 nodes. Half of the nodes have a
// share on one card, so that whole cards are not all equal. Each row is decided several times on the same cluster; no
// decision is committed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/gang.h"
#include "controller/scheduler/choice/plan_reservations.h"
#include "controller/scheduler/choice/preempt_together.h"
#include "controller/scheduler/gang.h"
#include "controller/scheduler/queue_order.h"

namespace egpu::scheduler {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kGi = int64_t{1} << 30;
constexpr int kNodes = 10'000, kCards = 8, kPerRack = 100, kRounds = 21;
constexpr std::size_t kMembers = 256;

struct GangScene {
  Cluster cluster;
  std::vector<TopologyGroup> racks;
};

void upsert(Cluster& cluster, const std::string& name, const std::string& node, int index) {
  CardInfo info;
  info.name = info.card.uuid = name;
  info.card.nodeName = node;
  info.card.index = index;
  info.card.model = "H100";
  info.card.memory = 80 * kGi;
  cluster.upsertCard(info);
}

GangScene make(int nodes) {
  GangScene scene;
  for (int i = 0; i < nodes; ++i) {
    const auto node = "node-" + std::to_string(i);
    if (i % kPerRack == 0) scene.racks.push_back({"rack-" + std::to_string(i / kPerRack), {}});
    scene.racks.back().nodes.push_back(node);
    scene.cluster.upsertNode({node, true});
    for (int c = 0; c < kCards; ++c)
      upsert(scene.cluster, "gpu-" + std::to_string(i) + "-" + std::to_string(c), node, c);
    if (i % 2 == 0) scene.cluster.take("gpu-" + std::to_string(i) + "-0", "old-" + std::to_string(i), {300, 8 * kGi});
  }
  return scene;
}

void row(GangScene& scene, const char* what, const std::vector<GangMember>& members, bool racks) {
  std::vector<double> millis;
  bool fits = false;
  for (int round = 0; round < kRounds; ++round) {
    const auto from = Clock::now();
    fits = !decideGang(scene.cluster, members, racks ? &scene.racks : nullptr).decisions.empty();
    millis.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
  }
  std::sort(millis.begin(), millis.end());
  std::printf("%-58s %-10s p50 %8.2f ms   max %8.2f ms\n", what, fits ? "fits" : "does not", millis[kRounds / 2],
              millis.back());
}

/// Measures how long other decisions wait: the longest time between two pauses.
void pausedRow(GangScene& scene, const char* what, const std::vector<GangMember>& members,
               const std::vector<TopologyGroup>& within) {
  double longest = 0;
  const auto began = Clock::now();
  auto last = began;
  const auto pause = [&] {
    longest = std::max(longest, std::chrono::duration<double, std::milli>(Clock::now() - last).count());
    last = Clock::now();
  };
  const bool fits = !decideGang(scene.cluster, members, &within, {}, pause).decisions.empty();
  pause();
  std::printf("%-58s %-10s %8.1f ms in all, %.2f ms at most without a pause\n", what, fits ? "fits" : "does not",
              std::chrono::duration<double, std::milli>(last - began).count(), longest);
}

/// Members whose pods have requirements on nodes; no node meets those of the last member. One group holds all nodes.
void suitedRows(GangScene& scene) {
  std::vector<TopologyGroup> all{{"linux", {}}};
  std::set<std::string, std::less<>> nodes;
  for (const auto& rack : scene.racks)
    for (const auto& node : rack.nodes) {
      all.front().nodes.push_back(node);
      nodes.insert(node);
    }
  GangMember share;
  share.request.perCard = {10, kGi / 4};
  share.suits = [&nodes](std::string_view node) { return nodes.contains(node); };
  std::vector<GangMember> members(kMembers, share);
  for (auto& member : members) member.kind = 0;
  members.back().kind = 1;
  members.back().suits = [](std::string_view) { return false; };
  pausedRow(scene, "256 shares of two kinds of pods, no node for the last", members, all);
  for (auto& member : members) member.kind.reset();
  pausedRow(scene, "256 shares of unlike pods, no node for the last", members, all);
}

/// Nodes whose cards are all allocated, one card per claim.
Cluster taken(int nodes) {
  Cluster cluster;
  for (int i = 0; i < nodes; ++i) {
    const auto node = "node-" + std::to_string(i);
    cluster.upsertNode({node, true});
    for (int c = 0; c < kCards; ++c) {
      const auto name = "gpu-" + std::to_string(i) + "-" + std::to_string(c);
      upsert(cluster, name, node, c);
      cluster.take(name, "holder-" + name, {1000, 80 * kGi});
    }
  }
  return cluster;
}

void preemptRow(const Cluster& cluster, const char* what, const std::vector<GangMember>& members,
                const std::vector<TopologyGroup>* within = nullptr) {
  const auto from = Clock::now();
  const auto found = preemptTogether(cluster, members, within);
  const double millis = std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  std::printf("%-58s %zu go%s   %8.0f ms\n", what, found.victims.size(), found.exact ? "" : " (cut short)", millis);
}

/// Every holder got its card in a different second.
void reservationRow(const Cluster& cluster, const char* what, const std::vector<GangMember>& members,
                    const std::vector<TopologyGroup>* within = nullptr) {
  const auto from = Clock::now();
  const auto reserved = planReservations(
      cluster, members, within, {}, 1'000'000,
      [](std::string_view device) { return static_cast<int64_t>(std::hash<std::string_view>()(device) % 1'000'000); },
      {}, kNodes / 2);
  const double millis = std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  std::printf("%-58s %zu nodes   %8.1f ms\n", what, reserved.size(), millis);
}

void reservationRows(const GangScene& scene) {
  const auto cluster = taken(kNodes);
  GangMember eight, share;
  eight.request.cards = 8;
  eight.request.wholeCards = true;
  share.request.perCard = {250, 20 * kGi};
  reservationRow(cluster, "nodes kept for 64 x 8 whole cards", std::vector<GangMember>(64, eight));
  reservationRow(cluster, "nodes kept for 256 x 8 whole cards", std::vector<GangMember>(kMembers, eight));
  reservationRow(cluster, "nodes kept for 64 x 8 whole cards in one rack", std::vector<GangMember>(64, eight),
                 &scene.racks);
  reservationRow(cluster, "nodes kept for 256 shares", std::vector<GangMember>(kMembers, share));
}

/// Measures one search for a reservation, for a claim and for a pod's claims, and a copy of the cluster.
void oneReservationRows(int nodes) {
  const auto cluster = taken(nodes);
  std::map<std::string, int64_t, std::less<>> since;
  for (int i = 0; i < nodes; ++i)
    for (int c = 0; c < kCards; ++c)
      since.emplace("holder-gpu-" + std::to_string(i) + "-" + std::to_string(c), (i * 7919 + c * 104'729) % 1'000'000);
  const HeldSince heldSince = [&since](std::string_view device) { return since.find(device)->second; };
  std::printf("%d nodes:\n", nodes);
  const auto row = [](const char* what, const auto& act) {
    const auto from = Clock::now();
    const std::size_t reserved = act();
    const double millis = std::chrono::duration<double, std::milli>(Clock::now() - from).count();
    std::printf("%-58s %zu nodes   %8.1f ms\n", what, reserved, millis);
  };
  GangMember eight, five, four;
  for (auto* each : {&eight, &five, &four}) each->request.wholeCards = true;
  eight.request.cards = 8;
  five.request.cards = 5;
  four.request.cards = 4;
  four.with = 0;
  row("a node kept for 8 whole cards", [&] {
    return reserveNodes(cluster, {{"large", 0, 0, &eight.request}}, 1'000'000, heldSince, {}, {0, 1, 1}).size();
  });
  row("a node kept for a pod of two claims, 5 + 4 of 8 cards", [&] {
    return planReservations(cluster, {five, four}, nullptr, {}, 1'000'000, heldSince, {}, 1).size();
  });
  row("a copy of the cluster", [&] { return Cluster(cluster).nodeCount(); });
}

/// Each node is a group of its own.
std::vector<TopologyGroup> hosts(int nodes) {
  std::vector<TopologyGroup> groups;
  for (int i = 0; i < nodes; ++i) {
    const auto node = "node-" + std::to_string(i);
    groups.push_back({node, {node}});
  }
  return groups;
}

void preemptRows() {
  GangMember one, eight, share;
  one.request.wholeCards = true;
  eight.request.cards = 8;
  eight.request.wholeCards = true;
  share.request.perCard = {250, 20 * kGi};
  for (const int nodes : {1'000, 10'000}) {
    const auto cluster = taken(nodes);
    std::printf("all cards of %d nodes taken:\n", nodes);
    preemptRow(cluster, "who goes for 8 x 8 whole cards", std::vector<GangMember>(8, eight));
    preemptRow(cluster, "who goes for 64 x 8 whole cards", std::vector<GangMember>(64, eight));
    preemptRow(cluster, "who goes for 256 x 8 whole cards", std::vector<GangMember>(kMembers, eight));
    preemptRow(cluster, "who goes for 256 shares", std::vector<GangMember>(kMembers, share));
    const auto apart = hosts(nodes);
    preemptRow(cluster, "who goes for 8 whole cards on one node", std::vector<GangMember>(kCards, one), &apart);
    preemptRow(cluster, "who goes for 9 whole cards on one node of 8", std::vector<GangMember>(kCards + 1, one),
               &apart);
    auto alone = std::vector<GangMember>(kCards, one);
    for (auto& member : alone)
      member.hasCapacity = [](std::string_view, auto placed) { return placed.size() + 1 < kCards; };
    preemptRow(cluster, "who goes for 8 whole cards on one node, 7 have room", alone, &apart);
  }
}

/// Gangs up to the largest allowed size, with one card per member.
void largeRows() {
  auto scene = make(500);
  GangMember one;
  one.request.wholeCards = true;
  std::printf("500 nodes:\n");
  for (const std::size_t size : {std::size_t{512}, v1alpha::Gang::kMax})
    row(scene, (std::to_string(size) + " x 1 whole card").c_str(), std::vector<GangMember>(size, one), false);
}

int run() {
  largeRows();
  std::printf("%d nodes:\n", kNodes);
  auto scene = make(kNodes);
  GangMember eight, two, share;
  eight.request.cards = 8;
  eight.request.wholeCards = true;
  two.request.cards = 2;
  two.request.wholeCards = true;
  share.request.perCard = {250, 20 * kGi};
  const auto all = [](const GangMember& member) { return std::vector<GangMember>(kMembers, member); };
  row(scene, "256 x 8 whole cards", all(eight), false);
  row(scene, "256 x 2 whole cards", all(two), false);
  row(scene, "256 shares", all(share), false);
  auto mixed = all(two);
  for (std::size_t i = 0; i < kMembers; i += 2) mixed[i] = share;
  row(scene, "128 x 2 whole cards and 128 shares by turns", mixed, false);
  row(scene, "256 x 2 whole cards in one rack", all(two), true);
  row(scene, "256 shares in one rack", all(share), true);
  row(scene, "256 x 8 whole cards in one rack: 50 fit in each of 100", all(eight), true);
  suitedRows(scene);
  for (int i = 0; i < kNodes; ++i)  // each rack has one card too few
    for (int c = 1; c < kCards; ++c)
      if (i % kPerRack * (kCards - 1) + c - 1 >= 2 * (static_cast<int>(kMembers) - 1))
        scene.cluster.take("gpu-" + std::to_string(i) + "-" + std::to_string(c), "new", {300, 8 * kGi});
  row(scene, "256 x 2 whole cards in one rack: 255 at most fit in each", all(two), true);
  reservationRows(scene);
  oneReservationRows(kNodes);
  oneReservationRows(10 * kNodes);
  preemptRows();
  return 0;
}

}  // namespace
}  // namespace egpu::scheduler

int main() { return egpu::scheduler::run(); }
