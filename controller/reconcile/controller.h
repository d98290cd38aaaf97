// The running controller: reflectors fill the stores, the queue holds keys, and workers step the keys.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/metrics.h"
#include "controller/base/mutex.h"
#include "controller/cache/optional_informer.h"
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
  bool standby = false;                            ///< mirrors only, until lead()
  scheduler::ReservationLimits reservationLimits;  ///< limits of node reservations
  allocator::ClusterListener* listener = nullptr;  ///< receives every decision; must outlive the controller
};

/// All references must outlive it. Call start() and stop() from one thread; all other functions are thread-safe.
class Controller {
 public:
  Controller(kube::Client& client, plugin::Registry& registry, base::Clock& clock, kube::EventSink& events,
             base::Metrics& metrics, ControllerOptions options = {});
  ~Controller();

  /// Starts the reflectors. The workers start after all lists and, on a standby, after lead().
  void start();
  /// Lets a standby's workers start. Returns at once; thread-safe.
  void lead();
  /// Stops leading because another process leads: starts no further step, and cancels running calls. Returns at once;
  /// thread-safe. Call stop() afterwards.
  void abandon();
  /// Takes no more keys, waits for running steps (at most options.drain, then cancels their calls), and joins.
  /// Idempotent.
  void stop();

  /// True if all lists are complete and the workers run; a standby needs the lists only.
  bool ready() const { return ready_.load(); }
  bool waitUntilReady(std::stop_token stop = {});
  /// True if no key is ready or being stepped. Keys that are delayed (a debounced summary, a backoff) do not count.
  bool quiet() const;

  const cache::Stores& stores() const { return stores_; }
  cache::Stores& stores() { return stores_; }  ///< to register listeners, before start()
  const allocator::Allocator& cluster() const { return cluster_; }
  const Reconciler& reconciler() const { return reconciler_; }
  /// For a scheduler's extender.
  Reconciler& reconciler() { return reconciler_; }
  allocator::Allocator& cluster() { return cluster_; }
  /// True if the workers run, so that this process decides.
  bool works() const { return ready_.load() && leads_.load(); }
  std::size_t queueDepth() const { return queue_.depth(); }
  /// Key of the step that has run longest, and its start.
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
  std::atomic<bool> leads_;  ///< initialised before all members that may enqueue
  cache::Stores stores_;
  allocator::Allocator cluster_;
  workqueue::WorkQueue queue_;
  Reconciler reconciler_;

  cache::GpuSink gpuSink_;
  cache::StoreSink<cache::Claim> claimSink_;
  cache::StoreSink<cache::Class> classSink_;
  cache::StoreSink<cache::Quota> quotaSink_;
  cache::PodSink podSink_;
  cache::StoreSink<core::Node> nodeSink_;
  cache::StoreSink<core::ResourceClaim> resourceClaimSink_;
  cache::StoreSink<core::Namespace> namespaceSink_;
  cache::StoreSink<cache::ClaimTemplate> templateSink_;
  cache::StoreSink<core::ResourceClaimTemplate> resourceClaimTemplateSink_;
  cache::StoreSink<core::PriorityClass> priorityClassSink_;
  kube::Reflector<cache::Gpu> gpus_;
  kube::Reflector<cache::Claim> claims_;
  kube::Reflector<cache::Class> classes_;
  kube::Reflector<cache::Quota> quotas_;
  kube::Reflector<core::Pod> pods_;
  kube::Reflector<core::Node> nodes_;
  kube::Reflector<core::ResourceClaim> resourceClaims_;
  kube::Reflector<core::Namespace> namespaces_;
  kube::Reflector<cache::ClaimTemplate> templates_;
  kube::Reflector<core::ResourceClaimTemplate> resourceClaimTemplates_;
  kube::Reflector<core::PriorityClass> priorityClasses_;
  cache::OptionalMirror<core::DeviceTaintRule> taintRules_;
  cache::OptionalMirror<core::PodGroup> podGroups_;

  base::Mutex readyMutex_;
  std::condition_variable_any readyChanged_;
  std::atomic<bool> ready_{false};  ///< ready_ and leads_ are written with readyMutex_ held
  std::atomic<bool> stopped_{false};
  std::stop_source cancel_;            ///< cancels API calls of running steps
  std::vector<std::jthread> workers_;  ///< filled by starter_, joined after it
  std::jthread starter_;
};

}  // namespace egpu::reconcile
