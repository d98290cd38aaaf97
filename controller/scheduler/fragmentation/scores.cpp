#include "controller/scheduler/fragmentation/scores.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "controller/scheduler/state/demand.h"

namespace egpu::scheduler::fragmentation {

std::size_t Scores::Hash::operator()(const Request& request) const {
  return demandHash(request) ^ std::hash<std::string_view>()(request.cardPolicy);
}

void Scores::forget(const NodeStates::Changes& changes) {
  for (const uint32_t number : changes.numbers)
    if (number < copies_.size()) copies_[number].reset();
  for (auto& [request, table] : tables_) {
    for (const uint32_t number : changes.numbers)
      if (number < table.ofState.size()) table.ofState[number] = kUnknown;
    for (const NodeId node : changes.nodes) {
      if (node >= table.scores.size() || table.scores[node] == kUnknown) continue;
      table.scores[node] = kUnknown;
      table.unknown.push_back(node);
    }
  }
}

Scores::Table& Scores::tableOf(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                               const CardPolicy& policy) {
  auto it = tables_.find(request);
  if (it == tables_.end()) {
    const std::size_t max = std::clamp<std::size_t>(kMaxScores / (state.nodes.size() + 1), 8, 1024);
    if (tables_.size() >= max) tables_.clear();
    it = tables_.emplace(request, Table{}).first;
    // States contain neither links nor numbers of claims.
    it->second.byState = !policy.seesLinks && request.maxClaimsPerCard == 0 && request.maxClaimsPerNode == 0;
  }
  Table& table = it->second;
  table.ofState.resize(nodeStates.numbers(), kUnknown);
  for (auto node = static_cast<NodeId>(table.scores.size()); node < state.nodes.size(); ++node) {
    table.scores.push_back(kUnknown);
    table.unknown.push_back(node);
  }
  table.bests.resize((state.nodes.size() + kBlock - 1) / kBlock);
  return table;
}

const NodeCopies& Scores::copiesOn(const NodeStates& nodeStates, uint32_t number) {
  copies_.resize(nodeStates.numbers());
  std::optional<NodeCopies>& copies = copies_[number];
  if (!copies) copies.emplace(nodeStates.state(number), counts_);
  return *copies;
}

bool Scores::better(const Cluster::State& state, const Scored& a, const Scored& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.score != kUnfit && state.index.namedBefore(a.node, b.node);
}

Scores::Scored Scores::bestOf(const Cluster::State& state, const Table& table, std::size_t block, Scored best,
                              const NodePredicate& suits) {
  const std::size_t end = std::min((block + 1) * kBlock, table.scores.size());
  for (auto node = static_cast<NodeId>(block * kBlock); node < end; ++node) {
    const Scored one{node, table.scores[node]};
    if (better(state, one, best) && (!suits || suits(state.nodes[node].name))) best = one;
  }
  return best;
}

void Scores::update(const Cluster::State& state, const NodeStates& nodeStates, NodeScorer& scorer, Table& table) {
  for (const NodeId node : table.unknown) {
    const uint32_t number = nodeStates.numberOf(node);
    if (number == NodeStates::kNotOffered) {
      table.scores[node] = kUnfit;
      continue;
    }
    // The score of a state with only one node is not cached.
    const bool shared = table.byState && nodeStates.nodesIn(number) > 1;
    if (shared && table.ofState[number] != kUnknown) {
      table.scores[node] = table.ofState[number];
      continue;
    }
    table.scores[node] = scorer.score(node, copiesOn(nodeStates, number));
    if (shared) table.ofState[number] = table.scores[node];
  }
  for (const NodeId node : table.unknown) {
    const Scored one{node, table.scores[node]};
    Scored& best = table.bests[node / kBlock];
    if (best.node == node) {
      best = bestOf(state, table, node / kBlock, {}, {});
    } else if (better(state, one, best)) {
      best = one;
    }
  }
  table.unknown.clear();
}

NodeId Scores::best(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                    CardChoice& cards, const CardPolicy& policy, const NodePredicate& suits) {
  Table& table = tableOf(state, nodeStates, request, policy);
  NodeScorer scorer(state, request, cards, *prices_, counts_);
  update(state, nodeStates, scorer, table);
  Scored best;
  for (std::size_t block = 0; block < table.bests.size(); ++block)
    if (better(state, table.bests[block], best))
      best = suits ? bestOf(state, table, block, best, suits) : table.bests[block];
  return best.node;
}

}  // namespace egpu::scheduler::fragmentation
