#include "controller/scheduler/cluster.h"

#include <algorithm>
#include <set>
#include <tuple>

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
  nodeIds.emplace(name, id);
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
  nodeIds.erase(node.name);
  node = NodeRecord{};
  freeNodes.push_back(id);
}

bool Cluster::State::deviceOnNode(const NodeRecord& node, std::string_view device) const {
  for (CardId c : node.cards)
    for (const Take& take : cards[c].takes)
      if (take.device == device) return true;
  return false;
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
  node.claims = countClaims(node);
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
  node.claims = countClaims(node);
  cards[id].node = to;
  refresh(to);
}

void Cluster::State::refresh(NodeId) {}

void Cluster::upsertNode(const NodeInfo& info) {
  State& s = *state_;
  NodeId id = s.obtainNode(info.name);
  s.nodes[id].hasObject = true;
  s.nodes[id].schedulable = info.schedulable;
  s.refresh(id);
}

void Cluster::removeNode(std::string_view name) {
  State& s = *state_;
  NodeId id = s.findNode(name);
  if (id == kNone) return;
  s.nodes[id].hasObject = false;
  s.nodes[id].schedulable = false;
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

bool Cluster::take(std::string_view name, std::string_view device, Amount charged) {
  State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return false;
  CardRecord& card = s.cards[id];
  auto it = std::find_if(card.takes.begin(), card.takes.end(), [&](const Take& t) { return t.device == device; });
  if (it != card.takes.end()) {
    if (it->charged == charged) return true;
    card.used.core -= it->charged.core;
    card.used.memory -= it->charged.memory;
    it->charged = charged;
  } else {
    if (card.node != kNone && !s.deviceOnNode(s.nodes[card.node], device)) ++s.nodes[card.node].claims;
    card.takes.push_back({std::string(device), charged});
  }
  card.used.core += charged.core;
  card.used.memory += charged.memory;
  if (card.node != kNone) s.refresh(card.node);
  return true;
}

void Cluster::giveBack(std::string_view name, std::string_view device) {
  State& s = *state_;
  CardId id = s.findCard(name);
  if (id == kNone) return;
  CardRecord& card = s.cards[id];
  auto it = std::find_if(card.takes.begin(), card.takes.end(), [&](const Take& t) { return t.device == device; });
  if (it == card.takes.end()) return;
  card.used.core -= it->charged.core;
  card.used.memory -= it->charged.memory;
  if (it != card.takes.end() - 1) *it = std::move(card.takes.back());
  card.takes.pop_back();
  if (card.node == kNone) return;
  NodeRecord& node = s.nodes[card.node];
  if (!s.deviceOnNode(node, device)) --node.claims;
  s.refresh(card.node);
}

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

}  // namespace egpu::scheduler
