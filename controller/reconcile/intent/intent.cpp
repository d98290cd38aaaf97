#include "controller/reconcile/intent/intent.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/quorum_reads.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr int kStaleDecisions = 3;  ///< refusals of a claim by ledgers that still count as lost races
}  // namespace

Outcome IntentSync::reconcile(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  // A device that existed before its claim stays on its node: no consumer chooses it.
  const bool waits = hasWaitForFirstConsumer(context_.stores, *claim) && !isStatic(*claim) &&
                     device->status.phase != phase::kAvailable;
  const bool late = waits && !v1alpha::isRemote(*device);  // the scheduler's choice does not matter to a remote device
  if (!isReservedForPod(context_.stores, *claim)) {
    const auto obstacle = obstacleNow(context_, *claim, stop);
    if (!obstacle.ok()) return Outcome::retry(obstacle.status());
    const bool forPods = waits || !madeFor(*claim).empty();
    // Rolls back if the consumer left before it reserved the claim, or may not be scheduled.
    if ((waits && !hasConsumer(context_.stores, *claim)) || (forPods && *obstacle))
      return rollback_.rollBack(*claim, *device, {}, stop);
  }
  const auto entries = context_.binder.writeSomeEntries(*device, stop);  // W2
  if (!entries.ok()) {
    const auto& why = entries.status();
    if (why.code() != base::Code::invalid) return Outcome::retry(why);
    // (D1) 422: the decision was stale. Repeated refusals have another reason, and deciding at once would repeat them.
    const int times = context_.waiting.provisioners.serverRefused(claim->metadata.uid) - kStaleDecisions;
    if (times > 0)
      context_.waiting.provisioners.refused(claim->metadata.uid, device->spec.provisioner,
                                            "the ledger refuses: " + why.message(),
                                            intents_.backoffAfterRefusals(times));
    if (isReservedForPod(context_.stores, *claim)) return reportStuck(*claim, why.message());
    return rollback_.rollBack(*claim, *device, {}, stop);
  }
  if (!*entries) return Outcome::requeueNow();
  if (late && !inGang(context_.stores, *claim)) return waitForReservation(claim, device, stop);
  if (auto outcome = incompleteGang_.awaitMembers(*claim, *device, stop)) return *std::move(outcome);
  return provision(claim, device, stop);
}

Outcome IntentSync::provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto refusal = context_.waiting.provisioners.refusal(claim->metadata.uid); !refusal.empty())
    return isReservedForPod(context_.stores, *claim) ? intents_.reportRefusal(*claim, refusal)
                                                     : rollback_.rollBack(*claim, *device, {}, stop);
  auto reply = context_.provisioning.provision(*device);  // W3
  if (!reply) return Outcome::after(context_.provisioning.delay(*device));
  if (v1alpha::isRemote(*device) && reply->ok() && device->spec.source->endpoint.empty() &&
      reply->source.endpoint.empty()) {
    reply->outcome = plugin::ReplyCode::internal;
    reply->message = "it replied no endpoint for the remote GPU";
  }
  if (!reply->ok()) {
    // If the call took long, the claim was updated meanwhile: report on its current version.
    const auto now = context_.stores.claims.get(core::keyOf(claim->metadata));
    if (!now || now->metadata.uid != claim->metadata.uid)
      return Outcome::done();  // the claim is gone: the step of the device continues
    return notProvisioned(*now, *device, *reply, stop);
  }
  auto now = context_.binder.writeSource(*device, reply->source, stop);            // W3b
  if (now.ok()) now = context_.binder.commitDevice(*now, reply->isolation, stop);  // W4
  if (!now.ok()) {
    // 409, 404: the device was read again. Bound: continue. Rolled back meanwhile: its undo may have run before the
    // plugin provisioned, so undo that, too.
    auto current = context_.stores.devices.get({"", device->metadata.name});
    const bool gone = !current || current->metadata.uid != device->metadata.uid;
    if (gone || (current->metadata.deleting() && !committed(*current))) {
      const auto undone = context_.provisioning.deprovision(*device);
      if (!undone || !undone->ok()) context_.enqueue(pluginKey(device->spec.provisioner));  // (S2)
    }
    return Outcome::afterWrite(now.status());
  }
  return Outcome::requeueNow();  // (C8)
}

