// All steps of the state machine behind one call: step(key). The controller's workers and the tests call it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/card/auditor.h"
#include "controller/reconcile/card/sweeper.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/usage.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/device.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/pod/pod.h"
#include "controller/reconcile/pod/pod_binder.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/quota/quota.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/resourceclaim/bridge.h"
#include "controller/reconcile/retry/waiting.h"
#include "controller/reconcile/routing.h"
#include "controller/reconcile/template/template.h"
#include "controller/reconcile/timeouts.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

struct ReconcilerOptions {
  int callsPerPlugin = 4;  ///< concurrent calls per plugin; must be fewer than the workers
  AuditorOptions auditor;
  Timeouts timeouts{};
  std::set<std::string> otherSchedulers;  ///< these choose the nodes of their pods (ChosenNodes::leaveTo)
  /// Schedulers that place pods on the nodes that the controller chooses.
  std::set<std::string> schedulers{std::string(core::kDefaultScheduler)};
};

/// Thread-safe; a key must be stepped by one thread at a time. All references must outlive it.
class Reconciler {
 public:
  using Enqueue = std::function<void(const std::string& queueKey)>;
  /// `enqueue` is called from any thread, also from within step(). Steps use client.brief(): calls are not retried,
  /// because a failed step ends and its key is retried.
  Reconciler(kube::Client& client, cache::Stores& stores, allocator::Allocator& cluster, plugin::Registry& registry,
             base::Clock& clock, kube::EventSink& events, base::Metrics& metrics, Enqueue enqueue,
             ReconcilerOptions options = {});

  /// Runs one step of the key. Blocks for API and plugin calls.
  Outcome step(const std::string& queueKey, std::stop_token stop = {});
  /// Enqueues keys that no watch enqueues: the plugins' lists and templates. Call once at the start.
  void enqueueStart();

  /// For schedulers that choose nodes themselves. Steps must be running.
  PodDemand demandOf(const core::Pod& pod) { return pods_.demand().demandOf(pod); }
  /// True if any node is backed off for one of these claims (node_backoff.h).
  bool hasRejectedNode(const std::vector<allocator::Allocator::SchedulingRequest>& asks) const;
  /// True if this node is backed off for one of these claims.
  bool isNodeRejected(const std::vector<allocator::Allocator::SchedulingRequest>& asks, std::string_view node) const;
  base::Status bindPod(const core::ObjectKey& pod, const std::string& uid, const std::string& node,
                       std::chrono::milliseconds within, std::stop_token stop) {
    return podBinder_.bind(pod, uid, node, within, std::move(stop));
  }

  /// Why the device's plugin never resizes it; empty if it may.
  std::string cannotResize(const cache::Gpu& device) const { return provisioning_.cannotResize(device); }
  std::map<std::string, int64_t> drift() const { return auditor_.drift(); }
  std::size_t waitingForCapacity() const { return waiting_.unschedulable.size(); }
  /// True if the key's step precedes other keys of its namespace, so that pods run before further claims are created
  /// and decided: it has the turn for freed capacity, it is a claim with a device that is not Bound yet, or a pod whose
  /// claims can be decided or are allocated. Called by the queue, with its lock held.
  bool goesFirst(const std::string& queueKey) const;
  /// Number of claims, pods and ResourceClaims with state here; for tests.
  std::size_t remembered() const {
    return waiting_.claims() + pods_.remembered() + resourceClaim_.remembered() + adopter_.remembered() +
           templates_.remembered();
  }

 private:
  /// Runs the states of a claim one after the other, as long as each leads to the next one at once.
  Outcome claim(const core::ObjectKey& key, std::stop_token stop);
  /// True if the key has the turn for capacity, or for a search for victims.
  bool isCurrent(const std::string& queueKey) const;
  /// True if the claim has a device and is not Bound yet.
  bool isBeingBound(const cache::Claim& claim) const;
  /// True if the claim waits for its first consumer, and no search for a node has failed.
  bool awaitsFirstChoice(const cache::Claim& claim) const;
  /// True if the pod waits for our gate alone, and each of its claims is Bound, is allocated, or is undecided so far.
  bool isNearRunning(const core::Pod& pod) const;
  Outcome gang(const core::ObjectKey& key, std::stop_token stop);
  Outcome pod(const core::ObjectKey& key, std::stop_token stop);
  Outcome node(const std::string& name);
  Outcome calls(const std::string& plugin, std::stop_token stop);
  /// Expires reservations that were not renewed, and enqueues the owners that should renew.
  Outcome renewReservations();
  /// Gives turns to keys that wait for capacity.
  Outcome requeueUnschedulable();
  Outcome explain();
  /// True if the capacity that is free now may suit the needs.
  bool mayFit(const CapacityNeeds& needs);
  Outcome stepOf(const QueueKey& key, std::stop_token stop);
  /// Writes the condition updates of a step.
  Outcome report(Outcome outcome, std::stop_token stop);
  void count(const QueueKey& key, const Outcome& outcome, base::Clock::Steady start);

  const Timeouts timeouts_;
  cache::Stores& stores_;
  allocator::Allocator& cluster_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  plugin::Registry& registry_;
  const Enqueue enqueue_;
  kube::Client client_;  ///< without retries
  StatusAlternations alternations_;
  Writer writer_;
  Waiting waiting_;
  Provisioning provisioning_;
  ClaimStatus status_;
  ApiRejections apiRejections_;
  ClassSync classes_;
  Binder binder_;
  BoundVolumes volumes_;
  Users users_;
  ResourceClaimBridge resourceClaim_;
  ResourceClaimAdopter adopter_;
  TemplateSync templates_;
  ClaimContext claimContext_;
  ClaimParts claimParts_;
  ClaimSync claims_;
  DeviceSync devices_;
  ClaimUse use_;
  QuotaSync quotas_;
  PodSync pods_;
  PodBinder podBinder_;
  Sweeper sweeper_;
  Auditor auditor_;
  Routing routing_;
  std::atomic<bool> watchingAssumed_{false};       ///< assumedKey() is queued
  std::atomic<bool> watchingReservations_{false};  ///< reservationsKey() is queued
};

}  // namespace egpu::reconcile
