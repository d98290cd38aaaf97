// A controller that acts only when the test lets it: the real stores, reconciler and codec, a queue without threads,
// and watches that are read on demand. The controller is idle exactly when the queue is empty and every watch is read
// up to the server's version.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/cache/sinks.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/reconciler.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/handler_transport.h"
#include "tests/support/write_observer.h"

namespace egpu::support {

/// Records events.
class EventLog final : public kube::EventSink {
 public:
  void event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
             std::string_view message) override;
  std::vector<std::string> lines() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Records gauges.
class Gauges final : public base::Metrics {
 public:
  double gauge(const std::string& name) const;
  void add(std::string_view, double, const base::MetricLabels&) override {}
  void set(std::string_view gauge, double value, const base::MetricLabels&) override;
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void forget(std::string_view, const base::MetricLabels&) override {}

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> gauges_;
};

/// Faults between server and store. Events of one kind's watch are counted from 0.
struct WatchFaults {
  int lose = -1;    ///< this event is lost; the next poll after `holdPolls` polls lists again
  int repeat = -1;  ///< this event and all earlier ones arrive a second time
  int delay = -1;   ///< from this event on all events are held for `holdPolls` polls
  int holdPolls = 3;
  bool staleList = false;  ///< the list after a loss returns the state of the first list
};

/// Informer of one kind that poll() drives. Instantiated for the kinds listed in driver.cpp.
template <class T>
class ManualInformer {
 public:
  ManualInformer(http::Handler& server, kube::Client& client, kube::Sink<T>& sink);
  WatchFaults faults;

  void list();
  /// Calls list(), unless the server doesn't have the kind.
  void listIfServed();
  bool served() const { return served_; }
  /// Returns true if any change reached the store.
  bool poll();
  bool settled() const { return held_.empty() && !lost_; }
  int events() const { return count_; }

 private:
  void deliver(const std::vector<T>& all, const std::string& version);
  void open(const std::string& version);
  bool take(codec::WatchEvent<T>&& event);

  http::Handler& server_;
  kube::Client& client_;
  kube::Sink<T>& sink_;
  bool served_ = true;
  std::stop_source stop_;
  std::unique_ptr<http::BodyStream> stream_;
  std::vector<T> first_;
  std::string firstVersion_;
  std::vector<codec::WatchEvent<T>> seen_, held_;
  bool lost_ = false;
  int relistIn_ = 0, hold_ = 0, count_ = 0;
};

/// The server must have bookmarkInterval 0, so that a watch never blocks. settle() and run() throw if an object
/// oscillates (WriteObserver).
class Driver {
 public:
  Driver(http::Handler& server, kube::Transport& transport, plugin::Registry& registry, base::ManualClock& clock,
         std::chrono::milliseconds summaryDelay = std::chrono::milliseconds(-1));
  ~Driver();

  static kube::ClientOptions options();

  void start();
  bool poll();
  bool settled() const;
  /// Processes one key. Returns false if none is ready.
  bool stepOnce();
  /// Runs until the queue is empty and all watches are read. Does not wait for keys that are delayed.
  void settle();
  /// Calls settle(), then processes keys that become due within `horizon`, and advances the clock for them.
  void run(std::chrono::milliseconds horizon = std::chrono::seconds(60));
  void enqueue(const std::string& key);
  bool idle() const;
  std::size_t waiting() const { return later_.size(); }
  WriteObserver& writes() { return observer_; }

  Gauges metrics;
  int steps = 0;
  int limit = 20'000;

 private:
  base::ManualClock& clock_;
  base::Random random_{1};
  HandlerTransport direct_;
  WriteObserver observer_;
  kube::Client client_;
  kube::Client directClient_;  ///< for the informers: watch faults are injected above this client
  mutable std::mutex mutex_;
  std::deque<std::string> ready_;
  std::set<std::string> queued_;
  std::multimap<base::Clock::Steady, std::string> later_;
  std::map<std::string, int> retries_;
  std::string lastKey_;  ///< for the message when the controller does not become idle
  int polls_ = 0;

 public:
  EventLog events;
  cache::Stores stores;
  allocator::Allocator cluster;
  reconcile::Reconciler reconciler;

 private:
  cache::GpuSink gpuSink_{stores};
  cache::StoreSink<cache::Claim> claimSink_{stores.claims};
  cache::StoreSink<cache::Class> classSink_{stores.classes};
  cache::StoreSink<cache::Quota> quotaSink_{stores.quotas};
  cache::PodSink podSink_{stores};
  cache::StoreSink<core::Node> nodeSink_{stores.nodes};
  cache::StoreSink<core::ResourceClaim> resourceClaimSink_{stores.resourceClaims};
  cache::StoreSink<core::Namespace> namespaceSink_{stores.namespaces};
  cache::StoreSink<cache::ClaimTemplate> templateSink_{stores.templates};
  cache::StoreSink<core::ResourceClaimTemplate> resourceClaimTemplateSink_{stores.resourceClaimTemplates};
  cache::StoreSink<core::DeviceTaintRule> taintRuleSink_{stores.taintRules};
  cache::StoreSink<core::PriorityClass> priorityClassSink_{stores.priorityClasses};
  cache::StoreSink<core::PodGroup> podGroupSink_{stores.podGroups};

 public:
  ManualInformer<cache::Gpu> gpus;
  ManualInformer<cache::Claim> claims;
  ManualInformer<cache::Class> classes;
  ManualInformer<cache::Quota> quotas;
  ManualInformer<core::Pod> pods;
  ManualInformer<core::Node> nodes;
  ManualInformer<core::ResourceClaim> resourceClaims;
  ManualInformer<core::Namespace> namespaces;
  ManualInformer<cache::ClaimTemplate> templates;
  ManualInformer<core::ResourceClaimTemplate> resourceClaimTemplates;
  ManualInformer<core::DeviceTaintRule> taintRules;
  ManualInformer<core::PriorityClass> priorityClasses;
  ManualInformer<core::PodGroup> podGroups;
};

}  // namespace egpu::support
