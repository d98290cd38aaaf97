// A controller whose every move is the test's: the real stores, reconciler and codec, a queue without threads, and
// watches that are read when the test says so. Quiescence is a fact, not a guess: queue empty and every watch read to
// the server's version.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/base/metrics.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/kube/client.h"
#include "controller/kube/events.h"
#include "controller/reconcile/reconciler.h"
#include "tests/support/fake_plugins.h"
#include "tests/support/handler_transport.h"

namespace egpu::support {

/// Keeps what was told.
class EventLog final : public kube::EventSink {
 public:
  void event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
             std::string_view message) override {
    std::lock_guard lock(mutex_);
    lines_.push_back(about.name + " " + std::string(type) + " " + std::string(reason) + " " + std::string(message));
  }
  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Keeps the gauges.
class Gauges final : public base::Metrics {
 public:
  double gauge(const std::string& name) const {
    std::lock_guard lock(mutex_);
    const auto it = gauges_.find(name);
    return it == gauges_.end() ? -1 : it->second;
  }
  void add(std::string_view, double, const base::MetricLabels&) override {}
  void set(std::string_view gauge, double value, const base::MetricLabels&) override {
    std::lock_guard lock(mutex_);
    gauges_[std::string(gauge)] = value;
  }
  void observe(std::string_view, double, const base::MetricLabels&) override {}
  void forget(std::string_view, const base::MetricLabels&) override {}

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> gauges_;
};

/// What goes wrong between server and store. Counted in events of one kind's watch.
struct WatchFaults {
  int lose = -1;    ///< this event is lost; the next poll after `relistAfter` lists anew
  int repeat = -1;  ///< this event and all before it come a second time
  int delay = -1;   ///< from this event on everything is held for some polls
  int holdPolls = 3;
  bool staleList = false;  ///< the relist after a loss is the world as first listed
};

/// One kind's mirror, moved by poll().
template <class T>
class ManualInformer {
 public:
  ManualInformer(http::Handler& server, kube::Client& client, kube::Sink<T>& sink)
      : server_(server), client_(client), sink_(sink) {}
  WatchFaults faults;

  void list() {
    std::vector<T> all;
    auto meta = client_.list<T>(
        {}, [&](T&& o) { all.push_back(std::move(o)); }, [&] { all.clear(); });
    if (!meta.ok()) throw std::runtime_error("list: " + meta.status().str());
    if (first_.empty() && firstVersion_.empty()) {
      first_ = all;
      firstVersion_ = meta->resourceVersion;
    }
    tell(all, meta->resourceVersion);
    open(meta->resourceVersion);
  }
  /// True if anything reached the store.
  bool poll() {
    if (lost_ && --relistIn_ <= 0) {
      lost_ = false;
      if (faults.staleList) {
        tell(first_, firstVersion_);
        open(firstVersion_);
      } else {
        list();
      }
      return true;
    }
    std::string chunk;
    stream_->next(chunk, stop_.get_token());
    bool any = false;
    std::size_t at = 0;
    while (at < chunk.size()) {
      const auto end = chunk.find('\n', at);
      auto event = codec::decodeWatchEvent<T>(std::string_view(chunk).substr(at, end - at));
      at = end == std::string::npos ? chunk.size() : end + 1;
      if (!event.ok()) throw std::runtime_error("watch: " + event.status().str());
      if (event->type == codec::EventType::bookmark) continue;
      if (event->type == codec::EventType::error) throw std::runtime_error("watch: " + event->error.str());
      any = take(std::move(*event)) || any;
    }
    if (!held_.empty() && --hold_ <= 0) {
      for (auto& event : held_) sink_.apply(std::move(event));
      held_.clear();
      faults.delay = -1;
      any = true;
    }
    return any;
  }
  bool settled() const { return held_.empty() && !lost_; }
  int events() const { return count_; }

 private:
  void tell(const std::vector<T>& all, const std::string& version) {
    sink_.beginList();
    for (const auto& object : all) sink_.listed(object);
    sink_.endList(version);
  }
  void open(const std::string& version) {
    http::Request request;
    request.method = "GET";
    request.path = kube::Client::path(core::kindOf<T>, {});
    request.query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=" + version;
    auto response = server_.handle(request, stop_.get_token());
    if (response.status != 200 || !response.stream) throw std::runtime_error("watch refused: " + response.body);
    stream_ = std::move(response.stream);
  }
  bool take(codec::WatchEvent<T>&& event) {
    const int number = count_++;
    if (lost_) return false;
    if (number == faults.lose) {
      lost_ = true;
      relistIn_ = faults.holdPolls;
      return false;
    }
    if (faults.delay >= 0 && number >= faults.delay) {
      if (held_.empty()) hold_ = faults.holdPolls;
      held_.push_back(std::move(event));
      return false;
    }
    if (faults.repeat >= 0 && number <= faults.repeat) seen_.push_back(event);
    sink_.apply(codec::WatchEvent<T>(event));
    if (number == faults.repeat)
      for (auto& old : seen_) sink_.apply(std::move(old));
    return true;
  }

