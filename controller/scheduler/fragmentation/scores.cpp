#include "controller/scheduler/fragmentation/scores.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "controller/scheduler/fragmentation/wide.h"
#include "controller/scheduler/state/demand.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler::fragmentation {
namespace {

std::size_t hashOfRequest(const Request& request) {
  std::size_t hash = demandHash(request) ^ std::hash<std::string_view>()(request.cardPolicy);
  hash ^= static_cast<std::size_t>(request.maxClaimsPerCard * 131 + request.maxClaimsPerNode * 7919);
  return hash;
}

EGPU_WIDE Score highestOf(const Score* scores, std::size_t size) {
  Score highest = kUnfit;
  for (std::size_t at = 0; at < size; ++at) highest = std::max(highest, scores[at]);
  return highest;
}

FreeRoom lessOf(const FreeRoom& a, const FreeRoom& b) {
  FreeRoom less;
  less.free = {std::min(a.free.cpuMilli, b.free.cpuMilli), std::min(a.free.memory, b.free.memory)};
  less.most = {std::min(a.most.core, b.most.core), std::min(a.most.memory, b.most.memory)};
  less.empty = std::min(a.empty, b.empty);
  return less;
}

}  // namespace

void Scores::repriced() { ++pricing_; }

void Scores::note(const std::vector<NodeStates::Change>& changes, std::size_t nodes) {
  if (tables_.empty()) return;
  log_.insert(log_.end(), changes.begin(), changes.end());
  if (log_.size() <= 2 * nodes + 1024) return;
  const std::size_t half = log_.size() / 2;  // a table that is further behind is cheaper to make anew
  log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(half));
  logStart_ += half;
}

Scores::Table& Scores::tableOf(const Cluster::State& state, const Request& request) {
  const std::size_t hash = hashOfRequest(request);
  ++uses_;
  for (std::size_t at = 0; at < tables_.size(); ++at) {
    if (hashes_[at] != hash || tables_[at]->request != request) continue;
    tables_[at]->lastUsed = uses_;
    return *tables_[at];
  }
  const std::size_t most = std::clamp<std::size_t>(kMostScores / (state.nodes.size() + 1), 8, 1024);
  if (tables_.size() >= most) {
    const auto oldest = std::min_element(tables_.begin(), tables_.end(),
                                         [](const auto& a, const auto& b) { return a->lastUsed < b->lastUsed; });
    hashes_.erase(hashes_.begin() + (oldest - tables_.begin()));
    tables_.erase(oldest);
  }
  Table& table = *tables_.emplace_back(std::make_unique<Table>());
  hashes_.push_back(hash);
  table.request = request;
  table.lastUsed = uses_;
  return table;
}

Score Scores::judged(Reading& reading, Table& table, NodeId node) {
  const uint32_t number = reading.nodeStates.stateOf(node);
  const FreeRoom& room = reading.nodeStates.room(number);
  if (!room.has(room.onlyType == kNone ? table.leastOfSeveral : table.least[room.onlyType]))
    return table.ofState[number] = kUnfit;
  KnownState& known = reading.nodeStates.known(number);
  if (known.pricing != pricing_) {
    reading.judge.appraise(known);
    known.pricing = pricing_;
  }
  uint16_t unchosen = Judge::kUnchosen;
  const Score score = reading.judge.judge(node, known, reading.byStateAlone ? table.chosen[number] : unchosen);
  if (reading.byStateAlone) table.ofState[number] = score;
  return score;
}

bool Scores::better(const Cluster::State& state, const Table& table, NodeId a, NodeId b) {
  if (table.scores[a] != table.scores[b]) return table.scores[a] > table.scores[b];
  return state.index.namedBefore(a, b);
}

NodeId Scores::bestOf(const Cluster::State& state, const Table& table, std::size_t block, uint64_t without) {
  const std::size_t from = block * kBlock, size = std::min(kBlock, table.scores.size() - from);
  const Score* const scores = &table.scores[from];
  Score highest = kUnfit;
  if (without == 0) {
    highest = highestOf(scores, size);
  } else {
    for (std::size_t at = 0; at < size; ++at)
      if ((without >> at & 1) == 0) highest = std::max(highest, scores[at]);
  }
  NodeId best = kNone;
  if (highest == kUnfit) return best;
  for (std::size_t at = 0; at < size; ++at) {
    if (scores[at] != highest || (without >> at & 1) != 0) continue;
    const auto node = static_cast<NodeId>(from + at);
    if (best == kNone || state.index.namedBefore(node, best)) best = node;
  }
  return best;
}

