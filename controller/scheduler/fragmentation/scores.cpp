#include "controller/scheduler/fragmentation/scores.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "controller/scheduler/demand.h"
#include "controller/scheduler/state.h"

namespace egpu::scheduler::fragmentation {
namespace {

std::size_t hashOfRequest(const Request& request) {
  std::size_t hash = demandHash(request) ^ std::hash<std::string_view>()(request.cardPolicy);
  hash ^= static_cast<std::size_t>(request.maxClaimsPerCard * 131 + request.maxClaimsPerNode * 7919);
  return hash;
}

}  // namespace

void Scores::clear() {
  for (const auto& table : tables_) table->scores.clear();  // to be made anew where it lies
  log_.clear();
  logStart_ = 0;
  forgetStates();
}

void Scores::forgetStates() {
  count_ = 0;
  stateIds_.clear();
  nodeStates_.assign(nodeStates_.size(), kNone);
  for (const auto& table : tables_) table->ofState.clear();
}

void Scores::changed(NodeId node) {
  if (tables_.empty()) return;
  if (node < nodeStates_.size()) nodeStates_[node] = kNone;
  log_.push_back(node);
  // A table that is further behind than there are nodes is cheaper to make anew.
  if (log_.size() <= 2 * nodeStates_.size() + 1024) return;
  const std::size_t half = log_.size() / 2;
  log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(half));
  logStart_ += half;
}

Scores::Table& Scores::tableOf(const Cluster::State& state, const Request& request) {
  const std::size_t hash = hashOfRequest(request);
  ++uses_;
  for (const auto& table : tables_) {
    if (table->hash != hash || table->request != request) continue;
    table->lastUsed = uses_;
    return *table;
  }
  const std::size_t most = std::clamp<std::size_t>(kMostScores / (state.nodes.size() + 1), 8, 1024);
  if (tables_.size() >= most)
    tables_.erase(std::min_element(tables_.begin(), tables_.end(),
                                   [](const auto& a, const auto& b) { return a->lastUsed < b->lastUsed; }));
  Table& table = *tables_.emplace_back(std::make_unique<Table>());
  table.request = request;
  table.hash = hash;
  table.lastUsed = uses_;
  return table;
}

uint32_t Scores::stateOf(const Cluster::State& state, Judge& judge, NodeId node) {
  uint32_t& known = nodeStates_[node];
  if (!state.nodes[node].offered()) return known = kNotOffered;
  if (count_ == states_.size()) states_.emplace_back();
  KnownState& read = states_[count_];  // where it will lie if it is new
  readNode(state, node, read.state);
  const std::size_t hash = hashOf(read.state);
  const auto [from, to] = stateIds_.equal_range(hash);
  for (auto it = from; it != to; ++it)
    if (states_[it->second].state == read.state) return known = it->second;
  judge.appraise(read);
  known = count_++;
  stateIds_.emplace(hash, known);
  return known;
}

Score Scores::scoreOf(const Cluster::State& state, Table& table, Judge& judge, NodeId node) {
  uint32_t at = nodeStates_[node];
  if (at == kNone) at = stateOf(state, judge, node);
  if (at == kNotOffered) return kUnfit;
  if (!judge.byStateAlone()) return judge.judge(node, states_[at]);
  if (table.ofState.size() <= at) table.ofState.resize(count_, kUnjudged);
  Score& score = table.ofState[at];
  if (score == kUnjudged) score = judge.judge(node, states_[at]);
  return score;
}

bool Scores::better(const Cluster::State& state, const Table& table, NodeId a, NodeId b) {
  if (table.scores[a] != table.scores[b]) return table.scores[a] > table.scores[b];
  return state.index.namedBefore(a, b);
}

NodeId Scores::bestOf(const Cluster::State& state, const Table& table, std::size_t block, uint64_t without) {
  NodeId best = kNone;
  const std::size_t from = block * kBlock, to = std::min(from + kBlock, table.scores.size());
  for (std::size_t at = from; at < to; ++at) {
    if (table.scores[at] == kUnfit || (without >> (at - from) & 1) != 0) continue;
    const auto node = static_cast<NodeId>(at);
    if (best == kNone || better(state, table, node, best)) best = node;
  }
  return best;
}

void Scores::update(const Cluster::State& state, Table& table, Judge& judge) {
  const std::size_t nodes = state.nodes.size();
  nodeStates_.resize(std::max(nodes, nodeStates_.size()), kNone);
  if (count_ > 4 * nodes + 4096) forgetStates();
  const uint64_t end = logStart_ + log_.size();
  if (table.scores.size() != nodes || table.upTo < logStart_) {
    table.scores.resize(nodes);
    for (NodeId node = 0; node < nodes; ++node) table.scores[node] = scoreOf(state, table, judge, node);
    table.bests.resize((nodes + kBlock - 1) / kBlock);
    for (std::size_t block = 0; block < table.bests.size(); ++block)
      table.bests[block] = bestOf(state, table, block, 0);
  } else {
    for (uint64_t at = table.upTo; at < end; ++at) {
      const NodeId node = log_[static_cast<std::size_t>(at - logStart_)];
      const Score score = scoreOf(state, table, judge, node);
      NodeId& best = table.bests[node / kBlock];
      table.scores[node] = score;
      if (best == node) {  // it may have got worse, or be another node of the same id
        best = bestOf(state, table, node / kBlock, 0);
      } else if (score != kUnfit && (best == kNone || better(state, table, node, best))) {
        best = node;
      }
    }
  }
  table.upTo = end;
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

NodeId Scores::best(const Cluster::State& state, const Request& request, Judge& judge, const NodePredicate& suits) {
  Table& table = tableOf(state, request);
  update(state, table, judge);
  if (suits) return bestThatSuits(state, table, suits);
  NodeId best = kNone;
  for (const NodeId each : table.bests)
    if (each != kNone && (best == kNone || better(state, table, each, best))) best = each;
  return best;
}

}  // namespace egpu::scheduler::fragmentation
