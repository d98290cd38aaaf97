#include "tests/scheduler/world.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/scheduler/plain_choice.h"

namespace egpu::scheduler::testing {
namespace {

int64_t ceilDivide(__int128 a, __int128 b) { return static_cast<int64_t>((a + b - 1) / b); }

int64_t millionths(int64_t used, int64_t capacity) {
  if (used >= capacity) return 1'000'000;
  if (used <= 0) return 0;
  return static_cast<int64_t>(static_cast<__int128>(used) * 1'000'000 / capacity);
}

bool suitable(const v1alpha::Card& card, const Request& r) {
  if (!r.models.empty() && std::count(r.models.begin(), r.models.end(), card.model) == 0) return false;
  return card.memory >= r.minMemory;
}

/// Computes the granted and charged amounts on one card. Returns false if the card can't hold the request even when
/// empty.
bool amounts(const v1alpha::Card& card, const Request& r, Amount& granted, Amount& charged) {
  if (!suitable(card, r)) return false;
  if (r.wholeCards) {
    granted = charged = {card.core, card.memory};
    return true;
  }
  granted = r.perCard;
  if (r.milliTflopsPerCard > 0) {
    if (card.milliTflops == 0) return false;
    granted.core = ceilDivide(static_cast<__int128>(r.milliTflopsPerCard) * card.core, card.milliTflops);
  }
  if (r.memoryFromCore) {
    const __int128 exact = static_cast<__int128>(card.memory) * granted.core / card.core;
    granted.memory = granted.core == card.core ? card.memory : static_cast<int64_t>(exact / kMi) * kMi;
  }
  if (granted.core > card.core || granted.memory > card.memory) return false;
  charged = {ceilDivide(static_cast<__int128>(granted.core) * 1000, r.coreOvercommit),
             ceilDivide(static_cast<__int128>(granted.memory) * 1000, r.memoryOvercommit)};
  return true;
}

bool isAvailable(const v1alpha::Card& card, std::string_view attribute) {
  const auto found = card.attributes.find(attribute);
  return found != card.attributes.end() && found->second == "available";
}

/// Returns the isolation mode that the request has on the card; empty = none.
std::string modeOn(const PlainCard& plain, const Request& r) {
  const auto& card = plain.info.card;
  if (r.wholeCards || r.isolation == "none") return {};
  if (r.isolation != "auto") return r.isolation;
  const bool limited = isAvailable(card, "limiter");
  if (limited && !plain.allocations.empty() && plain.isolation == "limiter") return "limiter";
  return isAvailable(card, "memoryLimits") ? "driver" : limited ? "limiter" : "";
}

bool canTakeMode(const PlainCard& plain, const Request& r) {
  if (r.wholeCards) return true;
  const std::string mode = modeOn(plain, r);
  const auto compute = plain.info.card.attributes.find(std::string_view("computeMode"));
  if (compute != plain.info.card.attributes.end() && compute->second == "exclusiveProcess" && mode != "mps")
    return false;
  if (mode == "driver" && !isAvailable(plain.info.card, "memoryLimits")) return false;
  if (mode == "limiter" && plain.info.card.attributes.count("limiter") > 0 && !isAvailable(plain.info.card, "limiter"))
    return false;
  return plain.allocations.empty() || plain.isolation == mode;
}

}  // namespace

CardInfo makeCard(const std::string& name, const std::string& node, int64_t index, int64_t memory,
                  const std::string& model) {
  CardInfo info;
  info.name = name;
  info.card.uuid = "GPU-" + name;
  info.card.nodeName = node;
  info.card.index = index;
  info.card.model = model;
  info.card.memory = memory;
  return info;
}

Amount PlainCard::used() const {
  Amount sum;
  for (const auto& [device, amount] : allocations) {
    sum.core += amount.core;
    sum.memory += amount.memory;
  }
  return sum;
}

bool World::take(const std::string& card, const std::string& device, Amount charged, NodeAmount ofNode,
                 const std::string& isolation) {
  auto it = cards.find(card);
  if (it == cards.end()) return false;
  if (it->second.allocations.empty()) it->second.isolation = isolation;
  it->second.allocations[device] = charged;
  it->second.ofNode[device] = ofNode;
  return true;
}

void World::giveBack(const std::string& card, const std::string& device) {
  auto it = cards.find(card);
  if (it == cards.end()) return;
  it->second.allocations.erase(device);
  it->second.ofNode.erase(device);
}

bool World::takeOfNode(const std::string& node, const std::string& uid, NodeAmount amount) {
  auto it = nodes.find(node);
  if (it == nodes.end()) return false;
  it->second.allocations[uid] = amount;
  return true;
}

void World::giveBackOfNode(const std::string& node, const std::string& uid) {
  if (auto it = nodes.find(node); it != nodes.end()) it->second.allocations.erase(uid);
}

std::map<std::string, NodeAmount> World::nodesUsed() const {
  std::map<std::string, NodeAmount> used;
  auto add = [](NodeAmount& sum, const std::map<std::string, NodeAmount>& takes) {
    for (const auto& [uid, amount] : takes) sum = {sum.cpuMilli + amount.cpuMilli, sum.memory + amount.memory};
  };
  for (const auto& [name, plain] : nodes) add(used[name], plain.allocations);
  for (const auto& [card, plain] : cards) add(used[plain.info.card.nodeName], plain.ofNode);
  return used;
}

Decision World::decide(const Request& r, const NodePredicate& suits) const {
  Decision best;
  std::pair<int64_t, int64_t> bestScore;
  const auto isPinned = [&](const std::string& card) {
    return std::count(r.pinnedCards.begin(), r.pinnedCards.end(), card) > 0;
  };
  const auto pins = static_cast<int64_t>(r.pinnedCards.size());
  if (pins > r.cards) return best;
  std::map<std::string, std::vector<std::map<std::string, PlainCard>::const_iterator>> cardsOf;
  for (auto it = cards.begin(); it != cards.end(); ++it) cardsOf[it->second.info.card.nodeName].push_back(it);
  std::map<std::string, NodeAmount> usedOfNodes;
  if (r.cpuMilli > 0 || r.podMemory > 0) usedOfNodes = nodesUsed();
  for (const auto& [name, plainNode] : nodes) {
    const NodeInfo& info = plainNode.info;
    if (!info.schedulable || (suits && !suits(name)) || (!r.pinnedNode.empty() && r.pinnedNode != name)) continue;
    const NodeAmount taken = usedOfNodes[name];
    if (r.cpuMilli > 0 && info.cpuMilli > 0 && taken.cpuMilli + r.cpuMilli > info.cpuMilli) continue;
    if (r.podMemory > 0 && info.memory > 0 && taken.memory + r.podMemory > info.memory) continue;
    std::set<std::string> claims;
    std::vector<v1alpha::Card> all;
    std::vector<PlainCandidate> candidates;
    Amount nodeUsed, nodeCapacity;
    int64_t load = 0, healthy = 0;  // Σ of the cards' load scores; their number
    for (const auto& it : cardsOf[name]) {
      const std::string& cardName = it->first;
      const PlainCard& plain = it->second;
      const v1alpha::Card& card = plain.info.card;
      for (const auto& [device, amount] : plain.allocations) claims.insert(device);
      all.push_back(card);
      if (!plain.info.healthy) continue;
      const Amount used = plain.used();
      nodeUsed = {nodeUsed.core + used.core, nodeUsed.memory + used.memory};
      nodeCapacity = {nodeCapacity.core + card.core, nodeCapacity.memory + card.memory};
      ++healthy;
      load += plainLoad(card, used, r.memoryWeight, r.nodePolicy == "low-load-first");
      Amount granted, charged;
      const bool divided = r.split != Split::none && !r.wholeCards;
      if (!(divided ? suitable(card, r) : amounts(card, r, granted, charged))) continue;
      if (pins == r.cards && !isPinned(cardName)) continue;
      if (!canTakeMode(plain, r)) continue;
      if (r.maxClaimsPerCard > 0 && static_cast<int64_t>(plain.allocations.size()) >= r.maxClaimsPerCard) continue;
      if (r.wholeCards && !plain.allocations.empty()) continue;
      if (!r.wholeCards && !divided &&
          (used.core + charged.core > card.core || used.memory + charged.memory > card.memory))
        continue;
      const int64_t fill = millionths(used.core, card.core) + millionths(used.memory, card.memory);
      candidates.push_back({cardName, card, used, fill, granted, charged});
    }
    if (r.maxClaimsPerNode > 0 && static_cast<int64_t>(claims.size()) >= r.maxClaimsPerNode) continue;
    if (std::count_if(candidates.begin(), candidates.end(), [&](const auto& each) { return isPinned(each.name); }) !=
        pins)
      continue;
    const auto inOrder = [](const v1alpha::Card& a, const v1alpha::Card& b) {
      return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid);
    };
    std::sort(all.begin(), all.end(), inOrder);
    std::sort(candidates.begin(), candidates.end(),
              [&](const PlainCandidate& a, const PlainCandidate& b) { return inOrder(a.card, b.card); });
    std::optional<std::vector<Placement>> placements = std::vector<Placement>();
    if (r.cards > 0) placements = plainChoice(r, all, candidates);
    if (!placements) continue;
    for (Placement& each : *placements) each.isolation = modeOn(cards.at(each.card), r);
    const int64_t fill =
        millionths(nodeUsed.core, nodeCapacity.core) + millionths(nodeUsed.memory, nodeCapacity.memory);
    const bool byLoad = r.nodePolicy == "compact-first" || r.nodePolicy == "low-load-first";
    const bool fullestFirst = r.nodePolicy == "binpack" || r.nodePolicy == "compact-first";
    const int64_t meanLoad = healthy > 0 ? (load * 100 + healthy / 2) / healthy : 0;  // in hundredths
    const std::pair score(byLoad ? meanLoad : 0, fullestFirst ? fill : -fill);
    // Nodes are sorted by name: an equal score never beats an earlier name.
    if (best.fits && score <= bestScore) continue;
    bestScore = score;
    best = {true, name, *placements};
  }
  return best;
}

Cluster World::build() const {
  Cluster cluster;
  for (const auto& [name, plain] : nodes) {
    cluster.upsertNode(plain.info);
    for (const auto& [uid, amount] : plain.allocations) cluster.takeOfNode(name, uid, amount);
  }
  for (const auto& [name, plain] : cards) {
    cluster.upsertCard(plain.info);
    for (const auto& [device, amount] : plain.allocations)
      cluster.take(name, device, amount, plain.ofNode.at(device), plain.isolation);
  }
  return cluster;
}

int64_t pick(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

Request whole(int64_t cards) {
  Request request;
  request.cards = cards;
  request.wholeCards = true;
  return request;
}

void commit(Cluster& cluster, const Decision& decision, const std::string& device, NodeAmount ofNode) {
  for (const Placement& p : decision.placements) cluster.take(p, device, std::exchange(ofNode, {}));
}

}  // namespace egpu::scheduler::testing
