#include "controller/scheduler/cluster.h"

#include <algorithm>

#include "controller/scheduler/choice/fit.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

Cluster::Cluster() : state_(std::make_unique<State>()) {}
Cluster::~Cluster() = default;
Cluster::Cluster(const Cluster& other) : state_(std::make_unique<State>(*other.state_)) {}
Cluster& Cluster::operator=(const Cluster& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
// A moved-from cluster is empty: state_ is never null.
Cluster::Cluster(Cluster&& other) noexcept : state_(std::make_unique<State>()) { state_.swap(other.state_); }
Cluster& Cluster::operator=(Cluster&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}

void Cluster::upsertNode(const NodeInfo& node) { state_->upsertNode(node); }

void Cluster::removeNode(std::string_view name) {
  if (const NodeId id = state_->findNode(name); id != kNone) state_->removeNode(id);
}

void Cluster::upsertCard(const CardInfo& card) { state_->upsertCard(card); }

void Cluster::removeCard(std::string_view name) {
  if (const CardId id = state_->findCard(name); id != kNone) state_->removeCard(id);
}

void Cluster::noteMode(std::string_view card, std::string_view mode) {
  if (const CardId id = state_->findCard(card); id != kNone) setMode(*state_, id, mode);
}

std::string Cluster::isolationOn(std::string_view card, std::string_view parameter) const {
  const CardId id = state_->findCard(card);
  return id == kNone ? std::string() : resolvedIsolation(state_->cards[id], parameter);
}

bool Cluster::take(CardRef card, std::string_view deviceUid, Amount charged, NodeAmount ofNode,
                   std::optional<std::string_view> isolation) {
  const CardId id = state_->findCard(card.name, card.hint);
  if (id == kNone) return false;
  if (isolation && state_->cards[id].empty()) setMode(*state_, id, *isolation);
  state_->take(id, deviceUid, charged, ofNode);
  return true;
}

bool Cluster::take(const Placement& placement, std::string_view deviceUid, NodeAmount ofNode) {
  return take(placement.ref(), deviceUid, placement.charged, ofNode, placement.isolation);
}

void Cluster::giveBack(CardRef card, std::string_view deviceUid) {
  const CardId id = state_->findCard(card.name, card.hint);
  if (id != kNone) state_->giveBack(id, deviceUid);
}

bool Cluster::takeOfNode(std::string_view node, std::string_view uid, NodeAmount amount) {
  const NodeId id = state_->findNode(node);
  if (id == kNone || !state_->nodes[id].hasObject) return false;
  state_->takeOfNode(id, uid, amount);
  return true;
}

void Cluster::giveBackOfNode(std::string_view node, std::string_view uid) {
  if (const NodeId id = state_->findNode(node); id != kNone) state_->giveBackOfNode(id, uid);
}

void Cluster::observe(const Request& request) { state_->outlook.observe(*state_, request); }

Learned Cluster::learned() const {
  Learned learned = state_->outlook.demand().learned();
  learned.priced = state_->outlook.prices() != nullptr;
  for (const CardType& type : state_->types) {
    v1alpha::Card& card = learned.types.emplace_back();
    card.model = type.model;
    card.core = type.core;
    card.memory = type.memory;
    card.milliTflops = type.milliTflops;
  }
  return learned;
}

void Cluster::learn(const Learned& learned) {
  for (const v1alpha::Card& type : learned.types) state_->findOrAddType(type);
  state_->outlook.learn(learned);
}

void Cluster::reprice() { state_->outlook.reprice(*state_); }

std::size_t Cluster::nodeCount() const { return state_->nodesByName().size(); }
std::size_t Cluster::gpuNodeCount() const { return state_->gpuNodeCount(); }
std::size_t Cluster::cardCount() const { return state_->cardCount(); }

CardView Cluster::findCard(std::string_view name) const {
  const State& s = *state_;
  const CardId id = s.findCard(name);
  if (id == kNone) return {};
  const CardRecord& card = s.cards[id];
  CardView view;
  view.known = true;
  view.name = s.cardName(id);
  view.uuid = s.cardUuid(id);
  if (card.node != kNone) view.node = s.nodes[card.node].name;
  view.index = s.cardIndex(id);
  view.model = s.types[card.type].model;
  view.milliTflops = s.types[card.type].milliTflops;
  view.healthy = card.healthy != 0;
  view.capacity = s.capacityOf(id);
  view.used = s.usedOf(id);
  view.claims = card.claims();
  view.isolation = modeNameOf(s, id);
  if (const auto& profiles = s.types[card.type].mig; !profiles.empty()) view.mig = &profiles;
  return view;
}

std::optional<v1alpha::Card> Cluster::describe(std::string_view name) const {
  const CardId id = state_->findCard(name);
  if (id == kNone) return std::nullopt;
  return state_->cardOf(id);
}

std::vector<HolderAllocation> Cluster::allocationsOn(std::string_view card) const {
  std::vector<HolderAllocation> allocations;
  const CardId id = state_->findCard(card);
  if (id == kNone) return allocations;
  state_->eachTake(id, [&allocations](std::string_view uid, const Amount& charged, const NodeAmount& ofNode) {
    allocations.push_back({std::string(uid), charged, ofNode});
  });
  std::sort(allocations.begin(), allocations.end(),
            [](const HolderAllocation& a, const HolderAllocation& b) { return a.uid < b.uid; });
  return allocations;
}

std::vector<std::string> Cluster::cardsOf(std::string_view node) const {
  std::vector<std::string> names;
  const NodeId id = state_->findNode(node);
  if (id == kNone) return names;
  for (CardId c : state_->nodes[id].cards) names.emplace_back(state_->cardName(c));
  return names;
}

std::vector<std::string> Cluster::nodes() const {
  std::vector<std::string> names;
  names.reserve(nodeCount());
  for (const auto& [name, id] : state_->nodesByName()) names.emplace_back(name);
  return names;
}

std::vector<std::string> Cluster::cardsOfNoNode() const {
  std::vector<std::string> names;
  const State& s = *state_;
  for (CardId id = 0; id < s.facts.size(); ++id)
    if (s.facts[id] != nullptr && s.cards[id].node == kNone) names.emplace_back(s.cardName(id));
  return names;
}

std::optional<NodeInfo> Cluster::describeNode(std::string_view name) const {
  const NodeId id = state_->findNode(name);
  if (id == kNone || !state_->nodes[id].hasObject) return std::nullopt;
  const NodeRecord& node = state_->nodes[id];
  return NodeInfo{std::string(name), node.schedulable, node.capacity.cpuMilli, node.capacity.memory};
}

bool Cluster::nodeSchedulable(std::string_view name) const {
  const NodeId id = state_->findNode(name);
  return id != kNone && state_->nodes[id].offered();
}

NodeAmount Cluster::nodeUsed(std::string_view name) const {
  const NodeId id = state_->findNode(name);
  return id == kNone ? NodeAmount{} : state_->nodes[id].used;
}

}  // namespace egpu::scheduler
