// The load of a node: the sum of its healthy cards' load scores. Internal to scheduler/.
#pragma once

#include <cstdint>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// As the policy counts it: used, or available; 0 of a policy that is not by load. The index has the sums of the usual
/// weights (up to 65,535) at hand; those of others are added up here.
inline int64_t loadOf(const Cluster::State& state, NodeId id, const NodePolicy& policy, int64_t memoryWeight) {
  if (!policy.byLoad()) return 0;
  const bool used = policy.order == NodeOrder::usedScore;
  if (memoryWeight == kUsualMemoryWeight)
    return state.index.summaryOf(id).wide(used ? Summary::kUsedScore : Summary::kAvailableScore);
  int64_t sum = 0;
  for (const CardId card : state.nodes[id].cards) {
    if (!state.cards[card].healthy) continue;
    const LoadScore score = loadScoreOf(state.usedOf(card), state.capacityOf(card), memoryWeight);
    sum += used ? score.used : score.available;
  }
  return sum;
}

}  // namespace egpu::scheduler
