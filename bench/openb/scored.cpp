#include "bench/openb/scored.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace egpu::bench::openb {

Scored::Scored(const Trace& trace) : trace_(trace) {
  std::map<std::string, Models> models;
  for (const TraceNode& node : trace.nodes)
    if (node.cards > 0 && models.try_emplace(node.model, Models{1} << models.size()).second && models.size() > 64)
      throw BadTrace("more than 64 models of card");
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, Models>;
  std::map<Key, std::size_t> known;
  for (const TracePod& pod : trace.pods) {
    Class what{pod.cpuMilli, pod.memoryMib, pod.cards, pod.milli, pod.models.empty() ? ~Models{0} : 0};
    for (const std::string& model : pod.models)
      if (const auto it = models.find(model); it != models.end()) what.models |= it->second;
    const auto [at, first] =
        known.try_emplace({what.cpuMilli, what.memoryMib, what.cards, what.milli, what.models}, classes_.size());
    if (first) classes_.push_back(what);
    classOf_.push_back(at->second);
  }
  std::vector<const TraceNode*> byRank;
  for (const TraceNode& node : trace.nodes) byRank.push_back(&node);
  std::sort(byRank.begin(), byRank.end(), [](const TraceNode* a, const TraceNode* b) { return a->rank < b->rank; });
  for (const TraceNode* node : byRank) {
    ScoredNode& state = nodes_.emplace_back();
    state.cpuMilli = node->cpuMilli;
    state.memoryMib = node->memoryMib;
    if (node->cards > 0) state.model = models.at(node->model);
    state.free.assign(static_cast<std::size_t>(node->cards), 1000);
  }
  scores_.assign(classes_.size(), std::vector<Score>(nodes_.size()));
}

void Scored::begin() {
  for (ScoredNode& state : nodes_) state.fragments = fragmentsOf(state);
}

bool Scored::fits(const ScoredNode& state, const Class& pod) {
  if (state.cpuMilli < pod.cpuMilli || state.memoryMib < pod.memoryMib) return false;
  if (pod.cards == 0) return true;
  if ((pod.models & state.model) == 0) return false;
  return std::count_if(state.free.begin(), state.free.end(), [&](int64_t free) { return free >= pod.milli; }) >=
         pod.cards;
}

std::vector<std::size_t> Scored::cardsFor(const ScoredNode& state, const Class& pod, std::size_t first) {
  std::vector<std::size_t> cards;
  for (std::size_t i = first; i < state.free.size() && static_cast<int64_t>(cards.size()) < pod.cards; ++i)
    if (state.free[i] >= pod.milli) cards.push_back(i);
  return cards;
}

void Scored::change(ScoredNode& state, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign) {
  state.cpuMilli -= sign * pod.cpuMilli;
  state.memoryMib -= sign * pod.memoryMib;
  for (const std::size_t card : cards) state.free[card] -= sign * pod.milli;
}

Scored::Score Scored::scoreOn(const ScoredNode& state, const Class& pod) const {
  Score best;
  best.changes = state.changes;
  if (!fits(state, pod)) return best;
  const std::size_t tries = pod.cards == 1 ? state.free.size() : 1;
  for (std::size_t card = 0; card < tries; ++card) {
    if (pod.cards == 1) {
      const int64_t free = state.free[card];
      if (free < pod.milli) continue;
      const auto here = state.free.begin() + static_cast<std::ptrdiff_t>(card);
      if (std::find(state.free.begin(), here, free) != here) continue;  // an equal card was already tried
    }
    ScoredNode after = state;
    change(after, pod, cardsFor(state, pod, card), 1);
    const double its = score(state, after);
    const bool snugger = snug_ && best.fits && its == best.score && state.free[card] < state.free[best.card];
    if (best.fits && its <= best.score && !snugger) continue;
    best.fits = true;
    best.score = its;
    best.card = card;
  }
  return best;
}

std::optional<Seat> Scored::choose(const TracePod& pod, const Where& where) {
  const std::size_t kind = kindOf(pod);
  const std::size_t first = where.only.value_or(0), end = where.only ? first + 1 : nodes_.size();
  std::optional<std::size_t> best;
  for (std::size_t at = first; at < end; ++at) {
    Score& score = scores_[kind][at];
    if (score.changes != nodes_[at].changes) score = scoreOn(nodes_[at], classes_[kind]);
    if (!score.fits || (best && score.score <= scores_[kind][*best].score) || !where.allows(at)) continue;
    best = at;
  }
  if (!best) return std::nullopt;
  return Seat{*best, cardsFor(nodes_[*best], classes_[kind], scores_[kind][*best].card)};
}

void Scored::changed(std::size_t node, const Class& pod, const std::vector<std::size_t>& cards, int64_t sign) {
  ScoredNode& state = nodes_[node];
  change(state, pod, cards, sign);
  ++state.changes;
  state.fragments = fragmentsOf(state);
}

void Scored::take(const TracePod& pod, uint64_t, const Seat& seat) {
  changed(seat.node, classes_[kindOf(pod)], seat.cards, 1);
}

void Scored::giveBack(const TracePod& pod, uint64_t, const Seat& seat) {
  changed(seat.node, classes_[kindOf(pod)], seat.cards, -1);
}

BestFit::BestFit(const Trace& trace) : Scored(trace) {
  snug_ = true;
  for (const ScoredNode& state : nodes_) {
    maxCpu_ = std::max(maxCpu_, static_cast<double>(state.cpuMilli));
    maxMilli_ = std::max(maxMilli_, 1000 * static_cast<double>(state.free.size()));
  }
}

double BestFit::score(const ScoredNode&, const ScoredNode& after) const {
  const auto cpu = static_cast<double>(after.cpuMilli);
  const auto milli = static_cast<double>(std::accumulate(after.free.begin(), after.free.end(), int64_t{0}));
  return std::floor(100 * (1 - 0.5 * cpu / maxCpu_ - 0.5 * milli / maxMilli_));
}

}  // namespace egpu::bench::openb