  http::Handler& server_;
  kube::Client& client_;
  kube::Sink<T>& sink_;
  std::stop_source stop_;
  std::unique_ptr<http::BodyStream> stream_;
  std::vector<T> first_;
  std::string firstVersion_;
  std::vector<codec::WatchEvent<T>> seen_, held_;
  bool lost_ = false;
  int relistIn_ = 0, hold_ = 0, count_ = 0;
};

/// The server must have been made with bookmarkInterval 0, so that a watch never blocks.
class Driver {
 public:
  Driver(http::Handler& server, kube::Transport& transport, plugin::Registry& registry, base::ManualClock& clock,
         std::chrono::milliseconds summaryDelay = std::chrono::milliseconds(-1))
      : clock_(clock),
        direct_(server),
        client_(transport, clock, random_, metrics, options()),
        directClient_(direct_, clock, random_, metrics, options()),
        cluster(stores),
        reconciler(client_, stores, cluster, registry, clock, events, metrics,
                   [this](const std::string& key) { enqueue(key); }, {4, {summaryDelay}}),
        gpus(server, directClient_, gpuSink_),
        claims(server, directClient_, claimSink_),
        classes(server, directClient_, classSink_),
        pods(server, directClient_, podSink_),
        nodes(server, directClient_, nodeSink_),
        carriers(server, directClient_, carrierSink_),
        namespaces(server, directClient_, namespaceSink_) {}

  static kube::ClientOptions options() {
    kube::ClientOptions o;
    o.maxAttempts = 1;
    return o;
  }

  void start() {
    namespaces.list();
    nodes.list();
    classes.list();
    gpus.list();
    claims.list();
    pods.list();
    carriers.list();
    reconciler.enqueueStart();
  }
  bool poll() {
    bool any = gpus.poll();
    any = claims.poll() || any;
    any = classes.poll() || any;
    any = pods.poll() || any;
    any = nodes.poll() || any;
    any = carriers.poll() || any;
    any = namespaces.poll() || any;
    return any;
  }
  bool settled() const {
    return gpus.settled() && claims.settled() && classes.settled() && pods.settled() && nodes.settled() &&
           carriers.settled() && namespaces.settled();
  }
  /// One key; false if there is none ready.
  bool stepOnce() {
    std::string key;
    {
      std::lock_guard lock(mutex_);
      if (ready_.empty()) return false;
      key = ready_.front();
      ready_.pop_front();
      queued_.erase(key);
    }
    ++steps;
    lastKey_ = key;
    const auto outcome = reconciler.step(key);
    using Kind = reconcile::Outcome::Kind;
    if (outcome.kind == Kind::after && outcome.delay.count() == 0) {
      enqueue(key);
    } else if (outcome.kind == Kind::after) {
      later_.emplace(clock_.now() + outcome.delay, key);
    } else if (outcome.kind == Kind::retry) {
      later_.emplace(clock_.now() + std::chrono::milliseconds(5 << std::min(retries_[key]++, 10)), key);
    }
    if (outcome.kind != Kind::retry) retries_.erase(key);
    return true;
  }
  /// Until nothing is to be done and nothing more to be seen. Keys that wait for a time are not waited for.
  void settle() {
    for (;;) {
      while (stepOnce())
        if (steps > limit) throw std::runtime_error("does not come to rest: " + lastKey_);
      if (!poll() && settled() && idle()) return;
      if (++polls_ > limit) throw std::runtime_error("watches do not come to rest");
    }
  }
  /// settle(), then whatever waits for a time within `horizon`, the clock turned for it.
  void run(std::chrono::milliseconds horizon = std::chrono::seconds(60)) {
    settle();
    const auto end = clock_.now() + horizon;
    while (!later_.empty() && later_.begin()->first <= end) {
      const auto at = later_.begin()->first;
      if (at > clock_.now()) clock_.advance(std::chrono::duration_cast<std::chrono::milliseconds>(at - clock_.now()));
      while (!later_.empty() && later_.begin()->first <= clock_.now()) {
        enqueue(later_.begin()->second);
        later_.erase(later_.begin());
      }
      settle();
    }
  }
  void enqueue(const std::string& key) {
    std::lock_guard lock(mutex_);
    if (queued_.insert(key).second) ready_.push_back(key);
  }
  bool idle() const {
    std::lock_guard lock(mutex_);
    return ready_.empty();
  }
  std::size_t waiting() const { return later_.size(); }

  Gauges metrics;
  int steps = 0;
  int limit = 20'000;

 private:
  base::ManualClock& clock_;
  base::Random random_{1};
  HandlerTransport direct_;
  kube::Client client_;
  kube::Client directClient_;  ///< for the informers: faults in the watch are injected above it
  mutable std::mutex mutex_;
  std::deque<std::string> ready_;
  std::set<std::string> queued_;
  std::multimap<base::Clock::Steady, std::string> later_;
  std::map<std::string, int> retries_;
  std::string lastKey_;  ///< for who asks why nothing comes to rest
  int polls_ = 0;

 public:
  EventLog events;
  cache::Stores stores;
  cache::ClusterView cluster;
  reconcile::Reconciler reconciler;

 private:
  cache::GpuSink gpuSink_{stores};
  cache::StoreSink<cache::Claim> claimSink_{stores.claims};
  cache::StoreSink<cache::Class> classSink_{stores.classes};
  cache::PodSink podSink_{stores};
  cache::StoreSink<core::Node> nodeSink_{stores.nodes};
  cache::StoreSink<core::ResourceClaim> carrierSink_{stores.carriers};
  cache::StoreSink<core::Namespace> namespaceSink_{stores.namespaces};

 public:
  ManualInformer<cache::Gpu> gpus;
  ManualInformer<cache::Claim> claims;
  ManualInformer<cache::Class> classes;
  ManualInformer<core::Pod> pods;
  ManualInformer<core::Node> nodes;
  ManualInformer<core::ResourceClaim> carriers;
  ManualInformer<core::Namespace> namespaces;
};

}  // namespace egpu::support
