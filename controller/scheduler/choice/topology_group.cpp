#include "controller/scheduler/choice/topology_group.h"

#include <algorithm>
#include <utility>

namespace egpu::scheduler {

InGroup::ChosenNode InGroup::decide(std::size_t kind, Request request, const NodePredicate& suits,
                                    const NodePredicate& open) {
  if (!request.pinnedNode.empty()) {
    const auto node = std::find(group_.nodes.begin(), group_.nodes.end(), request.pinnedNode);
    if (node == group_.nodes.end()) return {};
    return {static_cast<std::size_t>(node - group_.nodes.begin()), scheduler::decide(cluster_, request, open)};
  }
  Known& known = knownOf(kind, request, suits);
  while (true) {
    const std::size_t best = highestScore(known.nodes, known.verdicts);
    if (best == known.nodes.size()) return {};
    if (!open || open(known.nodes[best])) {
      request.pinnedNode = known.nodes[best];
      return {known.places[best], scheduler::decide(cluster_, request)};
    }
    known.verdicts[best].fits = false;
  }
}

InGroup::Known& InGroup::knownOf(std::size_t kind, const Request& request, const NodePredicate& suits) {
  const Known* alike = nullptr;
  for (Known& known : known_) {
    if (known.kind != kind) continue;
    alike = &known;
    if (!(known.request == request)) continue;
    judgeTouched(known);
    return known;
  }
  Known made{kind, request, {}, {}, {}, false, {}};
  if (alike != nullptr) {
    made.nodes = alike->nodes;
    made.places = alike->places;
  } else {
    lookAt(made, suits);
  }
  judgeTouched(made);
  if (known_.size() < kMaxKnown) return known_.emplace_back(std::move(made));
  next_ = (next_ + 1) % kMaxKnown;
  return known_[next_] = std::move(made);
}

void InGroup::lookAt(Known& known, const NodePredicate& suits) {
  for (std::size_t i = 0; i < group_.nodes.size(); ++i) {
    if (suits && !suits(group_.nodes[i])) continue;
    known.nodes.push_back(group_.nodes[i]);
    known.places.push_back(i);
  }
  looks_ += group_.nodes.size();
}

void InGroup::judgeTouched(Known& known) {
  if (!std::exchange(known.judged, true)) {
    known.verdicts = scoreNodes(cluster_, {known.request}, known.nodes);
    looks_ += known.nodes.size();
    known.touched.clear();
  }
  for (const std::size_t place : std::exchange(known.touched, {})) {
    const auto at = std::lower_bound(known.places.begin(), known.places.end(), place);
    if (at == known.places.end() || *at != place) continue;
    const auto i = static_cast<std::size_t>(at - known.places.begin());
    known.verdicts[i] = scoreNodes(cluster_, {known.request}, {&known.nodes[i], 1}).front();
  }
}

void InGroup::touched(std::size_t place) {
  for (Known& known : known_)
    if (known.judged) known.touched.push_back(place);
}

void InGroup::changed() {
  for (Known& known : known_) known.judged = false;
}

}  // namespace egpu::scheduler
