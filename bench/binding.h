// Shared by the benchmarks of binding: binds claims with the controller, and sends the same writes raw.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1alpha/keys.h"
#include "bench/binding_site.h"
#include "bench/measure.h"
#include "controller/codec/patch.h"
#include "controller/reconcile/controller.h"
#include "controller/scheduler/decide.h"

namespace egpu::bench {

namespace keys = v1alpha::keys;

/// Returns the seconds that a controller with synced caches needs to bind all `claims` of the site. The cold start has
/// a benchmark of its own; included here it would distort runs with few claims more than runs with many.
inline double bindAll(BindingSite& site, int claims, int workers) {
  reconcile::ControllerOptions options;
  options.workers = workers;
  options.standby = true;
  reconcile::Controller controller(site.client, site.plugins, site.clock, site.events, site.metrics, options);
  controller.start();
  (void)controller.waitUntilReady();
  const auto start = std::chrono::steady_clock::now();
  controller.lead();
  // Reads the controller's own cache: requests to the server would slow it down.
  while (true) {
    int64_t n = 0;
    controller.stores().claims.forEach([&](const auto& c) { n += c->status.phase == "Bound" ? 1 : 0; });
    if (n == claims) break;
    if (secondsSince(start) > 600)
      must(base::Status(base::Code::deadline, std::to_string(n) + " claims bound after ten minutes"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const double took = secondsSince(start);
  controller.stop();
  if (site.bound() != claims) std::abort();
  return took;
}

/// The controller's decision for one claim.
struct ClaimDecision {
  v1alpha::ElasticGPUClaim claim;
  std::string node;
  v1alpha::DeviceCard card;
  std::string cardUid;
};

/// Decides for the claims one by one in list order, as the controller does. The raw writes thus contend for the same
/// cards, and the ledgers grow equally.
class Decisions {
 public:
  explicit Decisions(BindingSite& site) : class_(must(site.client.get<v1alpha::ElasticGPUClass>({"", "share"}))) {
    for (const auto& gpu : must(site.client.listAll<v1alpha::ElasticGPU>({}))) {
      if (!gpu.spec.card) continue;
      cluster_.upsertNode({gpu.spec.card->nodeName, true});
      cluster_.upsertCard({gpu.metadata.name, *gpu.spec.card});
      uids_[gpu.metadata.name] = gpu.metadata.uid;
      for (const auto& [device, entry] : gpu.spec.allocations)
        cluster_.take(gpu.metadata.name, device, {entry.core, entry.memory});
    }
  }
  ClaimDecision next(v1alpha::ElasticGPUClaim claim) {
    const auto request = scheduler::makeRequest(claim, class_);
    const scheduler::Decision decision = scheduler::decide(cluster_, std::get<scheduler::Request>(request));
    if (!decision.fits) std::abort();
    const scheduler::Placement& on = decision.placements.front();
    cluster_.take(on.ref(), claim.metadata.uid, on.charged);
    return {std::move(claim),
            decision.node,
            {on.card, on.uuid, on.granted.core, on.granted.memory, on.charged.core, on.charged.memory},
            uids_.at(on.card)};
  }

 private:
  v1alpha::ElasticGPUClass class_;
  scheduler::Cluster cluster_;
  std::map<std::string, std::string> uids_;  // card name → uid
};

/// Sends the writes W1, W2, W4, W5 and W6 of one claim, as the controller does.
inline void rawBind(kube::Client& client, const ClaimDecision& share) {
  const v1alpha::ElasticGPUClaim& claim = share.claim;
  const v1alpha::DeviceCard& card = share.card;
  const core::ObjectKey key = core::keyOf(claim.metadata);
  v1alpha::ElasticGPU d;
  d.metadata.name = std::string(keys::kDevicePrefix) + claim.metadata.uid;
  d.metadata.labels = {{std::string(keys::kRoleLabel), std::string(keys::kRoleDevice)},
                       {std::string(keys::kNodeLabel), share.node}};
  d.metadata.finalizers = {std::string(keys::kDeviceFinalizer)};
  auto& source = d.spec.source.emplace();
  source.kind = v1alpha::SourceKind::gpuShare;
  source.gpuNames = {card.name};
  d.spec.nodeName = share.node;
  d.spec.cards = {card};
  d.spec.provisioner = "gpushare.provisioner.elasticgpu.io";
  d.spec.className = "share";
  d.spec.reclaimPolicy = "Delete";
  d.spec.nodeAffinityRequired = core::NodeSelector{{{{}, {{"metadata.name", "In", {d.spec.nodeName}}}}}};
  d.spec.claimRef = v1alpha::ClaimRef{key.namespace_, key.name, claim.metadata.uid};
  const auto made = must(client.create(d));
  must(client
           .patch<v1alpha::ElasticGPU>(
               {"", card.name}, kube::PatchType::merge,
               codec::patch::ledgerEntry(share.cardUid, made.metadata.uid,
                                         {d.metadata.name, key.str(), card.chargedCore, card.chargedMemory}))
           .status());
  v1alpha::ElasticGPUStatus gpuStatus;
  gpuStatus.phase = "Bound";
  must(client
           .patch<v1alpha::ElasticGPU>(
               {"", d.metadata.name}, kube::PatchType::merge,
               codec::patch::gpuStatus(made.metadata.uid, made.metadata.resourceVersion, {}, gpuStatus), "status")
           .status());
  const auto named = must(client.patch<v1alpha::ElasticGPUClaim>(
      key, kube::PatchType::merge,
      codec::patch::claimBind(claim.metadata.uid, claim.metadata.resourceVersion, {std::string(keys::kClaimFinalizer)},
                              d.metadata.name)));
  v1alpha::ElasticGPUClaimStatus status;
  status.phase = "Bound";
  status.elasticGPUName = d.metadata.name;
  status.nodeName = d.spec.nodeName;
  status.capacity = {{"core", "2%"}, {"memory", "1Gi"}};
  status.conditions = {{"Accepted", "True", "Accepted", "", "2026-01-02T03:04:05Z", 1},
                       {"Bound", "True", "Bound", "", "2026-01-02T03:04:05Z", 1}};
  must(client
           .patch<v1alpha::ElasticGPUClaim>(
               key, kube::PatchType::merge,
               codec::patch::claimStatus(claim.metadata.uid, named.metadata.resourceVersion, {}, status), "status")
           .status());
}

/// Returns the seconds that the same writes take without watches and decisions, with `inFlight` claims at once.
inline double rawBindAll(BindingSite& site, int inFlight) {
  Decisions decisions(site);
  std::vector<ClaimDecision> shares;
  for (auto& claim : must(site.client.listAll<v1alpha::ElasticGPUClaim>({})))
    shares.push_back(decisions.next(std::move(claim)));
  std::atomic<std::size_t> next{0};
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < inFlight; ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < shares.size(); i = next++) rawBind(site.client, shares[i]);
      });
  }
  const double took = secondsSince(start);
  if (site.bound() != static_cast<int64_t>(shares.size())) std::abort();
  return took;
}

}  // namespace egpu::bench
