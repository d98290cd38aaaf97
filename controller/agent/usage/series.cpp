#include "controller/agent/usage/series.h"

#include <algorithm>

namespace egpu::agent::usage {

namespace {

constexpr double kPercent = 100, kMilli = 1000;

}  // namespace

void Series::set(Shown& now, const std::string& name, double value, const base::MetricLabels& labels) {
  if (value < 0) return;  // unknown
  metrics_.set(name, value, labels);
  now.emplace(name, labels);
}

void Series::showCard(Shown& now, const CardUse& card) {
  const base::MetricLabels labels = {{"UUID", card.uuid}, {"Hostname", node_}, {"modelName", card.model}};
  set(now, "elasticgpu_card_memory_used_bytes", static_cast<double>(card.used.memory), labels);
  set(now, "elasticgpu_card_sm_utilisation_ratio", static_cast<double>(card.used.smPercent) / kPercent, labels);
  set(now, "elasticgpu_card_processes", static_cast<double>(card.used.processes), labels);
}

void Series::showClaim(Shown& now, const ClaimUse& claim) {
  const base::MetricLabels labels = {
      {"UUID", claim.card}, {"namespace", claim.namespace_}, {"claim", claim.claim}, {"pod", claim.pod}};
  set(now, "elasticgpu_claim_memory_used_bytes", static_cast<double>(claim.used.memory), labels);
  set(now, "elasticgpu_claim_sm_utilisation_ratio", static_cast<double>(claim.used.smPercent) / kPercent, labels);
  set(now, "elasticgpu_claim_processes", static_cast<double>(claim.used.processes), labels);
  // A claim without an amount has no limit to export.
  if (claim.memory > 0) set(now, "elasticgpu_claim_memory_limit_bytes", static_cast<double>(claim.memory), labels);
  if (claim.core > 0) set(now, "elasticgpu_claim_core_limit_ratio", static_cast<double>(claim.core) / kMilli, labels);
}

void Series::show(const Usage& usage, const std::vector<MigInstance>& instances) {
  Shown now;
  for (const auto& card : usage.cards) showCard(now, card);
  const auto shown = std::min(usage.claims.size(), kMaxSeries);
  for (std::size_t i = 0; i < shown; ++i) showClaim(now, usage.claims[i]);
  set(now, "elasticgpu_claim_series_left_out", static_cast<double>(usage.claims.size() - shown), {});
  // dcgm-exporter has the labels UUID and GPU_I_ID, and no label with the claim of an instance.
  for (const auto& each : instances)
    set(now, "elasticgpu_mig_instance_info", 1,
        {{"UUID", each.card},
         {"GPU_I_ID", each.gpuInstance},
         {"mig_uuid", each.uuid},
         {"profile", each.profile},
         {"namespace", each.namespace_},
         {"claim", each.claim}});
  for (const auto& [name, labels] : shown_)
    if (now.count({name, labels}) == 0) metrics_.forget(name, labels);
  shown_ = std::move(now);
}

}  // namespace egpu::agent::usage
