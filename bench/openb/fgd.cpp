#include "bench/openb/fgd.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace egpu::bench::openb {
namespace {

constexpr double kTypical = 0.95;

}  // namespace

Fgd::Fgd(const Trace& trace) : trace_(trace) {
  std::map<std::string, Models> models;
  for (const Node& node : trace.nodes)
    if (node.cards > 0 && models.try_emplace(node.model, Models{1} << models.size()).second && models.size() > 64)
      throw BadTrace("fgd: more than 64 models of card");
  // Which classes are typical does not depend on memory; whether a pod fits does.
  using Key = std::tuple<int64_t, int64_t, int64_t, Models>;
  std::map<Key, std::size_t> kinds;
  std::vector<std::pair<int64_t, Class>> counted;
  std::map<std::tuple<Key, int64_t>, std::size_t> known;
  for (const Pod& pod : trace.pods) {
    Class what{pod.cpuMilli, pod.memoryMib, pod.cards, pod.milli, pod.models.empty() ? ~Models{0} : 0};
    for (const std::string& model : pod.models)
      if (const auto it = models.find(model); it != models.end()) what.models |= it->second;
    const Key key{what.cpuMilli, what.cards, what.milli, what.models};
    const auto [kind, isNew] = kinds.try_emplace(key, counted.size());
    if (isNew) counted.push_back({0, what});
    ++counted[kind->second].first;
    const auto [at, first] = known.try_emplace({key, what.memoryMib}, classes_.size());
    if (first) classes_.push_back(what);
    classOf_.push_back(at->second);
  }
  std::stable_sort(counted.begin(), counted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const double all = static_cast<double>(trace.pods.size());
  double sum = 0;
  for (const auto& [count, what] : counted) {
    if (sum >= kTypical * all) break;
    sum += static_cast<double>(count);
    typical_.push_back({what, static_cast<double>(count)});
  }
  for (Typical& each : typical_) each.part /= sum;

  std::vector<const Node*> byRank;
  for (const Node& node : trace.nodes) byRank.push_back(&node);
  std::sort(byRank.begin(), byRank.end(), [](const Node* a, const Node* b) { return a->rank < b->rank; });
  for (const Node* node : byRank) {
    State& state = nodes_.emplace_back();
    state.cpuMilli = node->cpuMilli;
    state.memoryMib = node->memoryMib;
    if (node->cards > 0) state.model = models.at(node->model);
    state.free.assign(static_cast<std::size_t>(node->cards), 1000);
    state.fragments = fragmentsOf(state);
  }
  scores_.assign(classes_.size(), std::vector<Score>(nodes_.size()));
}

double Fgd::fragmentsOf(const State& state) const {
  double idle = 0, sum = 0;
  for (const int64_t free : state.free) idle += static_cast<double>(free);
  for (const Typical& each : typical_) {
    double unused = 0;
    int64_t fitting = 0;
    for (const int64_t free : state.free) {
      if (free >= each.what.milli) {
        ++fitting;
      } else {
        unused += static_cast<double>(free);
      }
    }
    const bool none = each.what.cards == 0 || (each.what.models & state.model) == 0 ||
                      state.cpuMilli < each.what.cpuMilli || fitting < each.what.cards;
    sum += each.part * (none ? idle : unused);
  }
  return sum;
}

bool Fgd::fits(const State& state, const Class& pod) {
  if (state.cpuMilli < pod.cpuMilli || state.memoryMib < pod.memoryMib) return false;
  if (pod.cards == 0) return true;
  if ((pod.models & state.model) == 0) return false;
  int64_t fitting = 0;
  for (const int64_t free : state.free) fitting += free >= pod.milli ? 1 : 0;
  return fitting >= pod.cards;
}

void Fgd::take(State& state, const Class& pod, std::size_t card) {
  state.cpuMilli -= pod.cpuMilli;
  state.memoryMib -= pod.memoryMib;
  if (pod.cards == 1) {
    state.free[card] -= pod.milli;
    return;
  }
  int64_t left = pod.cards;
  for (int64_t& free : state.free) {
    if (left == 0 || free < pod.milli) continue;
    free -= pod.milli;
    --left;
  }
}

Fgd::Score Fgd::scoreOn(const State& state, const Class& pod) const {
  Score best;
  best.changes = state.changes;
  if (!fits(state, pod)) return best;
  const std::size_t tries = pod.cards == 1 ? state.free.size() : 1;
  for (std::size_t card = 0; card < tries; ++card) {
    if (pod.cards == 1) {
      const int64_t free = state.free[card];
      if (free < pod.milli) continue;
      if (std::find(state.free.begin(), state.free.begin() + static_cast<std::ptrdiff_t>(card), free) !=
          state.free.begin() + static_cast<std::ptrdiff_t>(card))
        continue;  // an equal card was tried
    }
    State after = state;
    take(after, pod, card);
    const double change = state.fragments - fragmentsOf(after);
    const auto score = static_cast<int32_t>(100 / (1 + std::exp(-change / 1000)));
    if (score <= best.score) continue;
    best.score = score;
    best.card = static_cast<int32_t>(card);
  }
  return best;
}

bool Fgd::place(const Pod& pod) {
  const std::size_t kind = classOf_[static_cast<std::size_t>(&pod - trace_.pods.data())];
  const Class& what = classes_[kind];
  std::size_t best = nodes_.size();
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    Score& score = scores_[kind][at];
    if (score.changes != nodes_[at].changes) score = scoreOn(nodes_[at], what);
    if (score.score >= 0 && (best == nodes_.size() || score.score > scores_[kind][best].score)) best = at;
  }
  if (best == nodes_.size()) return false;
  State& state = nodes_[best];
  take(state, what, static_cast<std::size_t>(scores_[kind][best].card));
  ++state.changes;
  state.fragments = fragmentsOf(state);
  return true;
}

}  // namespace egpu::bench::openb
