#include "controller/reconcile/reconciler.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "controller/base/log.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

namespace {
/// States of a claim per step: more than lie between unbound and Bound; then other keys are stepped.
constexpr int kStatesAtOnce = 16;
}  // namespace

Reconciler::Reconciler(kube::Client& client, cache::Stores& stores, allocator::Allocator& cluster,
                       plugin::Registry& registry, base::Clock& clock, kube::EventSink& events, base::Metrics& metrics,
                       Enqueue enqueue, ReconcilerOptions options)
    : timeouts_(options.timeouts),
      stores_(stores),
      cluster_(cluster),
      clock_(clock),
      metrics_(metrics),
      registry_(registry),
      enqueue_(std::move(enqueue)),
      client_(client.brief()),
      alternations_(clock, timeouts_, metrics),
      writer_(client_, stores, alternations_),
      waiting_(clock, timeouts_),
      provisioning_(
          registry, stores, clock, timeouts_, options.callsPerPlugin,
          [this](const std::string& plugin) { enqueue_(callsKey(plugin)); },
          [this](const std::string& plugin) {
            stores_.classes.forEach([&](const auto& cls) {
              if (cls->provisioner == plugin) enqueue_(classKey(cls->metadata.name));
            });
          }),
      status_(writer_, stores, events, clock),
      apiRejections_(stores, status_, events, clock, timeouts_),
      classes_(
          writer_, stores, provisioning_, clock, timeouts_,
          [this](const cache::Class& cls) { enqueue_(classKey(cls.metadata.name)); },
          [this](const cache::Class& cls) { routing_.openClaimsOf(cls); }),
      binder_(writer_, stores, cluster, provisioning_),
      volumes_(client_, clock, timeouts_),
      users_(writer_, stores, binder_, events, clock, metrics),
      resourceClaim_(writer_, stores, clock, timeouts_),
      adopter_(writer_, stores, resourceClaim_, events),
      templates_(writer_, stores, clock, timeouts_),
      claimContext_{
          .writer = writer_,
          .stores = stores,
          .cluster = cluster,
          .binder = binder_,
          .provisioning = provisioning_,
          .classes = classes_,
          .bridge = resourceClaim_,
          .users = users_,
          .status = status_,
          .waiting = waiting_,
          .volumes = volumes_,
          .clock = clock,
          .timeouts = timeouts_,
          .enqueue = enqueue_,
      },
      claimParts_(claimContext_),
      claims_(claimContext_, claimParts_),
      devices_(writer_, stores, binder_, provisioning_, resourceClaim_, users_, events, timeouts_),
      use_(stores, clock, timeouts_.usageInterval),
      quotas_(writer_, stores, cluster, clock, timeouts_, metrics, events),
      pods_(claimContext_, claimParts_, events),
      podBinder_(writer_, stores, pods_.demand(), waiting_, clock, timeouts_, enqueue_),
      sweeper_(writer_, stores, provisioning_, events, timeouts_),
      auditor_(
          writer_, stores, cluster, binder_, sweeper_, clock, metrics, events, enqueue_,
          [this] { return claims_.changedRecently(); }, timeouts_, options.auditor),
      routing_(stores, cluster, registry, classes_, users_, waiting_, provisioning_, templates_.amounts(), enqueue_) {
  stores.servedSchedulers = {options.schedulers.begin(), options.schedulers.end()};
  stores.servedSchedulers.insert(options.otherSchedulers.begin(), options.otherSchedulers.end());
  waiting_.chosen.leaveTo(std::move(options.otherSchedulers));
  stores.usage.onFreed([this](const std::string& node) { pods_.freed(node); });
}

bool Reconciler::hasRejectedNode(const std::vector<allocator::Allocator::SchedulingRequest>& asks) const {
  return std::any_of(asks.begin(), asks.end(),
                     [this](const auto& ask) { return waiting_.nodes.anyRejected(ask.claimUid); });
}

bool Reconciler::isNodeRejected(const std::vector<allocator::Allocator::SchedulingRequest>& asks,
                                std::string_view node) const {
  return std::any_of(asks.begin(), asks.end(),
                     [&](const auto& ask) { return waiting_.nodes.rejected(ask.claimUid, node); });
}

void Reconciler::enqueueStart() {
  for (const auto& name : registry_.names()) enqueue_(pluginKey(name));
  for (const auto& key : templates_.amounts().named()) enqueue_(templateKey(key));
}

