// All steps of the state machine behind one call: step(key). The controller's workers and the tests call the same
// function.
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

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/cluster_view.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/card/auditor.h"
#include "controller/reconcile/card/sweeper.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/carrier.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/claim/stock.h"
#include "controller/reconcile/claim/usage.h"
#include "controller/reconcile/claim/waiting.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/device/device.h"
#include "controller/reconcile/device/provisioning.h"
#include "controller/reconcile/pod/pod.h"
#include "controller/reconcile/pod/pod_binder.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/quota/quota.h"
#include "controller/reconcile/routing.h"
#include "controller/reconcile/template/template.h"
#include "controller/reconcile/writer.h"

namespace egpu::reconcile {

struct ReconcilerOptions {
  int callsPerPlugin = 4;  ///< at once; fewer than there are workers
  AuditorOptions auditor;
  std::chrono::milliseconds usageEvery{60'000};  ///< between two writes of what a claim uses
  std::set<std::string> otherSchedulers;         ///< they choose the nodes of their pods (ChosenNodes::leaveTo)
  /// Schedulers that place pods on the nodes that are chosen here.
  std::set<std::string> schedulers{std::string(core::kDefaultScheduler)};
};

/// Thread-safe; a key must be stepped by one thread at a time. All references must outlive it.
class Reconciler {
 public:
  using Enqueue = std::function<void(const std::string& queueKey)>;
  /// `enqueue` is called from any thread, also from within step(). Steps use client.brief(): a step that fails ends,
  /// and its key is what is tried again.
  Reconciler(kube::Client& client, cache::Stores& stores, cache::ClusterView& cluster, plugin::Registry& registry,
             base::Clock& clock, kube::EventSink& events, base::Metrics& metrics, Enqueue enqueue,
             ReconcilerOptions options = {});

  /// One pass over what the key stands for. Blocks for API and plugin calls.
  Outcome step(const std::string& queueKey, std::stop_token stop = {});
  /// What no watch brings: the plugins' lists. Once at the start.
  void enqueueStart();

  /// For schedulers that choose nodes themselves. Steps must be made meanwhile.
  PodDemand demandOf(const core::Pod& pod) { return pods_.demandOf(pod); }
  /// Whether any node is not tried now for one of these claims; whether this one isn't (nodes_left_alone.h).
  bool leavesAnyAlone(const std::vector<cache::ClusterView::Ask>& asks) const;
  bool leavesAlone(const std::vector<cache::ClusterView::Ask>& asks, std::string_view node) const;
  base::Status bindPod(const core::ObjectKey& pod, const std::string& uid, const std::string& node,
                       std::chrono::milliseconds within, std::stop_token stop) {
    return podBinder_.bind(pod, uid, node, within, std::move(stop));
  }

  /// Empty, or why the device's plugin never resizes it.
  std::string cannotResize(const cache::Gpu& device) const { return provisioning_.cannotResize(device); }
  std::map<std::string, int64_t> drift() const { return auditor_.drift(); }
  std::size_t waitingForRoom() const { return waiting_.room.size(); }
  /// Whether the key's step goes before others of its namespace, so that pods run before further claims are made and
  /// decided: it has the turn for room that became free, it is a claim that has a device and is not Bound yet, or a pod
  /// whose claims can be decided or are carried. Called by the queue, with its lock held.
  bool goesFirst(const std::string& queueKey) const;
  /// Claims, pods and carriers of which something is remembered; for tests.
  std::size_t remembered() const {
    return waiting_.claims() + pods_.remembered() + carrier_.remembered() + stock_.remembered() +
           templates_.remembered();
  }

 private:
  /// The states of a claim one after the other, as long as each leads to the next one at once.
  Outcome claim(const core::ObjectKey& key, std::stop_token stop);
  /// Whether the key has the turn for room, or for a search for victims.
  bool hasTurn(const std::string& queueKey) const;
  /// It has a device and is not Bound yet.
  bool isBeingBound(const cache::Claim& claim) const;
  /// It waits for its first consumer, for which no node was looked for in vain.
  bool awaitsFirstChoice(const cache::Claim& claim) const;
  /// It waits for our gate alone, and each of its claims is Bound, is carried, or is to be decided for the first time.
  bool isNearRunning(const core::Pod& pod) const;
  Outcome gang(const core::ObjectKey& key, std::stop_token stop);
  Outcome pod(const core::ObjectKey& key, std::stop_token stop);
  Outcome node(const std::string& name);
  Outcome calls(const std::string& plugin, std::stop_token stop);
  /// Ends what is kept for claims that want it no longer; those that may are asked.
  Outcome kept();
  /// Turns of those that wait for room.
  Outcome room();
  /// Whether the room that there is now may suit it.
  bool mayFit(const RoomNeeds& needs);
  Outcome stepOf(const QueueKey& key, std::stop_token stop);
  /// Writes what a step says on claims.
  Outcome say(Outcome outcome, std::stop_token stop);
  void count(const QueueKey& key, const Outcome& outcome, base::Clock::Steady start);

  cache::Stores& stores_;
  cache::ClusterView& cluster_;
  base::Clock& clock_;
  base::Metrics& metrics_;
  plugin::Registry& registry_;
  const Enqueue enqueue_;
  kube::Client client_;  ///< brief
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
  Carrier carrier_;
  StockSync stock_;
  TemplateSync templates_;
  ClaimSync claims_;
  DeviceSync devices_;
  ClaimUse use_;
  QuotaSync quotas_;
  PodSync pods_;
  PodBinder podBinder_;
  Sweeper sweeper_;
  Auditor auditor_;
  Routing routing_;
  std::atomic<bool> watchingAssumed_{false};  ///< assumedKey() is queued
  std::atomic<bool> watchingKept_{false};     ///< keptKey() is
};

}  // namespace egpu::reconcile
