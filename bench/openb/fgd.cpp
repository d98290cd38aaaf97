#include "bench/openb/fgd.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace egpu::bench::openb {
namespace {

constexpr double kTypical = 0.95;

}  // namespace

Fgd::Fgd(const Trace& trace) : Scored(trace) {
  // Typical classes do not depend on memory; whether a pod fits does.
  std::map<std::tuple<int64_t, int64_t, int64_t, Models>, std::size_t> kinds;
  std::vector<std::pair<int64_t, Class>> counted;
  for (const std::size_t kind : classOf_) {
    const Class& what = classes_[kind];
    const auto [at, isNew] = kinds.try_emplace({what.cpuMilli, what.cards, what.milli, what.models}, counted.size());
    if (isNew) counted.push_back({0, what});
    ++counted[at->second].first;
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
  begin();
}

double Fgd::fragmentsOf(const ScoredNode& state) const {
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

double Fgd::score(const ScoredNode& before, const ScoredNode& after) const {
  const double change = before.fragments - fragmentsOf(after);
  return std::floor(100 / (1 + std::exp(-change / 1000)));
}

}  // namespace egpu::bench::openb
