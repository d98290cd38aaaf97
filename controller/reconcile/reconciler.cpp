#include "controller/reconcile/reconciler.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/base/log.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;

Reconciler::Reconciler(kube::Client& client, cache::Stores& stores, cache::ClusterView& cluster,
                       plugin::Registry& registry, base::Clock& clock, kube::EventSink& events, base::Metrics& metrics,
                       Enqueue enqueue, ReconcilerOptions options)
    : stores_(stores),
      cluster_(cluster),
      clock_(clock),
      metrics_(metrics),
      registry_(registry),
      enqueue_(std::move(enqueue)),
      client_(client.brief()),
      writer_(client_, stores),
      waiting_(clock),
      provisioning_(
          registry, stores, clock, options.callsPerPlugin,
          [this](const std::string& plugin) { enqueue_(callsKey(plugin)); },
          [this](const std::string& plugin) {
            stores_.classes.forEach([&](const auto& cls) {
              if (cls->provisioner == plugin) enqueue_(classKey(cls->metadata.name));
            });
          }),
      status_(writer_, stores, events, clock),
      apiRejections_(stores, status_, events, clock),
      classes_(
          writer_, stores, provisioning_, clock,
          [this](const cache::Class& cls) { enqueue_(classKey(cls.metadata.name)); },
          [this](const cache::Class& cls) { routing_.openClaimsOf(cls); }),
      binder_(writer_, stores, cluster, provisioning_),
      volumes_(client_, clock),
      users_(writer_, stores, binder_, events, clock, metrics),
      carrier_(writer_, stores, status_, clock),
      claims_(writer_, stores, cluster, binder_, provisioning_, classes_, carrier_, users_, status_, waiting_, clock,
              enqueue_),
      devices_(writer_, stores, binder_, provisioning_, carrier_, users_, events),
      pods_(writer_, stores, cluster, binder_, claims_, status_, waiting_, volumes_, events, enqueue_),
      sweeper_(writer_, stores, provisioning_),
      auditor_(
          writer_, stores, cluster, binder_, sweeper_, clock, metrics, events, enqueue_,
          [this] { return claims_.boundLately(); }, options.auditor),
      routing_(stores, cluster, registry, classes_, users_, waiting_, provisioning_, enqueue_) {
  stores.usage.onFreed([this](const std::string& node) { pods_.freed(node); });
}

void Reconciler::enqueueStart() {
  for (const auto& name : registry_.names()) enqueue_(pluginKey(name));
}

Outcome Reconciler::node(const std::string& name) {
  waiting_.nodeChanged(name);
  for (const auto& card : stores_.cardsOnNode(name)) enqueue_(cardKey(card->metadata.name));
  auto pods = stores_.gatedPods();
  std::sort(pods.begin(), pods.end(),
            [](const auto& a, const auto& b) { return ageOf(a->metadata) < ageOf(b->metadata); });
  for (const auto& key : waiting_.all()) enqueue_(key);  // pods without gate; claims, for which its taints count
  for (const auto& pod : pods) enqueue_(podKey(core::keyOf(pod->metadata)));
  for (const auto& device : stores_.devicesInPhase(phase::kAvailable))
    if (device->spec.nodeName == name) routing_.claimsOfDevice(*device);
  for (const auto& claim : carrier_.resetAllBackoff()) enqueue_(claimKey(claim));
  return Outcome::done();
}

Outcome Reconciler::step(const std::string& queueKey, std::stop_token stop) {
  const auto key = QueueKey::parse(queueKey);
  if (!key) {
    base::log::error("not a key", {{"key", queueKey}});
    return Outcome::done();
  }
  const auto& object = key->object;
  const auto start = clock_.now();
  Outcome outcome;
  std::string_view concern;
  switch (key->concern) {
    case Concern::claim:
      concern = "claim";
      outcome = claims_.step(object, stop);
      break;
    case Concern::device:
      concern = "device";
      outcome = devices_.step(object.name, stop);
      break;
    case Concern::card:
      concern = "card";
      outcome = auditor_.step(object.name, stop);
      break;
    case Concern::carrier:
      concern = "carrier";
      outcome = carrier_.step(object, stop);
      break;
    case Concern::pod:
      concern = "pod";
      outcome = pods_.step(object, stop);
      break;
    case Concern::node:
      concern = "node";
      outcome = node(object.name);
      break;
    case Concern::cls:
      concern = "class";
      outcome = classes_.step(object.name, stop);
      break;
    case Concern::plugin:
      concern = "plugin";
      outcome = sweeper_.plugin(object.name, stop);
      break;
    case Concern::calls:
      concern = "calls";
      outcome = claims_.calls(object.name, stop);
      break;
    case Concern::assumed:
      concern = "assumed";
      outcome = auditor_.assumed(stop);
      if (outcome.kind == Outcome::Kind::done) watchingAssumed_ = false;
      break;
  }
  const std::string_view result = outcome.kind == Outcome::Kind::done    ? "done"
                                  : outcome.kind == Outcome::Kind::after ? "again"
                                                                         : "retry";
  metrics_.observe("elasticgpu_reconcile_duration_seconds", std::chrono::duration<double>(clock_.now() - start).count(),
                   {{"concern", std::string(concern)}});
  metrics_.add("elasticgpu_reconciles_total", 1, {{"concern", std::string(concern)}, {"result", std::string(result)}});
  if (outcome.kind == Outcome::Kind::retry &&
      (ApiRejections::isRefusal(outcome.why) || ApiRejections::isFailure(outcome.why)))
    apiRejections_.note(*key, outcome.why, stop);
  else
    apiRejections_.over(queueKey);
  // Mostly the decision is written by the end of its step.
  if (cluster_.assuming() && !watchingAssumed_.exchange(true)) enqueue_(assumedKey());
  if (outcome.kind == Outcome::Kind::retry && base::log::enabled(base::log::Level::debug))
    base::log::debug("to be tried again", {{"key", queueKey}, {"why", outcome.why.str()}});
  return outcome;
}

}  // namespace egpu::reconcile
