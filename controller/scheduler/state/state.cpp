#include "controller/scheduler/state/state.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "api/v1alpha/keys.h"

namespace egpu::scheduler {
namespace {

/// Normal form of all reasons why a card's node has no limiter.
constexpr std::string_view kLimiterMissing = "missing";

LimiterSupport limiterOf(const v1alpha::Card& card) {
  const auto given = card.attributes.find(v1alpha::keys::kLimiterAttribute);
  if (given == card.attributes.end()) return LimiterSupport::unknown;
  return given->second == v1alpha::keys::kLimiterAvailable ? LimiterSupport::available : LimiterSupport::missing;
}

bool hasMemoryLimits(const v1alpha::Card& card) {
  const auto given = card.attributes.find(v1alpha::keys::kMemoryLimitsAttribute);
  return given != card.attributes.end() && given->second == v1alpha::keys::kMemoryLimitsAvailable;
}

/// The compute mode of a card in MIG mode does not matter to its instances.
bool isExclusive(const v1alpha::Card& card) {
  const auto given = card.attributes.find(v1alpha::keys::kComputeModeAttribute);
  return card.mig.empty() && given != card.attributes.end() && given->second == v1alpha::keys::kExclusiveProcess;
}

/// Sets the attributes that decisions depend on.
void describeModes(v1alpha::Card& card, LimiterSupport support, bool memoryLimits, bool exclusive) {
  if (exclusive) card.attributes[std::string(v1alpha::keys::kComputeModeAttribute)] = v1alpha::keys::kExclusiveProcess;
  if (memoryLimits)
    card.attributes[std::string(v1alpha::keys::kMemoryLimitsAttribute)] = v1alpha::keys::kMemoryLimitsAvailable;
  if (support == LimiterSupport::unknown) return;
  card.attributes[std::string(v1alpha::keys::kLimiterAttribute)] =
      support == LimiterSupport::available ? v1alpha::keys::kLimiterAvailable : kLimiterMissing;
}

/// True if the state already has all these attributes of the card.
bool describes(const Cluster::State& state, CardId id, const v1alpha::Card& card) {
  const CardFacts& f = *state.facts[id];
  const CardType& type = state.types[state.cards[id].type];
  const NodeId node = state.cards[id].node;
  return f.uuid() == card.uuid && card.nodeName == (node == kNone ? std::string_view() : state.nodes[node].name) &&
         f.index() == card.index && f.smCount() == card.smCount && type.model == card.model && type.core == card.core &&
         type.memory == card.memory && type.milliTflops == card.milliTflops && type.mig == card.mig &&
         state.topologyOf(id) == card.topology;
}

/// Returns the slots of all allocations. Two of them can have the same slots for a moment: the assumption of a
/// decision, and its device.
v1alpha::Slots slotsOf(std::span<const CardAllocation> allocations) {
  v1alpha::Slots used;
  for (const CardAllocation& allocation : allocations) used = used.with(allocation.charged.slots);
  return used;
}

}  // namespace

v1alpha::Card withDecisiveAttributes(v1alpha::Card card) {
  const LimiterSupport support = limiterOf(card);
  const bool memoryLimits = hasMemoryLimits(card), exclusive = isExclusive(card);
  card.attributes.clear();
  describeModes(card, support, memoryLimits, exclusive);
  return card;
}

bool isCardBefore(const Cluster::State& state, CardId a, CardId b) {
  auto key = [&](CardId c) {
    const CardFacts& f = *state.facts[c];
    return std::tuple(f.index(), f.uuid(), f.name());
  };
  return key(a) < key(b);
}

const v1alpha::CardTopology& Cluster::State::topologyOf(CardId id) const {
  static const v1alpha::CardTopology kUnknown;
  const auto& topology = topologies_.of(facts[id]->topology());
  return topology ? *topology : kUnknown;
}

v1alpha::Card Cluster::State::cardOf(CardId id) const {
  const CardFacts& f = *facts[id];
  const CardType& type = types[cards[id].type];
  v1alpha::Card card;
  card.uuid = f.uuid();
  if (cards[id].node != kNone) card.nodeName = nodes[cards[id].node].name;
  card.index = f.index();
  card.model = type.model;
  card.smCount = f.smCount();
  card.milliTflops = type.milliTflops;
  card.core = type.core;
  card.memory = type.memory;
  card.mig = type.mig;
  card.topology = topologyOf(id);
  describeModes(card, static_cast<LimiterSupport>(cards[id].limiter), cards[id].memoryLimits != 0,
                cards[id].exclusive != 0);
  return card;
}

void setMode(Cluster::State& state, CardId id, std::string_view mode) {
  CardRecord& card = state.cards[id];
  card.mode = (mode.empty() ? kNoIsolation : state.modes.obtain(mode)) & 0x1fu;
  if (card.node != kNone) state.outlook.changed(card.node);
}

std::string_view modeNameOf(const Cluster::State& state, CardId id) {
  const CardRecord& card = state.cards[id];
  if (card.empty() || card.mode == kNoIsolation) return {};
  return state.modes.nameOf(static_cast<ModeId>(card.mode));
}

NodeId Cluster::State::obtainNode(std::string_view name) {
  if (const NodeId known = findNode(name); known != kNone) return known;
  NodeId id;
  if (freeNodes_.empty()) {
    id = static_cast<NodeId>(nodes.size());
    nodes.emplace_back();
  } else {
    id = freeNodes_.back();
    freeNodes_.pop_back();
  }
  nodes[id].name = text_.store(name);
  nodeIds_.insert(NameTable::hashOf(name), id);
  index.name(id, names_, names_.emplace(nodes[id].name, id).first);
  return id;
}

void Cluster::State::dropIfUnused(NodeId id) {
  NodeRecord& node = nodes[id];
  if (node.hasObject || !node.cards.empty()) return;
  index.remove(id);
  names_.erase(node.name);
  nodeIds_.erase(NameTable::hashOf(node.name), id);
  text_.drop(node.name.size());
  node = NodeRecord{};
  freeNodes_.push_back(id);
}

TypeId Cluster::State::findOrAddType(const v1alpha::Card& card) {
  CardType type{card.model, card.core, card.memory, card.milliTflops, card.mig};
  auto [it, isNew] = typeIds.try_emplace(type, static_cast<TypeId>(types.size()));
  if (isNew) types.push_back(std::move(type));
  return it->second;
}

void Cluster::State::writeFacts(CardId id, const CardInfo& info) {
  const v1alpha::Card& card = info.card;
  uint32_t topology = kNone;
  if (card.topology != v1alpha::CardTopology{})
    topologies_.set(topology, std::make_shared<const v1alpha::CardTopology>(card.topology));
  facts[id] = CardFacts::create(text_, info.name, card.uuid, card.index, card.smCount, topology);
}

void Cluster::State::dropFacts(CardId id) {
  const CardFacts& f = *facts[id];
  uint32_t topology = f.topology();
  topologies_.set(topology, nullptr);
  text_.drop(f.bytes());
  facts[id] = nullptr;
}

void Cluster::State::compactStrings() {
  if (!text_.wasteful()) return;
  Arena tidy;
  for (const CardFacts*& f : facts)
    if (f) f = f->copyTo(tidy);
  NodeIndex::Names names;
  for (const auto& [name, id] : names_) {
    nodes[id].name = tidy.store(name);
    names.emplace_hint(names.end(), nodes[id].name, id);
  }
  names_ = std::move(names);
  text_ = std::move(tidy);
}

CardId Cluster::State::obtainCard() {
  const CardId id = cardRanges_.obtain(0);
  if (cardRanges_.size() > cards.size()) {
    cards.resize(cardRanges_.size());
    facts.resize(cardRanges_.size());
  }
  return id;
}

void Cluster::State::releaseCard(CardId id) {
  cards[id] = CardRecord{};
  cardRanges_.release(id, 0);
}

void Cluster::State::moveCard(CardId from, CardId to) {
  cards[to] = std::exchange(cards[from], CardRecord{});
  facts[to] = std::exchange(facts[from], nullptr);
  cardIds_.renumber(NameTable::hashOf(facts[to]->name()), from, to);
}

CardId Cluster::State::attach(CardId id, NodeId to) {
  count(to, id, 1);
  Range& range = nodes[to].cards.range_;
  if (range.full()) {
    const CardId first = cardRanges_.obtain(range.capacity);
    if (cardRanges_.size() > cards.size()) {
      cards.resize(cardRanges_.size());
      facts.resize(cardRanges_.size());
    }
    for (uint32_t i = 0; i < range.count; ++i) moveCard(range.first + i, first + i);
    if (range.capacity > 0) cardRanges_.release(range.first, range.capacity - 1);
    range.first = first;
    ++range.capacity;
  }
  CardId at = range.first + range.count;
  for (; at > range.first && isCardBefore(*this, id, at - 1); --at) moveCard(at - 1, at);
  if (++range.count == 1) ++gpuNodes_;
  moveCard(id, at);
  cards[at].node = to;
  releaseCard(id);
  rewire(nodes[to]);
  refresh(to);
  return at;
}

CardId Cluster::State::detach(CardId id) {
  const NodeId from = cards[id].node;
  const CardId alone = obtainCard();
  moveCard(id, alone);
  cards[alone].node = kNone;
  Range& range = nodes[from].cards.range_;
  for (CardId next = id + 1; next < range.first + range.count; ++next) moveCard(next, next - 1);
  --range.count;
  if (range.count == 0) {
    --gpuNodes_;
    cardRanges_.release(range.first, range.capacity - 1);
    range = {};
  }
  count(from, alone, -1);
  rewire(nodes[from]);
  refresh(from);
  dropIfUnused(from);
  return alone;
}

bool Cluster::State::onNode(const NodeRecord& node, DeviceId device) const {
  if (holders_.cardAllocations(device) == 0) return false;
  for (CardId c : node.cards)
    for (const CardAllocation& allocation : allocations_.of(cards[c].allocations))
      if (allocation.device == device) return true;
  return false;
}

void Cluster::State::count(NodeId id, CardId card, int sign) {
  NodeRecord& node = nodes[id];
  for (const CardAllocation& allocation : allocations_.of(cards[card].allocations)) {
    node.use(nodeShares_.of(allocation.nodeShare), sign);
    if (!onNode(node, allocation.device)) node.claims += sign;
  }
}

void Cluster::State::upsertNode(const NodeInfo& info) {
  const NodeId id = obtainNode(info.name);
  NodeRecord& node = nodes[id];
  node.hasObject = true;
  node.schedulable = info.schedulable;
  node.capacity = {info.cpuMilli, info.memory};
  refresh(id);
}

void Cluster::State::removeNode(NodeId id) {
  NodeRecord& node = nodes[id];
  node.hasObject = false;
  node.schedulable = false;
  node.capacity = {};
  for (const NodeAllocation& take : nodeAllocations_.of(node.allocations)) {
    node.use(take.amount, -1);
    holders_.countNodeAllocation(take.pod, -1);
    holders_.dropIfIdle(take.pod);
  }
  nodeAllocations_.clear(node.allocations);
  refresh(id);
  dropIfUnused(id);
  compactStrings();
}

void Cluster::State::upsertCard(const CardInfo& info) {
  CardId id = findCard(info.name);
  const uint32_t limiter = static_cast<uint32_t>(limiterOf(info.card)) & 3u;
  const bool memoryLimits = hasMemoryLimits(info.card), exclusive = isExclusive(info.card);
  if (id != kNone && describes(*this, id, info.card)) {
    if ((cards[id].healthy != 0) == info.healthy && cards[id].limiter == limiter &&
        (cards[id].memoryLimits != 0) == memoryLimits && (cards[id].exclusive != 0) == exclusive)
      return;
    cards[id].healthy = info.healthy;
    cards[id].limiter = limiter;
    cards[id].memoryLimits = memoryLimits;
    cards[id].exclusive = exclusive;
    if (cards[id].node != kNone) refresh(cards[id].node);
    return;
  }
  Amount used;
  if (id == kNone) {
    id = obtainCard();
    cardIds_.insert(NameTable::hashOf(info.name), id);
  } else {
    used = usedOf(id);
    if (cards[id].node != kNone) id = detach(id);
    dropFacts(id);
  }
  writeFacts(id, info);
  CardRecord& card = cards[id];
  card.type = findOrAddType(info.card) & 0x3fffffu;
  card.left.setAmount(info.card.core - used.core, info.card.memory - used.memory);
  card.healthy = info.healthy;
  card.limiter = limiter;
  card.memoryLimits = memoryLimits;
  card.exclusive = exclusive;
  // A card without a node name can be looked up and charged, but is never chosen.
  if (!info.card.nodeName.empty()) attach(id, obtainNode(info.card.nodeName));
  compactStrings();
}

void Cluster::State::removeCard(CardId id) {
  if (cards[id].node != kNone) id = detach(id);
  CardRecord& card = cards[id];
  for (CardAllocation& allocation : allocations_.of(card.allocations)) {
    nodeShares_.set(allocation.nodeShare, {});
    holders_.countCardAllocation(allocation.device, -1);
    holders_.dropIfIdle(allocation.device);
  }
  allocations_.clear(card.allocations);
  cardIds_.erase(NameTable::hashOf(facts[id]->name()), id);
  dropFacts(id);
  releaseCard(id);
  compactStrings();
}

void Cluster::State::take(CardId id, std::string_view uid, const Amount& charged, const NodeAmount& ofNode) {
  const DeviceId device = holders_.obtain(uid);
  CardRecord& card = cards[id];
  CardAllocation* known = nullptr;
  if (holders_.cardAllocations(device) > 0)
    for (CardAllocation& allocation : allocations_.of(card.allocations))
      if (allocation.device == device) known = &allocation;
  Amount before;
  NodeAmount shareBefore;
  if (known) {
    before = known->charged;
    shareBefore = nodeShares_.of(known->nodeShare);
    if (before == charged && shareBefore == ofNode) return;
    known->charged = charged;
    nodeShares_.set(known->nodeShare, ofNode);
  } else {
    if (card.node != kNone && !onNode(nodes[card.node], device)) ++nodes[card.node].claims;
    CardAllocation allocation{device, kNone, charged};
    nodeShares_.set(allocation.nodeShare, ofNode);
    allocations_.push(card.allocations, allocation);
    holders_.countCardAllocation(device, 1);
  }
  card.left.add(before.core - charged.core, before.memory - charged.memory);
  if (before.slots != charged.slots) card.left.setUsed(slotsOf(allocations_.of(card.allocations)));
  if (card.node == kNone) return;
  nodes[card.node].use(shareBefore, -1);
  nodes[card.node].use(ofNode);
  touch(card.node);
}

void Cluster::State::giveBack(CardId id, std::string_view uid) {
  const DeviceId device = holders_.find(uid);
  if (device == kNone) return;
  CardRecord& card = cards[id];
  const std::span<CardAllocation> all = allocations_.of(card.allocations);
  const auto it = std::find_if(all.begin(), all.end(), [&](const CardAllocation& t) { return t.device == device; });
  if (it == all.end()) return;
  card.left.add(it->charged.core, it->charged.memory);
  const bool hadSlots = !it->charged.slots.empty();
  const NodeAmount share = nodeShares_.of(it->nodeShare);
  nodeShares_.set(it->nodeShare, {});
  allocations_.erase(card.allocations, static_cast<uint32_t>(it - all.begin()));
  holders_.countCardAllocation(device, -1);
  if (hadSlots) card.left.setUsed(slotsOf(allocations_.of(card.allocations)));
  if (card.node != kNone) {
    NodeRecord& node = nodes[card.node];
    node.use(share, -1);
    if (!onNode(node, device)) --node.claims;
    touch(card.node);
  }
  holders_.dropIfIdle(device);
}

void Cluster::State::takeOfNode(NodeId id, std::string_view uid, const NodeAmount& amount) {
  const DeviceId pod = holders_.obtain(uid);
  NodeRecord& node = nodes[id];
  const std::span<NodeAllocation> all = nodeAllocations_.of(node.allocations);
  const auto it = std::find_if(all.begin(), all.end(), [&](const NodeAllocation& t) { return t.pod == pod; });
  if (it != all.end()) {
    node.use(it->amount, -1);
    it->amount = amount;
  } else {
    nodeAllocations_.push(node.allocations, {pod, amount});
    holders_.countNodeAllocation(pod, 1);
  }
  node.use(amount);
  touch(id);
}

void Cluster::State::giveBackOfNode(NodeId id, std::string_view uid) {
  const DeviceId pod = holders_.find(uid);
  if (pod == kNone) return;
  NodeRecord& node = nodes[id];
  const std::span<NodeAllocation> all = nodeAllocations_.of(node.allocations);
  const auto it = std::find_if(all.begin(), all.end(), [&](const NodeAllocation& t) { return t.pod == pod; });
  if (it == all.end()) return;
  node.use(it->amount, -1);
  nodeAllocations_.erase(node.allocations, static_cast<uint32_t>(it - all.begin()));
  holders_.countNodeAllocation(pod, -1);
  holders_.dropIfIdle(pod);
  touch(id);
}

void Cluster::State::refresh(NodeId id) {
  outlook.changed(id);
  const NodeRecord& node = nodes[id];
  if (!node.offered()) {
    index.remove(id);
    return;
  }
  std::vector<TypeId> present;  // can be empty: such a node can hold requests without cards
  int64_t largestCore = 0, largestMemory = 0;
  for (CardId c : node.cards) {
    if (!cards[c].healthy) continue;
    const CardType& type = types[cards[c].type];
    present.push_back(cards[c].type);
    largestCore = std::max(largestCore, type.core);
    largestMemory = std::max(largestMemory, type.memory);
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  const NodeIndex::MixId mix = index.mixFor(present, largestCore, largestMemory);
  const Survey s = survey(node, index.mixes()[mix].scale);
  index.put(id, mix, s.fill, s.summary);
}

void Cluster::State::touch(NodeId id) {
  outlook.changed(id);
  if (!index.holds(id)) return;
  const NodeIndex::MixId mix = index.mixOf(id);
  const Survey s = survey(nodes[id], index.mixes()[mix].scale);
  index.put(id, mix, s.fill, s.summary);
}

}  // namespace egpu::scheduler
