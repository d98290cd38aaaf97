// The load of a node: the mean of its healthy cards' load scores. Internal to scheduler/.
#pragma once

#include <cstdint>

#include "controller/scheduler/choice/load_score.h"
#include "controller/scheduler/node_policy/node_policy.h"
#include "controller/scheduler/state/state.h"

namespace egpu::scheduler {

/// Returns the load of a node in hundredths (NodeLoad), used or available depending on the policy; 0 for a policy that
/// does not use load. The index contains the means for the default weights; means for other weights are computed here.
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
