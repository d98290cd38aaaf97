// The metrics of what is used. Their labels join with dcgm-exporter's by UUID.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "controller/agent/usage/usage.h"
#include "controller/base/metrics.h"

namespace egpu::agent::usage {

/// Label sets of claims (claim, pod, card) that are shown; the others are counted. As many as a node of eight cards has
/// when each is shared by 128.
inline constexpr std::size_t kMostSeries = 1024;

/// Of one thread at a time.
class Series {
 public:
  /// metrics must outlive it.
  Series(base::Metrics& metrics, std::string node) : metrics_(metrics), node_(std::move(node)) {}

  /// Shows this, and nothing more of what was shown before. What is unknown has no series.
  void show(const Usage& usage);

 private:
  using Shown = std::set<std::pair<std::string, base::MetricLabels>>;
  void set(Shown& now, const std::string& name, double value, const base::MetricLabels& labels);
  void showCard(Shown& now, const CardUse& card);
  void showClaim(Shown& now, const ClaimUse& claim);

  base::Metrics& metrics_;
  const std::string node_;
  Shown shown_;
};

}  // namespace egpu::agent::usage
