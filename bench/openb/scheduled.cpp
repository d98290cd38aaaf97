#include "bench/openb/scheduled.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "controller/scheduler/decide.h"

namespace egpu::bench::openb {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

scheduler::Request requestOf(const Pod& pod, const Policies& policies) {
  scheduler::Request request;
  request.cards = pod.cards;
  request.wholeCards = pod.cards > 0 && pod.milli == 1000;
  request.perCard = {request.wholeCards ? 0 : pod.milli, 0};
  request.models = pod.models;
  request.cpuMilli = pod.cpuMilli;
  request.podMemory = pod.memoryMib * kMiB;
  request.nodePolicy = policies.node;
  request.cardPolicy = policies.card;
  return request;
}

}  // namespace

Scheduled::Scheduled(const Trace& trace, const Policies& policies) : trace_(trace) {
  for (const Pod& pod : trace.pods) requests_.push_back(requestOf(pod, policies));
  std::vector<std::size_t> byRank(trace.nodes.size());
  std::iota(byRank.begin(), byRank.end(), std::size_t{0});
  std::sort(byRank.begin(), byRank.end(),
            [&](std::size_t a, std::size_t b) { return trace.nodes[a].rank < trace.nodes[b].rank; });
  for (std::size_t i = 0; i < byRank.size(); ++i) {
    const Node& node = trace.nodes[byRank[i]];
    char name[32];
    std::snprintf(name, sizeof name, "node-%08zu", i);  // of equal nodes the scheduler takes the lowest name
    cluster_.upsertNode({name, true, node.cpuMilli, node.memoryMib * kMiB});
    for (int64_t c = 0; c < node.cards; ++c) {
      scheduler::CardInfo card;
      card.name = std::string(name) + "-card-" + std::to_string(c);
      card.card.uuid = "GPU-" + card.name;
      card.card.nodeName = name;
      card.card.index = c;
      card.card.model = node.model;
      cluster_.upsertCard(card);
    }
  }
}

void Scheduled::teach() {
  const std::size_t pods = requests_.size();
  // Golden steps: all of them are visited, and any stretch is an even sample of the file.
  std::size_t step = static_cast<std::size_t>(static_cast<double>(pods) * 0.618) + 1;
  while (std::gcd(step, pods) != 1) ++step;
  for (std::size_t i = 0; i < pods; ++i) cluster_.observe(requests_[i * step % pods]);
}

bool Scheduled::place(const Pod& pod) {
  const scheduler::Request& request = requests_[static_cast<std::size_t>(&pod - trace_.pods.data())];
  cluster_.observe(request);
  const scheduler::Decision decision = scheduler::decide(cluster_, request);
  if (!decision.fits) return false;
  const std::string device = "pod-" + std::to_string(devices_++);
  scheduler::NodeAmount ofNode{request.cpuMilli, request.podMemory};
  if (decision.placements.empty()) return cluster_.takeOfNode(decision.node, device, ofNode);
  for (const scheduler::Placement& placement : decision.placements) {
    cluster_.take(placement.card, device, placement.charged, ofNode);
    ofNode = {};
  }
  return true;
}

}  // namespace egpu::bench::openb
