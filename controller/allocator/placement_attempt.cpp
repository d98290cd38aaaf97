#include "controller/allocator/placement_attempt.h"

#include <span>

namespace egpu::allocator {
namespace {

void report(ObservedCluster& cluster, std::span<const SchedulingRequest> asks,
            const std::vector<scheduler::Decision>& decisions, PredicateTrace nodes, bool isIrreproducible) {
  if (!cluster.hasListener()) return;
  Decided decided{{}, decisions, std::move(nodes), isIrreproducible};
  for (const auto& ask : asks) decided.asks.push_back({ask.claimUid, ask.claim, ask.request, ask.className});
  cluster.decided(std::move(decided));
}

}  // namespace

PlacementAttempt::PlacementAttempt(AllocatorState& state, const std::vector<SchedulingRequest>& asks, GroupKind kind)
    : asks_(asks), kind_(kind) {
  auto& cluster = state.cluster.cluster();
  cluster.show();
  for (std::size_t i = 0; i < asks.size(); ++i) {
    if (auto dropped = state.cluster.forgetForRetry(asks[i].claimUid); !dropped.empty())
      dropped_.emplace_back(i, std::move(dropped));
    state.demand.record(cluster, asks[i].claimUid, asks[i].request);
  }
}

void PlacementAttempt::commit(AllocatorState& state) {
  auto& cluster = state.cluster.cluster();
  const bool isGang = kind_ == GroupKind::gang;
  if (!isGang) report(cluster, asks_, decisions, std::move(predicateTrace), isIrreproducible);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const auto& ask = asks_[i];
    // The listener takes several requests as one node's, so each member of a gang is reported alone.
    if (isGang) report(cluster, {&ask, 1}, {decisions[i]}, {}, isIrreproducible);
    // Another pod may have decided the same claim during a pause of the search.
    const auto others = state.cluster.forgetForRetry(ask.claimUid);
    state.assume(ask, decisions[i], isGang);
    state.demand.forget(ask.claimUid);
    state.cluster.noteRetried(ask.claimUid, others);
  }
  for (const auto& [request, amounts] : dropped_) state.cluster.noteRetried(asks_[request].claimUid, amounts);
  hasNews_ = state.hasNews();
  took_ = std::chrono::steady_clock::now() - start_;
}

void PlacementAttempt::finish(AllocatorState& state) {
  if (hasNews_) state.announce();
  if (state.onDecision) state.onDecision(!decisions.empty(), took_.count());
}

}  // namespace egpu::allocator
