#include "controller/scheduler/fragmentation/node_states.h"

#include <algorithm>
#include <limits>

#include "controller/scheduler/fragmentation/wide.h"

namespace egpu::scheduler::fragmentation {
namespace {

FreeRoom roomOf(const NodeState& state) {
  FreeRoom room;
  room.free = state.free;
  if (state.cards.empty()) return room;
  room.onlyType = state.cards.front().type;
  for (const CardState& card : state.cards) {
    if (card.type != state.cards.front().type) room.onlyType = kNone;
    room.most = {std::max(room.most.core, card.free.core), std::max(room.most.memory, card.free.memory)};
    room.empty += card.empty ? 1 : 0;
  }
  return room;
}

}  // namespace

// Rounding keeps order: of two numbers, the larger one never becomes the smaller.
void RoomColumns::add(const FreeRoom& room) {
  constexpr float kPlenty = std::numeric_limits<float>::max();
  const bool several = room.onlyType == kNone;
  cpu_.push_back(static_cast<float>(room.free.cpuMilli));
  memory_.push_back(static_cast<float>(room.free.memory));
  core_.push_back(several ? kPlenty : static_cast<float>(room.most.core));
  cardMemory_.push_back(several ? kPlenty : static_cast<float>(room.most.memory));
  empty_.push_back(several ? kPlenty : static_cast<float>(room.empty));
}

void RoomColumns::clear() {
  for (auto* column : {&cpu_, &memory_, &core_, &cardMemory_, &empty_}) column->clear();
}

EGPU_WIDE void RoomColumns::sift(const FreeRoom& least, std::size_t first, std::span<int32_t> out, int32_t yes,
                                 int32_t no) const {
  const auto cpu = static_cast<float>(least.free.cpuMilli), memory = static_cast<float>(least.free.memory);
  const auto core = static_cast<float>(least.most.core), cardMemory = static_cast<float>(least.most.memory);
  const auto empty = static_cast<float>(least.empty);
  const float *const cpus = &cpu_[first], *const memories = &memory_[first], *const cores = &core_[first];
  const float *const cardMemories = &cardMemory_[first], *const empties = &empty_[first];
  int32_t* const to = out.data();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool has = (cpus[i] >= cpu) & (memories[i] >= memory) & (cores[i] >= core) & (cardMemories[i] >= cardMemory) &
                     (empties[i] >= empty);
    to[i] = has ? yes : no;
  }
}

void NodeStates::note(Change change) {
  if (!used_) return;
  if (isNoted_.size() <= change.node) isNoted_.resize(change.node + 1, 0);
  uint8_t& mark = isNoted_[change.node];
  if (mark == 0) noted_.push_back(change.node);
  mark = std::max<uint8_t>(mark, change.replaced ? 2 : 1);
}

uint32_t NodeStates::numberOf(const Cluster::State& state, NodeId node) {
  if (!state.nodes[node].offered()) return kNotOffered;
  if (count_ == states_.size()) states_.emplace_back();
  KnownState& read = states_[count_];  // where it will lie if it is new
  readNode(state, node, read.state);
  const auto hash = static_cast<uint32_t>(hashOf(read.state));
  const uint32_t met = numbers_.find(hash, [&](uint32_t number) { return states_[number].state == read.state; });
  if (met != kNone) return met;
  read.pricing = 0;
  read.free = 0;
  for (const CardState& card : read.state.cards)
    read.free += static_cast<double>(freeShare(card, state.types[card.type]));
  rooms_.push_back(roomOf(read.state));
  roomColumns_.add(rooms_.back());
  nodesIn_.push_back(0);
  numbers_.insert(hash, count_);
  return count_++;
}

void NodeStates::count(uint32_t number, int sign) {
  if (number == kNotOffered || number == kUnread) return;
  nodesIn_[number] += static_cast<uint32_t>(sign);
  free_ += sign * states_[number].free;  // exact: whole numbers
  for (const CardState& card : states_[number].state.cards) cards_[card.type] += sign;
}

void NodeStates::forget() {
  ++generation_;
  // The first is that of nodes that are not offered, and nobody's.
  count_ = 1;
  if (states_.empty()) states_.emplace_back();
  rooms_.assign(1, {});
  roomColumns_.clear();
  roomColumns_.add({});
  nodesIn_.assign(1, 0);
  numbers_ = {};
  free_ = 0;
  std::fill(cards_.begin(), cards_.end(), 0);
}

const std::vector<NodeStates::Change>& NodeStates::read(const Cluster::State& state) {
  changes_.clear();
  cards_.resize(state.types.size(), 0);
  isNoted_.resize(state.nodes.size(), 0);
  const bool all = !used_ || count_ > 2 * state.nodes.size() + 1024;
  if (all) forget();
  used_ = true;
  ofNode_.resize(state.nodes.size(), kUnread);
  for (const NodeId node : noted_) {
    const bool replaced = isNoted_[node] == 2;
    isNoted_[node] = 0;
    const uint32_t before = ofNode_[node];
    if (!all) {
      count(before, -1);
      count(ofNode_[node] = numberOf(state, node), 1);
    }
    if (all || replaced || ofNode_[node] != before) changes_.push_back({node, replaced});
  }
  noted_.clear();
  if (all)
    for (NodeId node = 0; node < state.nodes.size(); ++node) count(ofNode_[node] = numberOf(state, node), 1);
  return changes_;
}

}  // namespace egpu::scheduler::fragmentation
