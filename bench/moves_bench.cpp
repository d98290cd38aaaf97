// Measures plans of moves: 1,000 nodes of 8 cards are filled with shares, then a random half of the shares is released,
// so that hardly any card is whole. Every claim may be moved. Each row plans on clusters of its own and times one
// decision on the same clusters. The gang rows use KAI's consolidation scenario: 500 nodes of 8 cards, 3 of them taken
// by claims of one whole card, and a gang that asks for 10 times 6.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "controller/scheduler/moves.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kGi = int64_t{1} << 30;
constexpr int kNodes = 1'000, kCards = 8, kRounds = 9;

struct Scene {
  Cluster cluster;
  Movers movers;
};

Request share(int64_t tenths) {
  Request request;
  request.perCard = {tenths * 100, tenths * 8 * kGi};
  request.nodePolicy = "spread";
  return request;
}

Request whole(int64_t cards) {
  Request request;
  request.cards = cards;
  request.wholeCards = true;
  return request;
}

Scene make(unsigned seed) {
  Scene scene;
  std::mt19937 random(seed);
  for (int i = 0; i < kNodes; ++i) {
    const auto node = "node-" + std::to_string(i);
    scene.cluster.upsertNode({node, true});
    for (int c = 0; c < kCards; ++c) {
      CardInfo info;
      info.name = info.card.uuid = "gpu-" + std::to_string(i) + "-" + std::to_string(c);
      info.card.nodeName = node;
      info.card.index = c;
      info.card.model = "A100";
      info.card.memory = 80 * kGi;
      scene.cluster.upsertCard(info);
    }
  }
  std::vector<std::pair<std::string, std::string>> held;  // device, card
  for (int n = 0;; ++n) {
    const Request request = share(1 + static_cast<int64_t>(random() % 6));
    const Decision decision = decide(scene.cluster, request);
    if (!decision.fits) break;
    const auto device = "device-" + std::to_string(n);
    hold(scene.cluster, device, decision);
    scene.movers[device] = {request, {}};
    held.emplace_back(device, decision.placements.front().card);
  }
  for (const auto& [device, card] : held)
    if (random() % 2 == 0) {
      scene.cluster.giveBack(card, device);
      scene.movers.erase(device);
    }
  return scene;
}

template <class Plan>
void row(std::vector<Scene>& scenes, const char* what, const Plan& planOf) {
  std::vector<double> plan, one;
  std::size_t moves = 0;
  int64_t freed = 0;
  int possible = 0;
  for (const auto& scene : scenes) {
    auto from = Clock::now();
    const MovePlan found = planOf(scene);
    plan.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
    from = Clock::now();
    (void)decide(scene.cluster, share(1));
    one.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
    moves += found.moves.size();
    freed += found.freedCards;
    possible += found.possible ? 1 : 0;
  }
  std::sort(plan.begin(), plan.end());
  std::sort(one.begin(), one.end());
  std::printf(
      "%-36s p50 %8.1f ms  max %8.1f ms  (a decision %.4f ms)  %d of %zu possible, %.1f moves, %.1f cards freed\n",
      what, plan[plan.size() / 2], plan.back(), one[one.size() / 2], possible, scenes.size(),
      static_cast<double>(moves) / static_cast<double>(scenes.size()),
      static_cast<double>(freed) / static_cast<double>(scenes.size()));
}

constexpr int kGangNodes = 500, kMembers = 10;

Scene consolidation() {
  Scene scene;
  for (int i = 0; i < kGangNodes; ++i) {
    const auto node = "node-" + std::to_string(1000 + i);
    scene.cluster.upsertNode({node, true});
    for (int c = 0; c < kCards; ++c) {
      CardInfo info;
      info.name = info.card.uuid = "gpu-" + node + "-" + std::to_string(c);
      info.card.nodeName = node;
      info.card.index = c;
      info.card.model = "A100";
      info.card.memory = 80 * kGi;
      scene.cluster.upsertCard(info);
      if (c >= 3) continue;
      const auto device = "device-" + node + "-" + std::to_string(c);
      scene.cluster.take(info.name, device, scene.cluster.findCard(info.name).capacity);
      scene.movers[device] = {whole(1), {}};
    }
  }
  return scene;
}

/// Carries out plan after plan until the gang fits. No capacity is held for the gang, and each moved claim is decided
/// before its card is released.
void gangRow(const char* what, const std::vector<TopologyGroup>* within) {
  auto scene = consolidation();
  const std::vector<GangMember> members(kMembers, GangMember{whole(6)});
  const MovePlanner planner = [&](const Cluster& at) { return movesToLetAllIn(at, members, within, {}, scene.movers); };
  std::vector<double> plans, firsts;
  std::size_t moves = 0, planned = 0;
  bool exact = false, held = true;
  while (held) {
    auto from = Clock::now();
    MovePlan plan = planner(scene.cluster);
    plans.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
    if (moves == 0) {
      planned = plan.moves.size();
      exact = plan.exact;
    }
    if (plan.moves.empty()) break;
    from = Clock::now();
    held = beginWithMoveThatHolds(scene.cluster, plan, scene.movers, planner, 16);
    firsts.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
    if (!held) break;
    const Move move = plan.moves.front();
    const Decision to = decide(scene.cluster, scene.movers.at(move.device).request);
    release(scene.cluster, move.device, move.from);
    hold(scene.cluster, move.device, to);
    ++moves;
  }
  const double first = plans.front();
  std::sort(plans.begin(), plans.end());
  std::sort(firsts.begin(), firsts.end());
  std::printf(
      "%-36s first %8.1f ms  p50 %8.1f ms  max %8.1f ms; a first move that holds p50 %8.1f ms  max %8.1f ms; "
      "%zu moves planned%s, the gang fits after %zu%s\n",
      what, first, plans[plans.size() / 2], plans.back(), firsts.empty() ? 0. : firsts[firsts.size() / 2],
      firsts.empty() ? 0. : firsts.back(), planned, exact ? " (exact)" : "", moves, held ? "" : ", STOPPED");
}

int run() {
  std::printf("a gang of %d x 6 cards on %d nodes x %d cards, 5 of them free\n", kMembers, kGangNodes, kCards);
  gangRow("anywhere", nullptr);
  std::vector<TopologyGroup> racks(20);
  for (int i = 0; i < kGangNodes; ++i)
    racks[static_cast<std::size_t>(i % 20)].nodes.push_back("node-" + std::to_string(1000 + i));
  for (std::size_t i = 0; i < racks.size(); ++i) racks[i].value = "rack-" + std::to_string(i);
  gangRow("in one of 20 racks of 25 nodes", &racks);
  std::vector<Scene> scenes;
  for (int seed = 1; seed <= kRounds; ++seed) scenes.push_back(make(static_cast<unsigned>(seed)));
  std::printf("%zu claims on %d nodes x %d cards\n", scenes.front().movers.size(), kNodes, kCards);
  for (const int64_t cards : {4, 8})
    row(scenes, ("let " + std::to_string(cards) + " whole cards in").c_str(),
        [&](const Scene& scene) { return movesToLetIn(scene.cluster, whole(cards), {}, scene.movers); });
  for (const int64_t max : {10, 100, 1000})
    row(scenes, ("free whole cards, " + std::to_string(max) + " moves at most").c_str(),
        [&](const Scene& scene) { return movesToFreeCards(scene.cluster, scene.movers, max, kMaxMoveDecisions); });
  return 0;
}

}  // namespace
}  // namespace egpu::scheduler

int main() { return egpu::scheduler::run(); }