Outcome Reconciler::node(const std::string& name) {
  waiting_.nodes.nodeChanged(name);
  for (const auto& card : stores_.cardsOnNode(name)) enqueue_(cardKey(card->metadata.name));
  auto pods = stores_.gatedPods();
  std::sort(pods.begin(), pods.end(),
            [](const auto& a, const auto& b) { return ageOf(a->metadata) < ageOf(b->metadata); });
  waiting_.unschedulable.grew(cluster_.releases());  // the node may suit claims now, also claims without gated pods
  enqueue_(capacityKey());
  for (const auto& pod : pods) enqueue_(podKey(core::keyOf(pod->metadata)));
  for (const auto& device : stores_.devicesInPhase(phase::kAvailable)) {
    if (device->spec.nodeName != name) continue;
    routing_.claimsOfDevice(*device);
    if (v1alpha::isRemote(*device)) routing_.claimsForRemoteDevice(*device);
  }
  for (const auto& claim : resourceClaim_.resetAllBackoff()) enqueue_(claimKey(claim));
  return Outcome::done();
}

Outcome Reconciler::report(Outcome outcome, std::stop_token stop) {
  const auto status = status_.report(outcome.updates, stop);
  const bool evaluatedAnyway = outcome.isRetry() && status.code() == base::Code::conflict;
  if (!status.ok() && !evaluatedAnyway) return Outcome::nextState(status);
  return outcome;
}

Outcome Reconciler::calls(const std::string& plugin, std::stop_token stop) {
  auto outcome = claims_.reportSlowProvisioning(plugin);
  // One claim whose write fails must not delay the key of all claims: its report is repeated in the next step.
  const auto status = status_.report(outcome.updates, stop);
  if (!status.ok()) base::log::debug("not reported on all claims", {{"plugin", plugin}, {"why", status.str()}});
  return outcome;
}

Outcome Reconciler::claim(const core::ObjectKey& key, std::stop_token stop) {
  const auto began = clock_.now();
  for (int state = 0; state < kStatesAtOnce && clock_.now() - began < timeouts_.claimStepTimeout; ++state) {
    waiting_.remove(claimKey(key));  // the step adds the key again if it has to wait
    auto outcome = report(claims_.step(key, stop), stop);
    if (!outcome.isRequeueNow() || stop.stop_requested()) return outcome;
  }
  return Outcome::after(timeouts_.yieldInterval);
}

Outcome Reconciler::gang(const core::ObjectKey& key, std::stop_token stop) {
  waiting_.remove(gangKey(key));  // the step adds the key again if it has to wait
  return report(claims_.gangStep(key, stop), stop);
}

Outcome Reconciler::pod(const core::ObjectKey& key, std::stop_token stop) {
  waiting_.remove(podKey(key));
  return report(pods_.step(key, stop), stop);
}

bool Reconciler::isBeingBound(const cache::Claim& claim) const {
  return claim.status.phase != phase::kBound && claim.status.phase != phase::kLost && !claim.metadata.deleting() &&
         !stores_.devicesOfClaim(claim.metadata.uid).empty();
}

bool Reconciler::awaitsFirstChoice(const cache::Claim& claim) const {
  const auto* bound = findCondition(claim.status.conditions, kBound);
  return claim.status.phase != phase::kLost && !claim.metadata.deleting() && isPlacedWithPod(stores_, claim) &&
         (bound == nullptr || bound->reason == v1alpha::keys::reason::kWaitingForConsumer);
}

bool Reconciler::isNearRunning(const core::Pod& pod) const {
  if (!gated(pod) || v1alpha::pendingClaim(pod)) return false;
  const auto names = v1alpha::claimNames(pod);
  return std::all_of(names.begin(), names.end(), [&](const auto& name) {
    const core::ObjectKey key{pod.metadata.namespace_, name};
    const auto claim = stores_.claims.get(key);
    if (!claim) return false;
    if (claim->status.phase == phase::kBound || awaitsFirstChoice(*claim)) return true;
    // A claim that waits for the pod is allocated before it is Bound.
    const auto resourceClaim = stores_.resourceClaims.get(key);
    return resourceClaim && resourceClaim->allocation;
  });
}

bool Reconciler::isCurrent(const std::string& queueKey) const {
  return waiting_.unschedulable.isCurrent(queueKey) ||
         claimParts_.preemptor.preemption().planQueue().isCurrent(queueKey);
}

bool Reconciler::goesFirst(const std::string& queueKey) const {
  const auto key = QueueKey::parse(queueKey);
  if (!key) return false;
  switch (key->concern) {
    case Concern::capacity:
    case Concern::plans:
      return true;
    case Concern::gang:
      return isCurrent(queueKey);
    case Concern::claim: {
      if (isCurrent(queueKey)) return true;
      const auto claim = stores_.claims.get(key->object);
      return claim && isBeingBound(*claim);
    }
    case Concern::pod: {
      if (isCurrent(queueKey)) return true;
      const auto pod = stores_.pods.get(key->object);
      return pod && isNearRunning(*pod);
    }
    default:
      return false;
  }
}

