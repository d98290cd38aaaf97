// The running controller: reflectors feed the stores, the queue holds keys, workers step them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/optional_mirror.h"
#include "controller/cache/sinks.h"
#include "controller/cache/stores.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/kube/reflector.h"
#include "controller/plugin/provisioner.h"
#include "controller/reconcile/reconciler.h"
#include "controller/workqueue/workqueue.h"

namespace egpu::reconcile {

struct ControllerOptions {
  int workers = 16;
  kube::ReflectorOptions reflector;
  ReconcilerOptions reconciler;
  workqueue::RateLimit rateLimit{std::chrono::milliseconds(5), std::chrono::milliseconds(60'000), 100, 1000};
  std::chrono::milliseconds drain{20'000};
  bool standby = false;                        ///< only mirror, until lead()
  scheduler::Keeping keeping;                  ///< limits of node reservations
  cache::ClusterListener* listener = nullptr;  ///< is told of every decision; must outlive the controller
};

/// All references must outlive it. start() and stop() from one thread; the rest is thread-safe.
class Controller {
 public:
  Controller(kube::Client& client, plugin::Registry& registry, base::Clock& clock, kube::EventSink& events,
             base::Metrics& metrics, ControllerOptions options = {});
  ~Controller();

  /// Starts the reflectors; the workers begin once everything has been listed and, of a standby, lead() was called.
  void start();
  /// A standby's workers may begin. Returns at once; thread-safe.
  void lead();
  /// Another one leads: nothing is begun any more, calls under way are cancelled. Returns at once; thread-safe. stop()
  /// follows.
  void abandon();
  /// Takes no more keys, lets running steps finish (at most options.drain, then their calls are cancelled), joins.
  /// Idempotent.
  void stop();

  /// Everything is listed, and the workers run unless this is a standby.
  bool ready() const { return ready_.load(); }
  bool waitUntilReady(std::stop_token stop = {});
  /// No key is ready or being worked on. Keys that wait for a time (a debounced summary, a back-off) don't count.
  bool quiet() const;

  const cache::Stores& stores() const { return stores_; }
  const cache::ClusterView& cluster() const { return cluster_; }
  const Reconciler& reconciler() const { return reconciler_; }
  /// What a scheduler's extender asks and does.
  Reconciler& reconciler() { return reconciler_; }
  cache::ClusterView& cluster() { return cluster_; }
  /// The workers run: this process's decisions count.
  bool works() const { return ready_.load() && leads_.load(); }
  std::size_t queueDepth() const { return queue_.depth(); }
  /// The key whose step has been running for longest, and since when.
  std::optional<std::pair<std::string, base::Clock::Steady>> longestStep() const { return queue_.longestWork(); }

 private:
  void work(std::stop_token stop);
  void gather(std::stop_token stop);
  bool awaitLead(std::stop_token stop);
  void setReady();
  void enqueueAll();
  std::string tenantOf(const std::string& key) const;

  const ControllerOptions options_;
  base::Metrics& metrics_;
  std::atomic<bool> leads_;  ///< before all that may enqueue
  cache::Stores stores_;
  cache::ClusterView cluster_;
  workqueue::WorkQueue queue_;
  Reconciler reconciler_;

  cache::GpuSink gpuSink_;
  cache::StoreSink<cache::Claim> claimSink_;
  cache::StoreSink<cache::Class> classSink_;
  cache::StoreSink<cache::Quota> quotaSink_;
  cache::PodSink podSink_;
  cache::StoreSink<core::Node> nodeSink_;
  cache::StoreSink<core::ResourceClaim> carrierSink_;
  cache::StoreSink<core::Namespace> namespaceSink_;
  cache::StoreSink<cache::ClaimTemplate> templateSink_;
  cache::StoreSink<core::ResourceClaimTemplate> carrierTemplateSink_;
  cache::StoreSink<core::PriorityClass> priorityClassSink_;
  kube::Reflector<cache::Gpu> gpus_;
  kube::Reflector<cache::Claim> claims_;
  kube::Reflector<cache::Class> classes_;
  kube::Reflector<cache::Quota> quotas_;
  kube::Reflector<core::Pod> pods_;
  kube::Reflector<core::Node> nodes_;
  kube::Reflector<core::ResourceClaim> carriers_;
  kube::Reflector<core::Namespace> namespaces_;
  kube::Reflector<cache::ClaimTemplate> templates_;
  kube::Reflector<core::ResourceClaimTemplate> carrierTemplates_;
  kube::Reflector<core::PriorityClass> priorityClasses_;
  cache::OptionalMirror<core::DeviceTaintRule> taintRules_;
  cache::OptionalMirror<core::PodGroup> podGroups_;

  std::mutex readyMutex_;
  std::condition_variable_any readyChanged_;
  std::atomic<bool> ready_{false};  ///< written with readyMutex_ held, as is leads_
  std::atomic<bool> stopped_{false};
  std::stop_source cancel_;            ///< ends API calls of steps under way
  std::vector<std::jthread> workers_;  ///< filled by starter_, joined after it
  std::jthread starter_;
};

}  // namespace egpu::reconcile
