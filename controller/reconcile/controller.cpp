#include "controller/reconcile/controller.h"

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

Controller::Controller(kube::Client& client, plugin::Registry& registry, base::Clock& clock, kube::EventSink& events,
                       base::Metrics& metrics, ControllerOptions options)
    : options_(std::move(options)),
      metrics_(metrics),
      leads_(!options_.standby),
      cluster_(stores_),
      queue_("controller", clock, metrics, options_.rateLimit,
             {options_.workers, [this](const std::string& key) { return tenantOf(key); },
              [this](const std::string& key) { return reconciler_.goesFirst(key); }}),
      reconciler_(
          client, stores_, cluster_, registry, clock, events, metrics,
          [this](const std::string& key) {
            if (leads_) queue_.add(key);  // a standby's queue would only grow; see enqueueAll()
          },
          options_.reconciler),
      gpuSink_(stores_),
      claimSink_(stores_.claims),
      classSink_(stores_.classes),
      quotaSink_(stores_.quotas),
      podSink_(stores_),
      nodeSink_(stores_.nodes),
      resourceClaimSink_(stores_.resourceClaims),
      namespaceSink_(stores_.namespaces),
      templateSink_(stores_.templates),
      resourceClaimTemplateSink_(stores_.resourceClaimTemplates),
      priorityClassSink_(stores_.priorityClasses),
      gpus_(client, gpuSink_, options_.reflector),
      claims_(client, claimSink_, options_.reflector),
      classes_(client, classSink_, options_.reflector),
      quotas_(client, quotaSink_, options_.reflector),
      pods_(client, podSink_, options_.reflector),
      nodes_(client, nodeSink_, options_.reflector),
      resourceClaims_(client, resourceClaimSink_, options_.reflector),
      namespaces_(client, namespaceSink_, options_.reflector),
      templates_(client, templateSink_, options_.reflector),
      resourceClaimTemplates_(client, resourceClaimTemplateSink_, options_.reflector),
      priorityClasses_(client, priorityClassSink_, options_.reflector),
      taintRules_(client, stores_.taintRules, {.reflector = options_.reflector}),
      podGroups_(client, stores_.podGroups,
                 {.reflector = options_.reflector, .served = [this](bool is) { stores_.podGroupsServed = is; }}) {
  cluster_.setReservationLimits(options_.reservationLimits);
  if (options_.listener != nullptr) cluster_.listen(*options_.listener);
  cluster_.onDecision([this](bool fits, double seconds) {
    metrics_.add("elasticgpu_decisions_total", 1, {{"result", fits ? "fits" : "no_fit"}});
    metrics_.observe("elasticgpu_decision_seconds", seconds, {});
  });
}

Controller::~Controller() { stop(); }

void Controller::start() {
  gpus_.start();
  claims_.start();
  classes_.start();
  quotas_.start();
  pods_.start();
  nodes_.start();
  resourceClaims_.start();
  namespaces_.start();
  templates_.start();
  resourceClaimTemplates_.start();
  priorityClasses_.start();
  taintRules_.start();
  podGroups_.start();
  starter_ = std::jthread([this](std::stop_token stop) { gather(std::move(stop)); });
}

void Controller::gather(std::stop_token stop) {
  // Decisions need all lists: a card that is not listed yet would count as gone.
  if (!gpus_.waitForSync(stop) || !claims_.waitForSync(stop) || !classes_.waitForSync(stop) ||
      !quotas_.waitForSync(stop) || !pods_.waitForSync(stop) || !nodes_.waitForSync(stop) ||
      !resourceClaims_.waitForSync(stop) || !namespaces_.waitForSync(stop) || !templates_.waitForSync(stop) ||
      !resourceClaimTemplates_.waitForSync(stop) || !priorityClasses_.waitForSync(stop) ||
      !taintRules_.waitForSync(stop) || !podGroups_.waitForSync(stop))
    return;
  if (!awaitLead(stop)) return;
  cluster_.offerSnapshot();
  enqueueAll();
  for (int i = 0; i < options_.workers; ++i)
    workers_.emplace_back([this](std::stop_token token) { work(std::move(token)); });
  base::log::info("listed everything, reconciling", {{"claims", stores_.claims.size()},
                                                     {"devices", stores_.devices.size()},
                                                     {"cards", stores_.cards.size()},
                                                     {"workers", options_.workers}});
  setReady();
}

/// Returns true once this controller leads. A standby is ready before that, because a failover waits for its mirrors.
bool Controller::awaitLead(std::stop_token stop) {
  if (leads_) return true;
  base::log::info("listed everything, standing by", {{"claims", stores_.claims.size()}});
  setReady();
  base::MutexLock lock(readyMutex_);
  return readyChanged_.wait(lock, stop, [this] { return leads_.load(); });
}

void Controller::setReady() {
  {
    const base::MutexLock lock(readyMutex_);
    ready_.store(true);
  }
  readyChanged_.notify_all();
}

