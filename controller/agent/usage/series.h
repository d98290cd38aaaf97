// Exports usage as metrics. The label UUID allows joins with the metrics of dcgm-exporter.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/agent/usage/mig_instances.h"
#include "controller/agent/usage/usage.h"
#include "controller/base/metrics.h"

namespace egpu::agent::usage {

/// Maximum number of label sets of claims (claim, pod, card) that are exported; the number of omitted sets is a metric.
/// Suffices for eight cards, each shared by 128 claims.
inline constexpr std::size_t kMaxSeries = 1024;

/// Not thread-safe.
class Series {
 public:
  /// `metrics` must outlive this object.
  Series(base::Metrics& metrics, std::string node) : metrics_(metrics), node_(std::move(node)) {}

  /// Exports usage and instances, and removes series that were exported earlier but are not part of them. Unknown
  /// values have no series.
  void show(const Usage& usage, const std::vector<MigInstance>& instances = {});

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
