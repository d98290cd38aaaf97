#include "bench/openb/scheduled.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>

namespace egpu::bench::openb {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

scheduler::Request requestFor(const TracePod& pod, const Policies& policies) {
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
  for (const TracePod& pod : trace.pods) requests_.push_back(requestFor(pod, policies));
  std::vector<std::size_t> byRank(trace.nodes.size());
  std::iota(byRank.begin(), byRank.end(), std::size_t{0});
  std::sort(byRank.begin(), byRank.end(),
            [&](std::size_t a, std::size_t b) { return trace.nodes[a].rank < trace.nodes[b].rank; });
  for (std::size_t i = 0; i < byRank.size(); ++i) {
    const TraceNode& node = trace.nodes[byRank[i]];
    char name[32];
    std::snprintf(name, sizeof name, "node-%08zu", i);  // among equal nodes the scheduler takes the lowest name
    cluster_.upsertNode({name, true, node.cpuMilli, node.memoryMib * kMiB});
    nodes_.emplace_back(name);
    cards_.emplace_back();
    for (int64_t c = 0; c < node.cards; ++c) {
      scheduler::CardInfo card;
      card.name = std::string(name) + "-card-" + std::to_string(c);
      card.card.uuid = "GPU-" + card.name;
      card.card.nodeName = name;
      card.card.index = c;
      card.card.model = node.model;
      cluster_.upsertCard(card);
      cards_.back().push_back(card.name);
    }
  }
}

void Scheduled::teach() {
  const std::size_t pods = requests_.size();
  // Golden-ratio steps visit all pods, and any stretch is an even sample of the file.
  std::size_t step = static_cast<std::size_t>(static_cast<double>(pods) * 0.618) + 1;
  while (std::gcd(step, pods) != 1) ++step;
  for (std::size_t i = 0; i < pods; ++i) cluster_.observe(requests_[i * step % pods]);
}

std::size_t Scheduled::rankOf(std::string_view node) {
  std::size_t rank = 0;
  const std::string_view digits = node.substr(node.find('-') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return rank;
}

std::optional<Seat> Scheduled::choose(const TracePod& pod, const Where& where) {
  if (where.only && !where.allows(*where.only)) return std::nullopt;
  scheduler::Request request = requestOf(pod);
  scheduler::NodePredicate suits;
  if (where.only) {
    request.pinnedNode = nodes_[*where.only];
  } else if (where.open) {
    suits = [&](std::string_view node) { return where.open(rankOf(node)); };
  }
  const scheduler::Decision decision = scheduler::decide(cluster_, request, suits);
  if (!decision.fits) return std::nullopt;
  return seatOf(decision);
}

Seat Scheduled::seatOf(const scheduler::Decision& decision) const {
  Seat seat{rankOf(decision.node), {}};
  for (const scheduler::Placement& each : decision.placements)
    seat.cards.push_back(static_cast<std::size_t>(cluster_.findCard(each.card).index));
  return seat;
}

void Scheduled::take(const TracePod& pod, uint64_t id, const Seat& seat) {
  const std::string device = deviceOf(id);
  scheduler::NodeAmount ofNode{pod.cpuMilli, pod.memoryMib * kMiB};
  if (seat.cards.empty()) cluster_.takeOfNode(nodes_[seat.node], device, ofNode);
  for (const std::size_t card : seat.cards) {
    cluster_.take(cards_[seat.node][card], device, {pod.milli, 0}, ofNode);
    ofNode = {};
  }
}

void Scheduled::giveBack(const TracePod&, uint64_t id, const Seat& seat) {
  const std::string device = deviceOf(id);
  if (seat.cards.empty()) cluster_.giveBackOfNode(nodes_[seat.node], device);
  for (const std::size_t card : seat.cards) cluster_.giveBack(cards_[seat.node][card], device);
}

}  // namespace egpu::bench::openb