Outcome IntentSync::notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                                   std::stop_token stop) {
  const auto text = device.spec.provisioner + ": " + std::string(plugin::toString(reply.outcome)) +
                    (reply.message.empty() ? "" : ": " + reply.message);
  const auto report = [&](std::string_view why) { return notBound(claim, why, text); };
  switch (reply.outcome) {
    case plugin::ReplyCode::ok:
    case plugin::ReplyCode::noChange:
      break;
    case plugin::ReplyCode::inProgress:
      return Outcome::after(context_.timeouts.backgroundCallInterval).reports(report(reason::kProvisioning));
    case plugin::ReplyCode::reschedule: {
      if (v1alpha::isRemote(device)) return reportNoRemoteGpu(claim, device, reply.message);
      const bool fixed = isReservedForPod(context_.stores, claim) ||
                         device.status.phase == phase::kAvailable;  // it cannot be decided again
      return fixed ? reportStuck(claim, text) : rollback_.rollBack(claim, device, text, stop);
    }
    case plugin::ReplyCode::exists:  // the plugin has other content under this key
    case plugin::ReplyCode::invalid: {
      context_.waiting.provisioners.refused(claim.metadata.uid, device.spec.provisioner, text,
                                            context_.timeouts.provisionRefusalBackoff, device.metadata.name);
      auto outcome = isReservedForPod(context_.stores, claim)
                         ? Outcome::after(context_.timeouts.provisionRefusalBackoff)
                         : rollback_.rollBack(claim, device, {}, stop);
      return std::move(outcome).reports(report(reason::kProvisionFailed));
    }
    case plugin::ReplyCode::internal:
      if (auto outcome = incompleteGang_.rollBackAfterFailures(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::internal, text}).reports(report(reason::kProvisionFailed));
    case plugin::ReplyCode::unavailable:
    case plugin::ReplyCode::timeout:
    case plugin::ReplyCode::crashed:
    case plugin::ReplyCode::garbage:
      if (auto outcome = incompleteGang_.rollBackAfterFailures(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::unavailable, text}).reports(report(reason::kProvisionerUnavailable));
  }
  return Outcome::done();
}

Outcome IntentSync::reportNoRemoteGpu(const cache::Claim& claim, const cache::Gpu& device, const std::string& why) {
  // The intent stays: another decision would ask the same pool.
  const auto text = device.spec.provisioner + ": " + why;
  return Outcome::retry({base::Code::unavailable, text}).reports(notBound(claim, reason::kNoFit, text));
}

Outcome IntentSync::reportSlowProvisioning(const std::string& plugin) {
  const auto underWay = context_.provisioning.underWay(plugin);
  auto outcome = underWay.empty() ? Outcome::done() : Outcome::after(context_.timeouts.slowCallReportDelay);
  for (const auto& [key, since] : underWay) {
    if (context_.clock.now() - since < context_.timeouts.slowCallReportDelay) continue;
    const auto claim = context_.stores.claims.get(key);
    if (!claim || claim->metadata.deleting() || claim->status.phase == phase::kBound) continue;
    const auto* bound = findCondition(claim->status.conditions, kBound);
    if (bound != nullptr && bound->reason == reason::kProvisioning) continue;
    // The claim's own step waits for the plugin and continues with the claim in the store.
    outcome.updates.push_back(notBound(*claim, reason::kProvisioning, plugin + ": provisioning"));
  }
  return outcome;
}

Outcome IntentSync::reportStuck(const cache::Claim& claim, const std::string& why) {
  return Outcome::retry({base::Code::unavailable, why})
      .reports(notBound(claim, reason::kProvisionFailed, why + " (its node can't change, so this is retried)"));
}

}  // namespace egpu::reconcile
