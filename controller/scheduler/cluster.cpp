#include "controller/scheduler/cluster.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <tuple>

#include "controller/scheduler/fill.h"
#include "controller/scheduler/load_score.h"
#include "controller/scheduler/state.h"

namespace egpu::scheduler {

Cluster::Cluster() : state_(std::make_unique<State>()) {}
Cluster::~Cluster() = default;
Cluster::Cluster(const Cluster& other) : state_(std::make_unique<State>(*other.state_)) {}
Cluster& Cluster::operator=(const Cluster& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
// A moved-from cluster is an empty one: state_ is never null.
Cluster::Cluster(Cluster&& other) noexcept : state_(std::make_unique<State>()) { state_.swap(other.state_); }
Cluster& Cluster::operator=(Cluster&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}

CardId Cluster::State::findCard(std::string_view name) const {
  auto it = cardIds.find(name);
  return it == cardIds.end() ? kNone : it->second;
}

NodeId Cluster::State::findNode(std::string_view name) const {
  auto it = nodeIds.find(name);
  return it == nodeIds.end() ? kNone : it->second;
}

NodeId Cluster::State::obtainNode(std::string_view name) {
  if (NodeId known = findNode(name); known != kNone) return known;
  NodeId id;
  if (freeNodes.empty()) {
    id = static_cast<NodeId>(nodes.size());
    nodes.emplace_back();
  } else {
    id = freeNodes.back();
    freeNodes.pop_back();
  }
  nodes[id].name = std::string(name);
  nodes[id].live = true;
  index.name(id, nodeIds, nodeIds.emplace(name, id).first);
  return id;
}

TypeId Cluster::State::obtainType(const v1alpha::Card& card) {
  CardType type{card.model, card.core, card.memory, card.tflops};
  auto [it, isNew] = typeIds.try_emplace(type, static_cast<TypeId>(types.size()));
  if (isNew) types.push_back(std::move(type));
  return it->second;
}

void Cluster::State::dropIfUnused(NodeId id) {
  NodeRecord& node = nodes[id];
  if (node.hasObject || !node.cards.empty()) return;
  index.remove(id);
  nodeIds.erase(node.name);
  node = NodeRecord{};
  freeNodes.push_back(id);
}

bool Cluster::State::deviceOnNode(const NodeRecord& node, std::size_t hash, std::string_view device) const {
  if (std::find(node.takers.begin(), node.takers.end(), hash) == node.takers.end()) return false;
  for (CardId c : node.cards)
    for (const Take& take : cards[c].takes)
      if (take.by(hash, device)) return true;
  return false;
}

void Cluster::State::recount(NodeRecord& node) const {
  node.takers.clear();
  node.used = {};
  for (CardId c : node.cards) {
    for (const Take& take : cards[c].takes) {
      node.takers.push_back(take.hash);
      node.use(take.ofNode);
    }
  }
  for (const NodeTake& take : node.takes) node.use(take.amount);
  node.claims = countClaims(node);
}

int64_t Cluster::State::countClaims(const NodeRecord& node) const {
  std::set<std::string_view> devices;
  for (CardId c : node.cards)
    for (const Take& take : cards[c].takes) devices.insert(take.device);
  return static_cast<int64_t>(devices.size());
}

void Cluster::State::detach(CardId id) {
  NodeId from = cards[id].node;
  if (from == kNone) return;
  NodeRecord& node = nodes[from];
  std::erase(node.cards, id);
  recount(node);
  rewire(node);
  cards[id].node = kNone;
  refresh(from);
  dropIfUnused(from);
}

void Cluster::State::attach(CardId id, NodeId to) {
  NodeRecord& node = nodes[to];
  auto order = [this](CardId c) {
    const CardFacts& f = *cards[c].facts;
    return std::tuple(f.card.index, std::string_view(f.card.uuid), std::string_view(f.name));
  };
  auto at = std::lower_bound(node.cards.begin(), node.cards.end(), id,
                             [&](CardId a, CardId b) { return order(a) < order(b); });
  node.cards.insert(at, id);
  recount(node);
  rewire(node);
  cards[id].node = to;
  refresh(to);
}

int64_t Cluster::State::fillOfNode(NodeId id) const {
  Amount used, capacity;
  for (CardId c : nodes[id].cards) {
    const CardRecord& card = cards[c];
    if (!card.healthy) continue;
    used.core += card.used.core;
    used.memory += card.used.memory;
    capacity.core += card.capacity.core;
    capacity.memory += card.capacity.memory;
  }
  return fillOf(used, capacity);
}

Summary Cluster::State::summarise(NodeId id, Scale scale) const {
  constexpr int64_t kMax = Summary::kMax;
  constexpr std::size_t kRanks = 16;
  Summary s;
  int16_t coreRanks[kRanks], memoryRanks[kRanks];
  std::size_t count = 0;
  int64_t empty = 0, fewest = kMax, usedScore = 0, availableScore = 0, freeCore = 0;
  // Keeps the highest values, descending.
  auto rank = [&count](int16_t* ranks, int16_t value) {
    std::size_t at = count;
    if (at == kRanks) {
      if (ranks[kRanks - 1] >= value) return;
      --at;
    }
    for (; at > 0 && ranks[at - 1] < value; --at) ranks[at] = ranks[at - 1];
    ranks[at] = value;
  };
  int16_t* memoryAt = &s.at[Summary::kMemoryAt];
  int16_t* coreAt = &s.at[Summary::kCoreAt];
  for (CardId c : nodes[id].cards) {
    const CardRecord& card = cards[c];
    if (!card.healthy) continue;
    const Amount free = card.free();
    const auto core = static_cast<int16_t>(std::clamp<int64_t>(free.core, -1, kMax));
    const auto memory = static_cast<int16_t>(free.memory < 0 ? -1 : std::min(free.memory >> scale.shift, kMax));
    if (core >= 0) {
      const std::size_t step = std::min(static_cast<std::size_t>(core / Summary::kCoreStep), Summary::kCoreSteps - 1);
      memoryAt[step] = std::max(memoryAt[step], memory);
    }
    if (memory >= 0) {
      const std::size_t step = std::min(static_cast<std::size_t>(memory >> scale.step), Summary::kMemorySteps - 1);
      coreAt[step] = std::max(coreAt[step], core);
    }
    rank(coreRanks, core);
    rank(memoryRanks, memory);
    count = std::min(count + 1, kRanks);
    const LoadScore load = loadScoreOf(card.used, card.capacity);
    usedScore += load.used;
    availableScore += load.available;
    freeCore += std::max<int64_t>(free.core, 0);
    if (card.empty()) ++empty;
    fewest = std::min(fewest, static_cast<int64_t>(card.takes.size()));
  }
  for (std::size_t i = Summary::kCoreSteps - 1; i-- > 0;) memoryAt[i] = std::max(memoryAt[i], memoryAt[i + 1]);
  for (std::size_t i = Summary::kMemorySteps - 1; i-- > 0;) coreAt[i] = std::max(coreAt[i], coreAt[i + 1]);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t n = std::size_t{2} << i;
    if (n > count) break;
    s.at[Summary::kCoreRanks + i] = coreRanks[n - 1];
    s.at[Summary::kMemoryRanks + i] = memoryRanks[n - 1];
  }
  s.at[Summary::kEmpty] = static_cast<int16_t>(std::min(empty, kMax));
  s.at[Summary::kNodeClaims] = static_cast<int16_t>(kMax - std::min(nodes[id].claims, kMax));
  s.at[Summary::kCardClaims] = static_cast<int16_t>(kMax - fewest);
  s.at[Summary::kUsedScore] = static_cast<int16_t>(std::min(usedScore, kMax));
  s.at[Summary::kAvailableScore] = static_cast<int16_t>(std::min(availableScore, kMax));
  s.at[Summary::kFreeCore] = static_cast<int16_t>(std::min(freeCore, kMax));
  const NodeAmount left = nodes[id].free();
  auto units = [kMax](int64_t n, int64_t unit) { return static_cast<int16_t>(n < 0 ? -1 : std::min(n / unit, kMax)); };
  s.at[Summary::kNodeCpu] = units(left.cpuMilli, Summary::kCpuUnit);
  s.at[Summary::kNodeMemory] = units(left.memory, Summary::kNodeMemoryUnit);
  return s;
}

void Cluster::State::refresh(NodeId id) {
  outlook.changed(id);
  const NodeRecord& node = nodes[id];
  if (!node.offered()) {
    index.remove(id);
    return;
  }
  std::vector<TypeId> present;  // may stay empty: such a node can hold what takes no card
  int64_t largest = 0;
  for (CardId c : node.cards) {
    if (!cards[c].healthy) continue;
    present.push_back(cards[c].type);
    largest = std::max(largest, cards[c].capacity.memory);
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  const NodeIndex::ShapeId shape = index.shapeFor(present, largest);
  index.put(id, shape, fillOfNode(id), summarise(id, index.shapes()[shape].scale));
}

void Cluster::State::touch(NodeId id) {
  outlook.changed(id);
  if (!index.holds(id)) return;
  const NodeIndex::ShapeId shape = index.shapeOf(id);
  index.put(id, shape, fillOfNode(id), summarise(id, index.shapes()[shape].scale));
}

std::string Cluster::State::check() const {
  std::size_t onNodes = 0;
  for (const auto& [name, id] : nodeIds) {
    const NodeRecord& node = nodes[id];
    if (!node.live || node.name != name) return "node " + name + " is lost";
    if (node.claims != countClaims(node)) return "claims of node " + name;
    NodeRecord anew;
    anew.cards = node.cards;
    anew.takes = node.takes;
    recount(anew);
    if (anew.used != node.used) return "used of node " + name;
    if (!std::is_permutation(anew.takers.begin(), anew.takers.end(), node.takers.begin(), node.takers.end()))
      return "takers of node " + name;
    for (CardId c : node.cards)
      if (cards[c].node != id) return "a card of node " + name + " is elsewhere";
    onNodes += node.cards.size();
    if (index.holds(id) != node.offered()) return "node " + name + " in the index";
    if (!index.holds(id)) continue;
    const NodeIndex::Shape& shape = index.shapes()[index.shapeOf(id)];
    for (CardId c : node.cards)
      if (cards[c].healthy && !std::binary_search(shape.types.begin(), shape.types.end(), cards[c].type))
        return "shape of node " + name;
    if (index.keyOf(id).fill != fillOfNode(id)) return "fill of node " + name;
    if (!(index.summaryOf(id) == summarise(id, shape.scale))) return "summary of node " + name;
  }
  for (auto it = nodeIds.begin(); it != nodeIds.end() && std::next(it) != nodeIds.end(); ++it)
    if (index.keyOf(it->second).label >= index.keyOf(std::next(it)->second).label) return "order of node " + it->first;
  if (std::string fault = index.check(); !fault.empty()) return fault;
  for (const auto& [name, id] : cardIds) {
    const CardRecord& card = cards[id];
    if (!card.facts || card.facts->name != name) return "card " + std::string(name) + " is lost";
    Amount sum;
    for (const Take& take : card.takes) {
      sum.core += take.charged.core;
      sum.memory += take.charged.memory;
    }
    if (sum != card.used) return "used of card " + std::string(name);
    if (card.capacity != Amount{card.facts->card.core, card.facts->card.memory})
      return "capacity of card " + std::string(name);
    if (card.node == kNone && !card.facts->card.nodeName.empty()) return "card " + std::string(name) + " is on no node";
    if (card.node == kNone) ++onNodes;
  }
  return onNodes == cardIds.size() ? "" : "a node holds a card that is gone";
}

void Cluster::upsertNode(const NodeInfo& info) {
  State& s = *state_;
  NodeId id = s.obtainNode(info.name);
  s.nodes[id].hasObject = true;
  s.nodes[id].schedulable = info.schedulable;
  s.nodes[id].capacity = {info.cpuMilli, info.memory};
  s.refresh(id);
}

void Cluster::removeNode(std::string_view name) {
  State& s = *state_;
  NodeId id = s.findNode(name);
  if (id == kNone) return;
  NodeRecord& node = s.nodes[id];
  node.hasObject = false;
  node.schedulable = false;
  node.capacity = {};
  node.takes.clear();
  s.recount(node);
  s.refresh(id);
  s.dropIfUnused(id);
}

void Cluster::upsertCard(const CardInfo& info) {
  State& s = *state_;
  CardId id = s.findCard(info.name);
  if (id != kNone && s.cards[id].facts->card == info.card) {
    if (s.cards[id].healthy == info.healthy) return;
    s.cards[id].healthy = info.healthy;
    if (s.cards[id].node != kNone) s.refresh(s.cards[id].node);
    return;
  }
  auto facts = std::make_shared<const CardFacts>(CardFacts{info.name, info.card});
  if (id == kNone) {
    if (s.freeCards.empty()) {
      id = static_cast<CardId>(s.cards.size());
      s.cards.emplace_back();
    } else {
      id = s.freeCards.back();
      s.freeCards.pop_back();
    }
  } else {
    s.detach(id);
    s.cardIds.erase(info.name);  // its key points into the facts that go now
  }
  CardRecord& card = s.cards[id];
  card.facts = std::move(facts);
  card.capacity = {info.card.core, info.card.memory};
  card.type = s.obtainType(info.card);
  card.healthy = info.healthy;
  s.cardIds.emplace(card.facts->name, id);
  // A card that does not say where it is can be looked up and charged, but is never offered.
  if (!info.card.nodeName.empty()) s.attach(id, s.obtainNode(info.card.nodeName));
}

void Cluster::removeCard(std::string_view name) {
  State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return;
  s.detach(id);
  s.cardIds.erase(s.cardIds.find(name));
  s.cards[id] = CardRecord{};
  s.freeCards.push_back(id);
}

bool Cluster::take(std::string_view name, std::string_view device, Amount charged, NodeAmount ofNode) {
  State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return false;
  CardRecord& card = s.cards[id];
  const std::size_t hash = std::hash<std::string_view>()(device);
  auto it = std::find_if(card.takes.begin(), card.takes.end(), [&](const Take& t) { return t.by(hash, device); });
  if (it != card.takes.end()) {
    if (it->charged == charged && it->ofNode == ofNode) return true;
    card.used.core -= it->charged.core;
    card.used.memory -= it->charged.memory;
    if (card.node != kNone) s.nodes[card.node].use(it->ofNode, -1);
    it->charged = charged;
    it->ofNode = ofNode;
  } else {
    if (card.node != kNone) {
      NodeRecord& node = s.nodes[card.node];
      if (!s.deviceOnNode(node, hash, device)) ++node.claims;
      node.takers.push_back(hash);
    }
    card.takes.push_back({hash, std::string(device), charged, ofNode});
  }
  if (card.node != kNone) s.nodes[card.node].use(ofNode);
  card.used.core += charged.core;
  card.used.memory += charged.memory;
  if (card.node != kNone) s.touch(card.node);
  return true;
}

void Cluster::giveBack(std::string_view name, std::string_view device) {
  State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return;
  CardRecord& card = s.cards[id];
  const std::size_t hash = std::hash<std::string_view>()(device);
  auto it = std::find_if(card.takes.begin(), card.takes.end(), [&](const Take& t) { return t.by(hash, device); });
  if (it == card.takes.end()) return;
  card.used.core -= it->charged.core;
  card.used.memory -= it->charged.memory;
  if (card.node != kNone) s.nodes[card.node].use(it->ofNode, -1);
  if (it != card.takes.end() - 1) *it = std::move(card.takes.back());
  card.takes.pop_back();
  if (card.node == kNone) return;
  NodeRecord& node = s.nodes[card.node];
  auto taker = std::find(node.takers.begin(), node.takers.end(), hash);
  *taker = node.takers.back();
  node.takers.pop_back();
  if (!s.deviceOnNode(node, hash, device)) --node.claims;
  s.touch(card.node);
}

bool Cluster::takeOfNode(std::string_view name, std::string_view uid, NodeAmount amount) {
  State& s = *state_;
  NodeId id = s.findNode(name);
  if (id == kNone || !s.nodes[id].hasObject) return false;
  NodeRecord& node = s.nodes[id];
  auto it = std::find_if(node.takes.begin(), node.takes.end(), [&](const NodeTake& t) { return t.uid == uid; });
  if (it == node.takes.end()) {
    node.takes.push_back({std::string(uid), amount});
  } else {
    node.use(it->amount, -1);
    it->amount = amount;
  }
  node.use(amount);
  s.touch(id);
  return true;
}

void Cluster::giveBackOfNode(std::string_view name, std::string_view uid) {
  State& s = *state_;
  NodeId id = s.findNode(name);
  if (id == kNone) return;
  NodeRecord& node = s.nodes[id];
  auto it = std::find_if(node.takes.begin(), node.takes.end(), [&](const NodeTake& t) { return t.uid == uid; });
  if (it == node.takes.end()) return;
  node.use(it->amount, -1);
  if (it != node.takes.end() - 1) *it = std::move(node.takes.back());
  node.takes.pop_back();
  s.touch(id);
}

void Cluster::observe(const Request& request) { state_->outlook.observe(*state_, request); }

std::size_t Cluster::nodeCount() const { return state_->nodeIds.size(); }
std::size_t Cluster::cardCount() const { return state_->cardIds.size(); }

CardView Cluster::findCard(std::string_view name) const {
  const State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return {};
  const CardRecord& card = s.cards[id];
  CardView view;
  view.name = card.facts->name;
  view.node = card.facts->card.nodeName;
  view.card = &card.facts->card;
  view.healthy = card.healthy;
  view.capacity = card.capacity;
  view.used = card.used;
  view.claims = static_cast<int64_t>(card.takes.size());
  return view;
}

std::vector<std::string> Cluster::cardsOf(std::string_view name) const {
  std::vector<std::string> names;
  NodeId id = state_->findNode(name);
  if (id == kNone) return names;
  for (CardId c : state_->nodes[id].cards) names.push_back(state_->cards[c].facts->name);
  return names;
}

std::vector<std::string> Cluster::nodes() const {
  std::vector<std::string> names;
  names.reserve(state_->nodeIds.size());
  for (const auto& [name, id] : state_->nodeIds) names.push_back(name);
  return names;
}

bool Cluster::nodeSchedulable(std::string_view name) const {
  NodeId id = state_->findNode(name);
  return id != kNone && state_->nodes[id].offered();
}

NodeAmount Cluster::nodeUsed(std::string_view name) const {
  NodeId id = state_->findNode(name);
  return id == kNone ? NodeAmount{} : state_->nodes[id].used;
}

}  // namespace egpu::scheduler
