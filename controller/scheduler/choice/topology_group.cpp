#include "controller/scheduler/choice/topology_group.h"

#include <algorithm>
#include <utility>

namespace egpu::scheduler {

GroupPlacer::ChosenNode GroupPlacer::decide(std::size_t kind, Request request, const NodePredicate& suits,
                                            const NodePredicate& open) {
  if (!request.pinnedNode.empty()) {
    const auto node = std::find(group_.nodes.begin(), group_.nodes.end(), request.pinnedNode);
    if (node == group_.nodes.end()) return {};
    return {static_cast<std::size_t>(node - group_.nodes.begin()), scheduler::decide(cluster_, request, open)};
  }
  CachedVerdicts& cached = verdictsFor(kind, request, suits);
  while (true) {
    const std::size_t best = highestScore(cached.nodes, cached.verdicts);
    if (best == cached.nodes.size()) return {};
    if (!open || open(cached.nodes[best])) {
      request.pinnedNode = cached.nodes[best];
      return {cached.places[best], scheduler::decide(cluster_, request)};
    }
    cached.verdicts[best].fits = false;
  }
}

GroupPlacer::CachedVerdicts& GroupPlacer::verdictsFor(std::size_t kind, const Request& request,
                                                      const NodePredicate& suits) {
  const CachedVerdicts* alike = nullptr;
  for (CachedVerdicts& cached : cache_) {
    if (cached.kind != kind) continue;
    alike = &cached;
    if (!(cached.request == request)) continue;
    judgeTouched(cached);
    return cached;
  }
  CachedVerdicts made{kind, request, {}, {}, {}, false, {}};
  if (alike != nullptr) {
    made.nodes = alike->nodes;
    made.places = alike->places;
  } else {
    evaluate(made, suits);
  }
  judgeTouched(made);
  if (cache_.size() < kMaxCached) return cache_.emplace_back(std::move(made));
  next_ = (next_ + 1) % kMaxCached;
  return cache_[next_] = std::move(made);
}

void GroupPlacer::evaluate(CachedVerdicts& cached, const NodePredicate& suits) {
  for (std::size_t i = 0; i < group_.nodes.size(); ++i) {
    if (suits && !suits(group_.nodes[i])) continue;
    cached.nodes.push_back(group_.nodes[i]);
    cached.places.push_back(i);
  }
  evaluations_ += group_.nodes.size();
}

void GroupPlacer::judgeTouched(CachedVerdicts& cached) {
  if (!std::exchange(cached.judged, true)) {
    cached.verdicts = scoreNodes(cluster_, {cached.request}, cached.nodes);
    evaluations_ += cached.nodes.size();
    cached.touched.clear();
  }
  for (const std::size_t place : std::exchange(cached.touched, {})) {
    const auto at = std::lower_bound(cached.places.begin(), cached.places.end(), place);
    if (at == cached.places.end() || *at != place) continue;
    const auto i = static_cast<std::size_t>(at - cached.places.begin());
    cached.verdicts[i] = scoreNodes(cluster_, {cached.request}, {&cached.nodes[i], 1}).front();
  }
}

void GroupPlacer::invalidateNode(std::size_t place) {
  for (CachedVerdicts& cached : cache_)
    if (cached.judged) cached.touched.push_back(place);
}

void GroupPlacer::invalidateAll() {
  for (CachedVerdicts& cached : cache_) cached.judged = false;
}

}  // namespace egpu::scheduler