void Scores::scan(Reading& reading, Table& table) {
  const std::size_t nodes = reading.state.nodes.size();
  table.scores.resize(nodes);
  const uint32_t* const states = reading.nodeStates.statesOfNodes().data();
  const Score* const ofState = table.ofState.data();
  Score* const scores = table.scores.data();
  for (NodeId node = 0; node < nodes; ++node) {
    const Score kept = ofState[states[node]];
    scores[node] = kept != kUnjudged ? kept : judged(reading, table, node);
  }
  table.bests.resize((nodes + kBlock - 1) / kBlock);
  for (std::size_t block = 0; block < table.bests.size(); ++block)
    table.bests[block] = bestOf(reading.state, table, block, 0);
  table.pricing = pricing_;
}

void Scores::catchUp(Reading& reading, Table& table) {
  for (auto at = static_cast<std::size_t>(table.upTo - logStart_); at < log_.size(); ++at) {
    const auto [node, replaced] = log_[at];
    const Score kept = table.ofState[reading.nodeStates.stateOf(node)];
    const Score score = kept != kUnjudged ? kept : judged(reading, table, node);
    const Score before = std::exchange(table.scores[node], score);
    NodeId& best = table.bests[node / kBlock];
    if (best == node) {
      if (score < before || replaced) best = bestOf(reading.state, table, node / kBlock, 0);
    } else if (score != kUnfit && (best == kNone || better(reading.state, table, node, best))) {
      best = node;
    }
  }
}

void Scores::update(Reading& reading, Table& table) {
  const std::size_t nodes = reading.state.nodes.size(), types = reading.state.types.size();
  if (table.least.size() < types || table.pricing == 0) {
    for (auto type = static_cast<TypeId>(table.least.size()); type < types; ++type)
      table.least.push_back(reading.judge.leastOn(type));
    table.leastOfSeveral = reading.judge.leastOn(kNone);
    table.leastOfAny = table.least.empty() ? table.leastOfSeveral : table.least.front();
    for (const FreeRoom& each : table.least) table.leastOfAny = lessOf(table.leastOfAny, each);
  }
  if (table.generation != reading.nodeStates.generation()) {
    table.generation = reading.nodeStates.generation();
    table.ofState.clear();
    table.chosen.clear();
  }
  const bool anew = table.scores.size() != nodes || table.pricing != pricing_;
  const std::size_t known = table.pricing == pricing_ ? table.ofState.size() : 0;
  if (known < reading.nodeStates.states()) {
    table.ofState.resize(reading.nodeStates.states());
    reading.nodeStates.rooms().sift(table.leastOfAny, known, std::span(table.ofState).subspan(known), kUnjudged,
                                    kUnfit);
    table.ofState[NodeStates::kNotOffered] = kUnfit;
    table.chosen.resize(reading.nodeStates.states(), Judge::kUnchosen);
  }
  if (anew || table.upTo < logStart_) {
    scan(reading, table);
  } else {
    catchUp(reading, table);
  }
  table.upTo = logStart_ + log_.size();
}

NodeId Scores::bestThatSuits(const Cluster::State& state, const Table& table, const NodePredicate& suits) {
  std::vector<NodeId> heap;  // the best of each block that is left
  std::vector<uint64_t> refused(table.bests.size(), 0);
  const auto worse = [&](NodeId a, NodeId b) { return better(state, table, b, a); };
  for (const NodeId best : table.bests)
    if (best != kNone) heap.push_back(best);
  std::make_heap(heap.begin(), heap.end(), worse);
  while (!heap.empty()) {
    const NodeId node = heap.front();
    if (suits(state.nodes[node].name)) return node;
    std::pop_heap(heap.begin(), heap.end(), worse);
    heap.pop_back();
    const std::size_t block = node / kBlock;
    refused[block] |= uint64_t{1} << (node % kBlock);
    const NodeId next = bestOf(state, table, block, refused[block]);
    if (next == kNone) continue;
    heap.push_back(next);
    std::push_heap(heap.begin(), heap.end(), worse);
  }
  return kNone;
}

NodeId Scores::best(const Cluster::State& state, NodeStates& nodeStates, const Request& request, Judge& judge,
                    const NodePredicate& suits) {
  Table& table = tableOf(state, request);
  Reading reading{state, nodeStates, judge, judge.byStateAlone()};
  update(reading, table);
  if (suits) return bestThatSuits(state, table, suits);
  NodeId best = kNone;
  for (const NodeId each : table.bests)
    if (each != kNone && (best == kNone || better(state, table, each, best))) best = each;
  return best;
}

}  // namespace egpu::scheduler::fragmentation
