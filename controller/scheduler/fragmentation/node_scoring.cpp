#include "controller/scheduler/fragmentation/node_scoring.h"

#include <cmath>

#include "controller/scheduler/choice/fit.h"

namespace egpu::scheduler::fragmentation {

NodeCopies::NodeCopies(const NodeState& node, FitCounts& counts)
    : capacity(counts.capacityOn(node)), copies(capacity.size()) {
  for (std::size_t i = 0; i < capacity.size(); ++i) copies[i] = counts.copies(i, node.free, capacity[i]);
}

int32_t NodeScorer::restOf(const CardState& card) const {
  return prices_.cardWorth(card.type, freeShare(card, state_.types[card.type]));
}

Score NodeScorer::score(NodeId id, const NodeCopies& before) {
  const NodeRecord& node = state_.nodes[id];
  if (!isBelowClaimLimit(node, request_) || !nodeHasCapacity(node, request_) || !cards_.pick(node, picks_))
    return kUnfit;
  double loss = 0;
  capacity_ = before.capacity;
  for (const CardChoice::Pick& pick : picks_) {
    const CardState was = readCard(state_.cards[pick.card]);
    const CardState left{was.type, {was.free.core - pick.charged.core, was.free.memory - pick.charged.memory}, false};
    const Counts& fitBefore = counts_.capacityOn(was);
    for (std::size_t i = 0; i < capacity_.size(); ++i) capacity_[i] -= fitBefore[i];
    const Counts& fitAfter = counts_.capacityOn(left);
    for (std::size_t i = 0; i < capacity_.size(); ++i) capacity_[i] += fitAfter[i];
    const int64_t share = request_.wholeCards ? 1000 : shareOfCard(pick.charged, state_.types[was.type]);
    loss += restOf(was) - restOf(left) + prices_.pressure(was.type) * static_cast<double>(share);
  }
  NodeAmount free = node.free();
  free.cpuMilli -= request_.cpuMilli;
  free.memory -= request_.podMemory;
  for (std::size_t i = 0; i < capacity_.size(); ++i) {
    if (before.copies[i] == 0) continue;
    const int32_t lost = before.copies[i] - counts_.copies(i, free, capacity_[i]);
    loss += static_cast<double>(lost) * prices_.perCopy()[i];
  }
  return static_cast<Score>(std::floor(-loss / kStep));
}

}  // namespace egpu::scheduler::fragmentation