void Controller::lead() {
  {
    const base::MutexLock lock(readyMutex_);
    leads_.store(true);
  }
  readyChanged_.notify_all();
}

/// Enqueues the keys that a standby dropped. Changes from now on are enqueued by their events: leads_ is set before the
/// stores are read.
void Controller::enqueueAll() {
  reconciler_.enqueueStart();
  queue_.add(capacityKey());
  if (!options_.standby) return;  // the first lists have enqueued everything
  stores_.nodes.forEach([this](const auto& o) { queue_.add(nodeKey(o->metadata.name)); });
  stores_.classes.forEach([this](const auto& o) { queue_.add(classKey(o->metadata.name)); });
  stores_.quotas.forEach([this](const auto& o) { queue_.add(quotaKey(core::keyOf(o->metadata))); });
  stores_.cards.forEach([this](const auto& o) { queue_.add(cardKey(o->metadata.name)); });
  stores_.devices.forEach([this](const auto& o) { queue_.add(deviceKey(o->metadata.name)); });
  stores_.claims.forEach([this](const auto& o) {
    queue_.add(claimKey(core::keyOf(o->metadata)));
    if (const auto gang = gangNamedBy(*o)) queue_.add(gangKey(*gang));
    if (!madeFor(*o).empty()) queue_.add(resourceClaimKey(core::keyOf(o->metadata)));
    if (o->status.phase == v1alpha::keys::phase::kBound) queue_.add(usageKey(core::keyOf(o->metadata)));
  });
  stores_.resourceClaims.forEach([this](const auto& o) { queue_.add(resourceClaimKey(core::keyOf(o->metadata))); });
  stores_.templates.forEach([this](const auto& o) { queue_.add(templateKey(core::keyOf(o->metadata))); });
  stores_.resourceClaimTemplates.forEach([this](const auto& o) { queue_.add(templateKey(core::keyOf(o->metadata))); });
  stores_.pods.forEach([this](const auto& o) { queue_.add(podKey(core::keyOf(o->metadata))); });
}

void Controller::abandon() {
  cancel_.request_stop();
  queue_.shutDown();
}

bool Controller::waitUntilReady(std::stop_token stop) {
  base::MutexLock lock(readyMutex_);
  readyChanged_.wait(lock, stop, [this] { return ready_.load() || stopped_.load(); });
  return ready_.load();
}

void Controller::work(std::stop_token stop) {
  while (auto key = queue_.get(stop)) {
    const auto outcome = reconciler_.step(*key, cancel_.get_token());
    switch (outcome.kind) {
      case Outcome::Kind::done:
        queue_.forget(*key);
        break;
      case Outcome::Kind::after:
        queue_.forget(*key);
        queue_.addAfter(*key, outcome.delay);
        break;
      case Outcome::Kind::retry:
        queue_.addRateLimited(*key, outcome.why.retryAfter.value_or(std::chrono::milliseconds(0)));
        break;
    }
    queue_.done(*key);
  }
}

/// Returns the namespace for which a key is stepped, so that slow or failing steps of one namespace delay no other. A
/// device belongs to its claim's namespace, because releasing it deletes a ResourceClaim. Cards have a group of their
/// own, because each needs a write at the first start; so have usage and quota keys. All other keys of cluster scope
/// share one group.
std::string Controller::tenantOf(const std::string& key) const {
  const auto parsed = QueueKey::parse(key);
  if (!parsed) return {};
  if (parsed->concern == Concern::card) return "/cards";  // not the name of a namespace
  if (parsed->concern == Concern::usage || parsed->concern == Concern::quota)
    return "/usage";  // status columns must not delay claims
  if (parsed->concern != Concern::device) return parsed->object.namespace_;
  const auto device = stores_.devices.get({"", parsed->object.name});
  return device && device->spec.claimRef ? device->spec.claimRef->namespace_ : std::string();
}

bool Controller::quiet() const { return ready_.load() && queue_.idle(); }

void Controller::stop() {
  if (stopped_.exchange(true)) return;
  {
    const base::MutexLock lock(readyMutex_);
    ready_.store(false);
  }
  readyChanged_.notify_all();
  if (starter_.joinable()) {
    starter_.request_stop();
    starter_.join();
  }
  queue_.shutDown();
  if (!queue_.drain(options_.drain)) base::log::warn("steps did not end in time, cancelling their calls");
  cancel_.request_stop();
  for (auto& worker : workers_) worker.request_stop();
  workers_.clear();
  gpus_.stop();
  claims_.stop();
  classes_.stop();
  quotas_.stop();
  pods_.stop();
  nodes_.stop();
  resourceClaims_.stop();
  namespaces_.stop();
  templates_.stop();
  resourceClaimTemplates_.stop();
  priorityClasses_.stop();
  taintRules_.stop();
  podGroups_.stop();
}

}  // namespace egpu::reconcile