Outcome Reconciler::renewReservations() {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(clock_.wall().time_since_epoch()).count();
  for (const auto& claim : cluster_.expireReservations(now)) enqueue_(claimKey(core::ObjectKey::of(claim)));
  watchingReservations_ = false;
  if (!cluster_.hasReservations()) return Outcome::done();
  watchingReservations_ = true;
  return Outcome::after(timeouts_.reservationExpiryInterval);
}

bool Reconciler::mayFit(const CapacityNeeds& needs) {
  const auto& asks = needs.anyOf;
  if (!needs.refusedIn.empty()) return cluster_.queries().refusingQuotas(needs.refusedIn) != needs.refusedUnder;
  if (needs.device.empty())
    return asks.empty() ||
           std::any_of(asks.begin(), asks.end(), [this](const auto& ask) { return cluster_.mayFit(ask); });
  const auto device = stores_.devices.get({"", needs.device});
  return !device || !cluster_.queries().excessWith(asks.front(), *device);
}

Outcome Reconciler::requeueUnschedulable() {
  const auto next = waiting_.unschedulable.next([this](const CapacityNeeds& needs) { return mayFit(needs); });
  for (const auto& key : next.keys) enqueue_(key);
  return next.again ? Outcome::after(*next.again) : Outcome::done();
}

Outcome Reconciler::explain() {
  const auto explained = waiting_.explainer.explain();
  for (const auto& key : explained.queueKeys) enqueue_(key);
  return explained.isMoreRequested ? Outcome::requeueNow() : Outcome::done();
}

Outcome Reconciler::stepOf(const QueueKey& key, std::stop_token stop) {
  const auto& object = key.object;
  switch (key.concern) {
    case Concern::claim:
      return claim(object, stop);
    case Concern::gang:
      return gang(object, stop);
    case Concern::device:
      return devices_.step(object.name, stop);
    case Concern::card:
      return auditor_.step(object.name, stop);
    case Concern::resourceClaim:
      return adopter_.step(object, stop);
    case Concern::pod:
      return pod(object, stop);
    case Concern::node:
      return node(object.name);
    case Concern::cls:
      return classes_.step(object.name, stop);
    case Concern::plugin:
      return sweeper_.sweepPlugin(object.name, stop);
    case Concern::calls:
      return calls(object.name, stop);
    case Concern::quota:
      return quotas_.step(object, stop);
    case Concern::usage:
      return report(use_.step(object), stop);
    case Concern::claimTemplate:
      return templates_.step(object, stop);
    case Concern::assumed: {
      auto outcome = auditor_.assumed(stop);
      if (outcome.isDone()) watchingAssumed_ = false;
      return outcome;
    }
    case Concern::reservations:
      return renewReservations();
    case Concern::capacity:
      return requeueUnschedulable();
    case Concern::plans:
      return claimParts_.preemptor.startNextSearch();
    case Concern::explain:
      return explain();
  }
  return Outcome::done();
}

void Reconciler::count(const QueueKey& key, const Outcome& outcome, base::Clock::Steady start) {
  const std::string concern(nameOf(key.concern));
  const std::string result = outcome.isDone() ? "done" : outcome.isRetry() ? "retry" : "again";
  metrics_.observe("elasticgpu_reconcile_duration_seconds", std::chrono::duration<double>(clock_.now() - start).count(),
                   {{"concern", concern}});
  metrics_.add("elasticgpu_reconciles_total", 1, {{"concern", concern}, {"result", result}});
}

Outcome Reconciler::step(const std::string& queueKey, std::stop_token stop) {
  const auto key = QueueKey::parse(queueKey);
  if (!key) {
    base::log::error("not a key", {{"key", queueKey}});
    return Outcome::done();
  }
  const auto start = clock_.now();
  auto outcome = stepOf(*key, stop);
  if (waiting_.unschedulable.decided(queueKey, UnschedulableQueue::DecisionResult::unknown)) enqueue_(capacityKey());
  count(*key, outcome, start);
  if (outcome.isRetry() && (ApiRejections::isRefusal(outcome.why) || ApiRejections::isFailure(outcome.why)))
    apiRejections_.note(*key, outcome.why, stop);
  else
    apiRejections_.over(queueKey);
  // Usually the decision is written by the end of its step.
  if (cluster_.hasAssumptions() && !watchingAssumed_.exchange(true)) enqueue_(assumedKey());
  if (cluster_.hasReservations() && !watchingReservations_.exchange(true)) enqueue_(reservationsKey());
  if (outcome.isRetry() && base::log::enabled(base::log::Level::debug))
    base::log::debug("will be retried", {{"key", queueKey}, {"why", outcome.why.str()}});
  return outcome;
}

}  // namespace egpu::reconcile
