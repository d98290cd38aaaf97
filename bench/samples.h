// Objects of realistic size for the benchmarks.
#pragma once

#include <string>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/types.h"

namespace egpu::bench {

inline std::string uid(int64_t n) {
  std::string digits = std::to_string(n);
  return "6f1c2d3e-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
}

/// A Bound claim with labels and its three conditions.
inline v1alpha::ElasticGPUClaim claim(int64_t n) {
  v1alpha::ElasticGPUClaim c;
  c.metadata.name = "training-job-" + std::to_string(n);
  c.metadata.namespace_ = "team-" + std::to_string(n % 50);
  c.metadata.uid = uid(n);
  c.metadata.resourceVersion = std::to_string(1'000'000 + n);
  c.metadata.generation = 2;
  c.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
  c.metadata.labels = {{"app", "training"}, {"team", "team-" + std::to_string(n % 50)}};
  c.metadata.finalizers = {std::string(v1alpha::keys::kClaimFinalizer)};
  c.spec.className = "gpushare";
  c.spec.elasticGPUName = "egpu-" + c.metadata.uid;
  c.spec.requests = {{"gpushare.provisioner.elasticgpu.io/gpu-core", "25"},
                     {"gpushare.provisioner.elasticgpu.io/gpu-memory", "8Gi"}};
  c.status.phase = "Bound";
  c.status.elasticGPUName = c.spec.elasticGPUName;
  c.status.nodeName = "node-" + std::to_string(n % 1000);
  c.status.capacity = {{"core", "25%"}, {"memory", "8Gi"}};
  c.status.conditions = {{"Accepted", "True", "Accepted", "", "2026-01-02T03:04:05Z", 1},
                         {"Bound", "True", "Bound", "", "2026-01-02T03:04:06Z", 1}};
  return c;
}

/// The device of claim(n), a share of a card, Bound.
inline v1alpha::ElasticGPU device(int64_t n) {
  const auto claimed = claim(n);
  const auto cardUid = uid(7'000'000 + n / 4);
  v1alpha::ElasticGPU d;
  d.metadata.name = claimed.spec.elasticGPUName;
  d.metadata.uid = uid(3'000'000 + n);
  d.metadata.resourceVersion = std::to_string(2'000'000 + n);
  d.metadata.generation = 1;
  d.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
  d.metadata.labels = {{std::string(v1alpha::keys::kRoleLabel), std::string(v1alpha::keys::kRoleDevice)},
                       {std::string(v1alpha::keys::kNodeLabel), claimed.status.nodeName}};
  d.metadata.finalizers = {std::string(v1alpha::keys::kDeviceFinalizer)};
  d.spec.capacity = claimed.spec.requests;
  auto& source = d.spec.source.emplace();
  source.kind = v1alpha::SourceKind::gpuShare;
  source.gpuNames = {"GPU-" + cardUid};
  d.spec.nodeName = claimed.status.nodeName;
  d.spec.cards = {{"gpu-" + cardUid, "GPU-" + cardUid, 250, int64_t{8} << 30, 250, int64_t{8} << 30}};
  d.spec.provisioner = "gpushare.provisioner.elasticgpu.io";
  d.spec.className = claimed.spec.className;
  d.spec.reclaimPolicy = "Delete";
  d.spec.nodeAffinityRequired = core::NodeSelector{{{{}, {{"metadata.name", "In", {d.spec.nodeName}}}}}};
  d.spec.claimRef = v1alpha::ClaimRef{claimed.metadata.namespace_, claimed.metadata.name, claimed.metadata.uid};
  d.status.phase = "Bound";
  d.status.conditions = {{"Provisioned", "True", "Provisioned", "", "2026-01-02T03:04:05Z", 1}};
  d.status.allocated = v1alpha::AllocatedSummary{250, int64_t{8} << 30, 1, "25%", "8Gi"};
  return d;
}

/// A card with four ledger entries.
inline v1alpha::ElasticGPU card(int64_t n) {
  v1alpha::ElasticGPU g;
  v1alpha::Card c;
  c.uuid = "GPU-" + uid(n);
  c.nodeName = "node-" + std::to_string(n / 8);
  c.index = n % 8;
  c.model = "A100-SXM4-80GB";
  c.smCount = 108;
  c.milliTflops = 312'000;
  c.memory = int64_t{80} << 30;
  g.metadata.name = "gpu-" + uid(n);
  g.metadata.uid = uid(5'000'000 + n);
  g.metadata.resourceVersion = std::to_string(2'000'000 + n);
  g.metadata.creationTimestamp = "2026-01-02T03:04:05Z";
  g.metadata.labels = {{"elasticgpu.io/role", "card"}, {"elasticgpu.io/node", c.nodeName}};
  g.metadata.finalizers = {std::string(v1alpha::keys::kLedgerFinalizer)};
  auto& source = g.spec.source.emplace();
  source.kind = v1alpha::SourceKind::physicalGPU;
  source.gpuNames = {c.uuid};
  g.spec.card = c;
  for (int64_t k = 0; k < 4; ++k)
    g.spec.allocations[uid(n * 4 + k)] = {"egpu-" + uid(n * 4 + k), "team-1/training-job-" + std::to_string(n * 4 + k),
                                          250, int64_t{8} << 30};
  g.status.phase = "Available";
  return g;
}

}  // namespace egpu::bench
