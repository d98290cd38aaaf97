#include "tests/support/driver.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "controller/standalone/apiserver/server.h"
#include "tests/support/real_handler.h"

namespace egpu::support {

void EventLog::event(const core::ObjectReference& about, std::string_view type, std::string_view reason,
                     std::string_view message) {
  std::lock_guard lock(mutex_);
  lines_.push_back(about.name + " " + std::string(type) + " " + std::string(reason) + " " + std::string(message));
}

std::vector<std::string> EventLog::lines() const {
  std::lock_guard lock(mutex_);
  return lines_;
}

double Gauges::gauge(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto it = gauges_.find(name);
  return it == gauges_.end() ? -1 : it->second;
}

void Gauges::set(std::string_view gauge, double value, const base::MetricLabels&) {
  std::lock_guard lock(mutex_);
  gauges_[std::string(gauge)] = value;
}

template <class T>
ManualInformer<T>::ManualInformer(http::Handler& server, kube::Client& client, kube::Sink<T>& sink)
    : server_(server), client_(client), sink_(sink) {}

template <class T>
void ManualInformer<T>::list() {
  std::vector<T> all;
  auto meta = client_.list<T>(
      {}, [&](T&& o) { all.push_back(std::move(o)); }, [&] { all.clear(); });
  if (!meta.ok()) throw std::runtime_error("list: " + meta.status().str());
  if (first_.empty() && firstVersion_.empty()) {
    first_ = all;
    firstVersion_ = meta->resourceVersion;
  }
  deliver(all, meta->resourceVersion);
  open(meta->resourceVersion);
}

template <class T>
void ManualInformer<T>::listIfServed() {
  kube::HttpRequest request;
  request.target = kube::Client::path(core::kindOf<T>, {});
  served_ = client_.call(std::move(request)).ok();
  if (served_) list();
}

template <class T>
bool ManualInformer<T>::poll() {
  if (!served_) return false;
  if (lost_ && --relistIn_ <= 0) {
    lost_ = false;
    if (faults.staleList) {
      deliver(first_, firstVersion_);
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

template <class T>
void ManualInformer<T>::deliver(const std::vector<T>& all, const std::string& version) {
  sink_.beginList();
  for (const auto& object : all) sink_.listed(object);
  sink_.endList(version);
}

template <class T>
void ManualInformer<T>::open(const std::string& version) {
  http::Request request;
  request.method = "GET";
  request.path = kube::Client::path(core::kindOf<T>, {});
  request.query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=" + version;
  auto response = server_.handle(request, stop_.get_token());
  if (response.status != 200 || !response.stream) throw std::runtime_error("watch refused: " + response.body);
  stream_ = std::move(response.stream);
}

template <class T>
bool ManualInformer<T>::take(codec::WatchEvent<T>&& event) {
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

template class ManualInformer<cache::Gpu>;
template class ManualInformer<cache::Claim>;
template class ManualInformer<cache::Class>;
template class ManualInformer<cache::Quota>;
template class ManualInformer<core::Pod>;
template class ManualInformer<core::Node>;
template class ManualInformer<core::ResourceClaim>;
template class ManualInformer<core::Namespace>;
template class ManualInformer<core::PriorityClass>;
template class ManualInformer<cache::ClaimTemplate>;
template class ManualInformer<core::ResourceClaimTemplate>;
template class ManualInformer<core::DeviceTaintRule>;
template class ManualInformer<core::PodGroup>;

namespace {
uint64_t lastVersionOf(const http::Handler& server) {
  if (const auto* embedded = dynamic_cast<const apiserver::Server*>(&server)) return embedded->resourceVersion();
  const auto* real = dynamic_cast<const RealHandler*>(&server);
  return real != nullptr ? real->writes() : 0;
}
}  // namespace

Driver::Driver(http::Handler& server, kube::Transport& transport, plugin::Registry& registry, base::ManualClock& clock,
               std::chrono::milliseconds summaryDelay)
    : clock_(clock),
      direct_(server),
      observer_(transport, [&server] { return lastVersionOf(server); }),
      client_(observer_, clock, random_, metrics, options()),
      directClient_(direct_, clock, random_, metrics, options()),
      cluster(stores),
      reconciler(client_, stores, cluster, registry, clock, events, metrics,
                 [this](const std::string& key) { enqueue(key); },
                 {.auditor = {summaryDelay}, .otherSchedulers = {"own-scheduler"}}),
      gpus(server, directClient_, gpuSink_),
      claims(server, directClient_, claimSink_),
      classes(server, directClient_, classSink_),
      quotas(server, directClient_, quotaSink_),
      pods(server, directClient_, podSink_),
      nodes(server, directClient_, nodeSink_),
      resourceClaims(server, directClient_, resourceClaimSink_),
      namespaces(server, directClient_, namespaceSink_),
      templates(server, directClient_, templateSink_),
      resourceClaimTemplates(server, directClient_, resourceClaimTemplateSink_),
      taintRules(server, directClient_, taintRuleSink_),
      priorityClasses(server, directClient_, priorityClassSink_),
      podGroups(server, directClient_, podGroupSink_) {
  scheduler::ReservationLimits limits;
  limits.freeCardPercent = 100;  // all clusters of the tests are small
  cluster.setReservationLimits(limits);
}

Driver::~Driver() = default;

kube::ClientOptions Driver::options() {
  kube::ClientOptions o;
  o.maxAttempts = 1;
  return o;
}

void Driver::start() {
  namespaces.list();
  templates.list();
  resourceClaimTemplates.list();
  taintRules.listIfServed();
  podGroups.listIfServed();
  stores.podGroupsServed = podGroups.served();
  priorityClasses.list();
  nodes.list();
  classes.list();
  quotas.list();
  gpus.list();
  claims.list();
  pods.list();
  resourceClaims.list();
  reconciler.enqueueStart();
}

bool Driver::poll() {
  bool any = gpus.poll();
  any = claims.poll() || any;
  any = classes.poll() || any;
  any = quotas.poll() || any;
  any = pods.poll() || any;
  any = nodes.poll() || any;
  any = resourceClaims.poll() || any;
  any = namespaces.poll() || any;
  any = templates.poll() || any;
  any = resourceClaimTemplates.poll() || any;
  any = taintRules.poll() || any;
  any = priorityClasses.poll() || any;
  any = podGroups.poll() || any;
  return any;
}

bool Driver::settled() const {
  return gpus.settled() && claims.settled() && classes.settled() && quotas.settled() && pods.settled() &&
         nodes.settled() && resourceClaims.settled() && namespaces.settled() && templates.settled() &&
         resourceClaimTemplates.settled() && taintRules.settled() && priorityClasses.settled() && podGroups.settled();
}

bool Driver::stepOnce() {
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

void Driver::settle() {
  for (;;) {
    while (stepOnce())
      if (steps > limit) throw std::runtime_error("does not come to rest: " + lastKey_);
    if (!poll() && settled() && idle()) break;
    if (++polls_ > limit) throw std::runtime_error("watches do not come to rest");
  }
  if (const auto found = observer_.oscillations(); !found.empty()) throw std::runtime_error(found);
}

void Driver::run(std::chrono::milliseconds horizon) {
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

void Driver::enqueue(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (queued_.insert(key).second) ready_.push_back(key);
}

bool Driver::idle() const {
  std::lock_guard lock(mutex_);
  return ready_.empty();
}

}  // namespace egpu::support
