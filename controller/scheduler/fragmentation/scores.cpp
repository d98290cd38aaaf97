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
  for (auto& [request, cached] : classScores_) {
    for (const uint32_t number : changes.numbers)
      if (number < cached.ofState.size()) cached.ofState[number] = kUnknown;
    for (const NodeId node : changes.nodes) {
      if (node >= cached.scores.size() || cached.scores[node] == kUnknown) continue;
      cached.scores[node] = kUnknown;
      cached.unknown.push_back(node);
    }
  }
}

Scores::ClassScores& Scores::scoresOf(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                                      const CardPolicy& policy) {
  auto it = classScores_.find(request);
  if (it == classScores_.end()) {
    const std::size_t max = std::clamp<std::size_t>(kMaxScores / (state.nodes.size() + 1), 8, 1024);
    if (classScores_.size() >= max) classScores_.clear();
    it = classScores_.emplace(request, ClassScores{}).first;
    // States contain neither links nor numbers of claims.
    it->second.byState = !policy.seesLinks && request.maxClaimsPerCard == 0 && request.maxClaimsPerNode == 0;
  }
  ClassScores& cached = it->second;
  cached.ofState.resize(nodeStates.numbers(), kUnknown);
  for (auto node = static_cast<NodeId>(cached.scores.size()); node < state.nodes.size(); ++node) {
    cached.scores.push_back(kUnknown);
    cached.unknown.push_back(node);
  }
  cached.bests.resize((state.nodes.size() + kBlock - 1) / kBlock);
  return cached;
}

const NodeCopies& Scores::copiesOn(const NodeStates& nodeStates, uint32_t number) {
  copies_.resize(nodeStates.numbers());
  std::optional<NodeCopies>& copies = copies_[number];
  if (!copies) copies.emplace(nodeStates.state(number), counts_);
  return *copies;
}

bool Scores::isBetter(const Cluster::State& state, const Scored& a, const Scored& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.score != kUnfit && state.index.namedBefore(a.node, b.node);
}

Scores::Scored Scores::bestOf(const Cluster::State& state, const ClassScores& cached, std::size_t block, Scored best,
                              const NodePredicate& suits) {
  const std::size_t end = std::min((block + 1) * kBlock, cached.scores.size());
  for (auto node = static_cast<NodeId>(block * kBlock); node < end; ++node) {
    const Scored one{node, cached.scores[node]};
    if (isBetter(state, one, best) && (!suits || suits(state.nodes[node].name))) best = one;
  }
  return best;
}

void Scores::update(const Cluster::State& state, const NodeStates& nodeStates, NodeScorer& scorer,
                    ClassScores& cached) {
  for (const NodeId node : cached.unknown) {
    const uint32_t number = nodeStates.numberOf(node);
    if (number == NodeStates::kNotOffered) {
      cached.scores[node] = kUnfit;
      continue;
    }
    // The score of a state with only one node is not cached.
    const bool shared = cached.byState && nodeStates.nodesIn(number) > 1;
    if (shared && cached.ofState[number] != kUnknown) {
      cached.scores[node] = cached.ofState[number];
      continue;
    }
    cached.scores[node] = scorer.score(node, copiesOn(nodeStates, number));
    if (shared) cached.ofState[number] = cached.scores[node];
  }
  for (const NodeId node : cached.unknown) {
    const Scored one{node, cached.scores[node]};
    Scored& best = cached.bests[node / kBlock];
    if (best.node == node) {
      best = bestOf(state, cached, node / kBlock, {}, {});
    } else if (isBetter(state, one, best)) {
      best = one;
    }
  }
  cached.unknown.clear();
}

NodeId Scores::best(const Cluster::State& state, const NodeStates& nodeStates, const Request& request,
                    CardChoice& cards, const CardPolicy& policy, const NodePredicate& suits) {
  ClassScores& cached = scoresOf(state, nodeStates, request, policy);
  NodeScorer scorer(state, request, cards, *prices_, counts_);
  update(state, nodeStates, scorer, cached);
  Scored best;
  for (std::size_t block = 0; block < cached.bests.size(); ++block)
    if (isBetter(state, cached.bests[block], best))
      best = suits ? bestOf(state, cached, block, best, suits) : cached.bests[block];
  return best.node;
}

}  // namespace egpu::scheduler::fragmentation
