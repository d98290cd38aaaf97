// The load of a node: the mean of its healthy cards' load scores. Internal to scheduler/.
#pragma once

#include <cstdint>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Load of a node in hundredths (NodeLoad), used or available as the policy counts it; 0 under a policy that is not by load.
/// The index keeps the means under the usual weights; means under other weights are computed here.
inline int64_t loadOf(const Cluster::State& state, NodeId id, const NodePolicy& policy, int64_t memoryWeight) {
  if (!policy.byLoad()) return 0;
  const bool used = policy.order == NodeOrder::usedScore;
  if (memoryWeight == kUsualMemoryWeight)
    return state.index.summaryOf(id).wide(used ? Summary::kUsedScore : Summary::kAvailableScore);
  NodeLoad load;
  for (const CardId card : state.nodes[id].cards) {
    if (!state.cards[card].healthy) continue;
    load.add(loadScoreOf(state.usedOf(card), state.capacityOf(card), memoryWeight));
  }
  return used ? load.used() : load.available();
}

}  // namespace egpu::scheduler
