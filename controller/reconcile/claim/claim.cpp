#include "controller/reconcile/claim/claim.h"

#include <algorithm>
#include <variant>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "controller/base/log.h"
#include "controller/reconcile/api_rejections.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/quorum_reads.h"
#include "controller/reconcile/class/class_access.h"
#include "controller/reconcile/device/lost_cards.h"
#include "controller/reconcile/gang/gang_choice.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kAvailableSoon{500};
constexpr milliseconds kUsualCall{1'000};
constexpr int kStaleDecisions = 3;  ///< refusals of a claim by ledgers that still count as lost races
}  // namespace

Outcome ClaimSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto claim = context_.stores.claims.get(key);
  auto outcome = look(key, claim, stop);
  if (claim) context_.forgetIfGone(key, claim->metadata.uid);
  return outcome;
}

Outcome ClaimSync::look(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop) {
  // Drops assumptions of an earlier claim of this name, left by a write of unknown outcome.
  context_.cluster.forgetEarlier(key.str(), claim ? claim->metadata.uid : std::string());
  if (!claim) return Outcome::done();  // devices that name it have steps of their own
  if (claim->metadata.deleting()) return reportHealth(*claim, release_.reconcileDeleted(claim, stop), stop);
  auto device = deviceOf(context_.stores, *claim);
  if (!device) return unbound(claim, stop);
  if (auto outcome = victim_.reconcile(claim, device, stop)) return reportHealth(*claim, *std::move(outcome), stop);
  milliseconds again{0};
  if (auto outcome = incompleteGang_.reconcileBound(claim, device, &again, stop))
    return reportHealth(*claim, *std::move(outcome), stop);
  if (device->status.phase == phase::kFailed)
    return release_.reconcileLost(claim, device,
                                  device->status.message.empty() ? "the device failed" : device->status.message, stop);
  if (device->status.phase == phase::kBound) {
    auto outcome = committing(claim, device, stop);
    return outcome.isDone() && again.count() > 0 ? Outcome::after(again).reports(std::move(outcome.updates)) : outcome;
  }
  // Released by hand: the controller releases only devices of claims that are being deleted.
  if (device->status.phase == phase::kReleased)
    return release_.reconcileLost(claim, device, "device " + device->metadata.name + " was released under the claim",
                                  stop);
  // OBSERVATION: phase is "", Pending or Available: not committed.
  if (device->metadata.deleting()) return rolledBack(*claim, *device);
  if (isStatic(*claim) && device->metadata.name != claim->spec.elasticGPUName && !isReserved(context_.stores, *claim) &&
      std::none_of(device->spec.cards.begin(), device->spec.cards.end(),
                   [&](const auto& share) { return share.name == claim->spec.elasticGPUName; }))
    return rollback_.rollBack(*claim, *device, {}, stop);  // its user named a card meanwhile
  return syncIntent(claim, device, stop);
}

/// The last event of the device requeues the claim. Until then the claim reports why the device remains.
Outcome ClaimSync::rolledBack(const cache::Claim& claim, const cache::Gpu& device) {
  if (device.status.reason != reason::kProvisionerUnavailable) return Outcome::done();
  return Outcome::done().reports(
      notBound(claim, reason::kProvisionerUnavailable,
               "waits for its device " + device.metadata.name + ", which is rolled back: " + device.status.message));
}

Outcome ClaimSync::reportHealth(const cache::Claim& claim, Outcome outcome, std::stop_token stop) {
  if (outcome.isRequeueNow() || outcome.isRetry()) return outcome;
  const auto now = context_.stores.claims.get(core::keyOf(claim.metadata));
  if (!now || now->metadata.uid != claim.metadata.uid || now->status.phase != phase::kBound) return outcome;
  const auto device = deviceOf(context_.stores, *now);
  if (!device || device->status.phase != phase::kBound) return outcome;
  const auto told = context_.status.health(*now, *device, stop);
  if (!told.ok()) return Outcome::nextState(told.status());
  return *told ? Outcome::requeueNow() : outcome;  // the condition updates are for the claim before this write
}

Outcome ClaimSync::reportSlowProvisioning(const std::string& plugin) {
  const auto underWay = context_.provisioning.underWay(plugin);
  auto outcome = underWay.empty() ? Outcome::done() : Outcome::after(kUsualCall);
  for (const auto& [key, since] : underWay) {
    if (context_.clock.now() - since < kUsualCall) continue;
    const auto claim = context_.stores.claims.get(key);
    if (!claim || claim->metadata.deleting() || claim->status.phase == phase::kBound) continue;
    const auto* bound = findCondition(claim->status.conditions, kBound);
    if (bound != nullptr && bound->reason == reason::kProvisioning) continue;
    // The claim's own step waits for the plugin and continues with the claim in the store.
    outcome.updates.push_back(notBound(*claim, reason::kProvisioning, plugin + ": provisioning"));
  }
  return outcome;
}

Outcome ClaimSync::unbound(const ClaimPtr& claim, std::stop_token stop) {
  if (claim->spec.elasticGPUName == deviceNameFor(*claim) || !claim->status.elasticGPUName.empty())
    if (const auto outcome = withoutItsDevice(claim, stop)) return *outcome;
  const auto obstacle = obstacleNow(context_, *claim, stop);
  if (!obstacle.ok()) return Outcome::retry(obstacle.status());
  // A claim made by hand gets the device that it names, whatever the obstacle.
  const bool given = !*obstacle || madeFor(*claim).empty();
  if (const auto outcome = given ? staticBinding_.reconcile(claim, stop) : std::nullopt) {
    context_.cluster.releaseReservation(claim->metadata.uid);
    return *outcome;
  }
  const auto asked = resolver_.resolve(*claim);
  if (asked.later) return Outcome::after(kPluginBusy);
  if (!asked.cls) {  // classes and claims come by different watches
    const auto come = classExistsNow(context_, *claim, stop);
    if (!come.ok()) return Outcome::retry(come.status());
    if (*come) return Outcome::requeueNow();
  }
  if (!asked.ok()) {
    context_.cluster.forget(claim->metadata.uid);
    return Outcome::done().reports(asked.refusal(*claim));
  }
  if (*obstacle) return awaitPods(*claim, *obstacle);
  const bool member = inGang(context_.stores, *claim);
  if (auto refusal = context_.waiting.provisioners.refusal(claim->metadata.uid); !refusal.empty()) {
    if (member && context_.cluster.decidedInGang(claim->metadata.uid)) {
      context_.cluster.forget(claim->metadata.uid);
      for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim->metadata)))
        context_.enqueue(
            podKey(core::keyOf(pod->metadata)));  // the pod's capacity on the node was planned with this decision
    }
    return intents_.reportRefusal(*claim, refusal);
  }
  if (member) return gang_.reconcileMember(claim, asked, stop);
  return isDecidedByPod(context_.stores, *claim) ? leaveToConsumer(claim) : choose(*claim, asked, stop);
}

std::optional<Outcome> ClaimSync::withoutItsDevice(const ClaimPtr& claim, std::stop_token stop) {
  // OBSERVATION: the claim names its own device, or reports Bound, and the cache lacks that device: it is late, or
  // gone.
  const auto& name = claim->status.elasticGPUName.empty() ? claim->spec.elasticGPUName : claim->status.elasticGPUName;
  const auto& uid = claim->metadata.uid;
  const bool waits = claim->status.phase != phase::kBound && claim->status.phase != phase::kLost;
  const bool ownName = name == deviceNameFor(*claim);
  // A claim that released its device as a victim: no read per step is needed. W1 would find the device.
  if (waits && ownName && context_.waiting.released.contains(uid)) return std::nullopt;
  auto now = context_.writer.read<cache::Gpu>({"", name}, {}, stop);
  if (now.ok() && belongsTo(*now, *claim)) return Outcome::requeueNow();
  if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  if (now.ok() && name == deviceNameFor(*claim) && !now->spec.claimRef && !now->metadata.deleting()) {
    // The claimRef was removed by hand, and no other claim has the device: by its name it is this claim's.
    if (now->status.phase == phase::kAvailable)
      return staticBinding_.bind(claim, std::make_shared<const cache::Gpu>(*now), stop);
    if (now->status.phase != phase::kFailed) return Outcome::after(kAvailableSoon);
  }
  if (claim->status.phase == phase::kBound) {
    auto outcome = release_.reconcileLost(claim, nullptr, "device " + name + " is gone", stop);
    return outcome.isDone() ? Outcome::requeueNow().reports(std::move(outcome.updates)) : outcome;
  }
  if (claim->status.phase == phase::kLost) {
    const auto named = isStatic(*claim) ? context_.stores.gpu(claim->spec.elasticGPUName) : nullptr;
    const bool waitsForNamed = isStatic(*claim) && (!named || named->metadata.deleting());
    if (waitsForNamed || context_.users.isInUse(core::keyOf(claim->metadata))) return Outcome::done();
    const auto carrier = context_.bridge.release(core::keyOf(claim->metadata), claim->metadata.uid, name, stop);
    if (carrier.state == ResourceClaimBridge::Release::failed) return Outcome::retry(carrier.error);
    if (carrier.state == ResourceClaimBridge::Release::inUse) return Outcome::done();
  }
  if (waits && ownName && !now.ok()) context_.waiting.released.add(uid);
  return std::nullopt;
}

Outcome ClaimSync::awaitPods(const cache::Claim& claim, const PodObstacle& obstacle) {
  context_.cluster.forget(claim.metadata.uid);
  context_.cluster.releaseReservation(claim.metadata.uid);
  return Outcome::done().reports(notBound(claim, obstacle.reason, obstacle.message));
}

Outcome ClaimSync::leaveToConsumer(const ClaimPtr& claim) {
  const auto choosers = context_.waiting.consumers.choosersOf(context_.stores, *claim);
  const bool consumed = !choosers.pods.empty();
  // The event that requeued this claim may also have removed a pod's obstacle to choosing.
  for (const auto& pod : choosers.pods) context_.enqueue(podKey(pod));
  if (!consumed) context_.cluster.releaseReservation(claim->metadata.uid);
  const auto* bound = findCondition(claim->status.conditions, kBound);
  const bool isOver = consumed && bound != nullptr && isObstacle(*bound);
  auto outcome = choosers.inTurns ? Outcome::after(ConsumerTurns::kTurnInterval) : Outcome::done();
  // The nomination for the pod's claims stays as long as all of them exist.
  if (consumed && !isOver && !(claim->status.nominated && preemptor_.preemptionGroup(claim).empty())) return outcome;
  return std::move(outcome).reports(
      notBound(*claim, reason::kWaitingForConsumer,
               consumed ? "waits for the other claims of its pod" : "waits for the first pod that uses the claim"));
}

Outcome ClaimSync::choose(const cache::Claim& claim, const ResolvedClaim& asked, std::stop_token stop) {
  const auto queueKey = claimKey(core::keyOf(claim.metadata));
  const auto& uid = claim.metadata.uid;
  // Before deciding: capacity that becomes free, and taints that are removed, from now on requeue this claim.
  const bool mayLook =
      context_.waiting.room.add(queueKey, ageOf(claim.metadata), asked.order.priority, needsOf(claim, asked));
  if (!mayLook) return Outcome::after(UnschedulableQueue::kYieldTimeout);
  // No pod is known, so the tolerations of the class count.
  const bool anyRejected = context_.waiting.nodes.anyRejected(uid);
  const auto nodes = anyRejected ? std::string() : toleratedNodesText(context_.stores, *asked.cls);
  const auto tolerated = toleratedNodes(context_.stores, *asked.cls);
  const auto suits = !anyRejected ? tolerated : scheduler::NodePredicate([this, &uid, &tolerated](auto node) {
    return !context_.waiting.nodes.rejected(uid, node) && (!tolerated || tolerated(node));
  });
  auto decided = decideFirst(claim, asked, suits, nodes);
  using Found = UnschedulableQueue::Found;
  if (auto* later = std::get_if<Outcome>(&decided)) {
    if (context_.waiting.room.decided(queueKey, Found::unknown)) context_.enqueue(roomKey());
    return std::move(*later);
  }
  const auto& tried = std::get<std::vector<scheduler::Decision>>(decided);
  if (context_.waiting.room.decided(queueKey, tried.back().fits ? Found::room : Found::nothing))
    context_.enqueue(roomKey());
  if (tried.back().fits) {
    context_.waiting.remove(queueKey);
    return intents_.write(claim, *asked.cls, tried.back(), stop);
  }
  auto outcome = noneFits(claim, asked, tried, suits, nodes, stop);
  const auto wait = context_.waiting.nodes.untilNextNode(uid);
  return outcome.isDone() && wait.count() > 0 ? Outcome::after(wait).reports(std::move(outcome.updates)) : outcome;
}

scheduler::Decision ClaimSync::decide(const cache::Claim& claim, const ResolvedClaim& asked,
                                      const scheduler::NodePredicate& suits, const std::string& nodes) {
  const auto& uid = claim.metadata.uid;
  auto ask = asked.of(claim, nodes);
  const auto elsewhere = [&](std::string_view node) {
    return !context_.waiting.nodes.wasRefusedOn(uid, node) && (!suits || suits(node));
  };
  if (!context_.waiting.nodes.anyRefused(uid)) return context_.cluster.decideAndAssume(ask, suits);
  ask.nodes.clear();
  const bool first = std::exchange(ask.first, false);  // no reservation is made from a subset of the nodes
  auto decision = context_.cluster.decideAndAssume(ask, elsewhere);
  if (decision.fits) return decision;
  ask.first = first;
  ask.nodes = nodes;
  context_.waiting.nodes.forgetRefused(uid);
  return context_.cluster.decideAndAssume(ask, suits);
}

Outcome ClaimSync::syncIntent(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  // A device that existed before its claim stays on its node: no consumer chooses it.
  const bool late =
      bindsForConsumer(context_.stores, *claim) && !isStatic(*claim) && device->status.phase != phase::kAvailable;
  if (!isReserved(context_.stores, *claim)) {
    const auto obstacle = obstacleNow(context_, *claim, stop);
    if (!obstacle.ok()) return Outcome::retry(obstacle.status());
    const bool forPods = late || !madeFor(*claim).empty();
    // Rolls back if the consumer left before it reserved the claim, or may not be scheduled.
    if ((late && !hasConsumer(context_.stores, *claim)) || (forPods && *obstacle))
      return rollback_.rollBack(*claim, *device, {}, stop);
  }
  const auto entries = context_.binder.writeEntries(*device, stop);  // W2
  if (!entries.ok()) {
    if (entries.code() != base::Code::invalid) return Outcome::retry(entries);
    // (D1) 422: the decision was stale. Repeated refusals have another reason, and deciding at once would repeat them.
    const int times = context_.waiting.provisioners.serverRefused(claim->metadata.uid) - kStaleDecisions;
    if (times > 0)
      context_.waiting.provisioners.refused(claim->metadata.uid, device->spec.provisioner,
                                            "the ledger refuses: " + entries.message(), backoffAfterRefusals(times));
    if (isReserved(context_.stores, *claim)) return stuck(*claim, entries.message());
    return rollback_.rollBack(*claim, *device, {}, stop);
  }
  if (late && !inGang(context_.stores, *claim)) return waitForReservation(claim, device, stop);
  if (auto outcome = incompleteGang_.awaitMembers(*claim, *device, stop)) return *std::move(outcome);
  return provision(claim, device, stop);
}

Outcome ClaimSync::provision(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto refusal = context_.waiting.provisioners.refusal(claim->metadata.uid); !refusal.empty())
    return isReserved(context_.stores, *claim) ? intents_.reportRefusal(*claim, refusal)
                                               : rollback_.rollBack(*claim, *device, {}, stop);
  const auto reply = context_.provisioning.provision(*device);  // W3
  if (!reply) return Outcome::after(context_.provisioning.delay(*device));
  if (!reply->ok()) {
    // If the call took long, the claim was updated meanwhile: report on its current version.
    const auto now = context_.stores.claims.get(core::keyOf(claim->metadata));
    if (!now || now->metadata.uid != claim->metadata.uid) return Outcome::done();  // its device's step continues
    return notProvisioned(*now, *device, *reply, stop);
  }
  const auto now = context_.binder.commitDevice(*device, stop);  // W4
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

Outcome ClaimSync::notProvisioned(const cache::Claim& claim, const cache::Gpu& device, const plugin::Reply& reply,
                                  std::stop_token stop) {
  const auto text = device.spec.provisioner + ": " + std::string(plugin::toString(reply.outcome)) +
                    (reply.message.empty() ? "" : ": " + reply.message);
  const auto says = [&](std::string_view why) { return notBound(claim, why, text); };
  switch (reply.outcome) {
    case plugin::ReplyCode::ok:
    case plugin::ReplyCode::noChange:
      break;
    case plugin::ReplyCode::inProgress:
      return Outcome::after(kPollBackground).reports(says(reason::kProvisioning));
    case plugin::ReplyCode::reschedule: {
      const bool fixed =
          isReserved(context_.stores, claim) || device.status.phase == phase::kAvailable;  // it cannot be decided again
      return fixed ? stuck(claim, text) : rollback_.rollBack(claim, device, text, stop);
    }
    case plugin::ReplyCode::exists:  // the plugin has other content under this key
    case plugin::ReplyCode::invalid: {
      context_.waiting.provisioners.refused(claim.metadata.uid, device.spec.provisioner, text,
                                            kProvisionRefusalBackoff);
      auto outcome = isReserved(context_.stores, claim) ? Outcome::after(kProvisionRefusalBackoff)
                                                        : rollback_.rollBack(claim, device, {}, stop);
      return std::move(outcome).reports(says(reason::kProvisionFailed));
    }
    case plugin::ReplyCode::internal:
      if (auto outcome = incompleteGang_.rollBackAfterFailures(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::internal, text}).reports(says(reason::kProvisionFailed));
    case plugin::ReplyCode::unavailable:
    case plugin::ReplyCode::timeout:
    case plugin::ReplyCode::crashed:
    case plugin::ReplyCode::garbage:
      if (auto outcome = incompleteGang_.rollBackAfterFailures(claim, device, text, stop)) return *std::move(outcome);
      return Outcome::retry({base::Code::unavailable, text}).reports(says(reason::kProvisionerUnavailable));
  }
  return Outcome::done();
}

Outcome ClaimSync::committing(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  if (auto gone = lostCards(context_.stores, *device); !gone.empty())
    return release_.reconcileLost(claim, device, gone, stop);
  if (device->status.reason == reason::kCardGone)
    // The hardware is back. The device is written first, so that a stale controller's Failed has an old
    // resourceVersion.
    return Outcome::nextState(context_.binder.setPhase(*device, phase::kBound, "", "", stop).status());
  const auto now = context_.binder.commitClaim(*claim, *device, stop);  // W5
  const bool wrote = now.ok() && now->metadata.resourceVersion != claim->metadata.resourceVersion;
  if (!now.ok() || wrote) return Outcome::nextState(now.status());  // if it is gone, the device's step releases it
  context_.waiting.forgetChoice(claim->metadata.uid);
  const auto status = context_.status.bound(*claim, *device, stop);  // W6
  if (!status.ok()) return Outcome::nextState(status);
  boundAt_ = context_.clock.now();
  return bound(*claim, *device, stop);
}

Outcome ClaimSync::bound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto outcome = carried(claim, device, stop);
  const auto current = context_.stores.claims.get(core::keyOf(claim.metadata));  // as updated by W6
  if (!current || current->metadata.uid != claim.metadata.uid) return outcome;
  auto resized = resize_.reconcile(*current, device, stop);
  return resized ? std::move(outcome).mergeWith(*std::move(resized)) : outcome;
}

Outcome ClaimSync::carried(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  const auto current = context_.stores.claims.get(core::keyOf(claim.metadata));  // as updated by W6
  if (!current || current->metadata.uid != claim.metadata.uid) return Outcome::done();
  const auto answer = context_.bridge.ensure(*current, device, true, stop);  // W7, W8
  if (answer.state == ResourceClaimBridge::State::failed) return Outcome::ofWrite(answer.error);
  auto outcome = answer.state == ResourceClaimBridge::State::waiting ? Outcome::after(answer.delay) : Outcome::done();
  if (answer.state == ResourceClaimBridge::State::taken)
    return std::move(outcome).reports(ConditionUpdate::of(current->metadata, ConditionUpdate::As::resourceClaimNotReady,
                                                          reason::kResourceClaimConflict, answer.why));
  if (isResourceClaimObstacleGone(context_.stores, *current, answer.state))
    return std::move(outcome).reports(
        ConditionUpdate::of(current->metadata, ConditionUpdate::As::resourceClaimReady, {}, {}));
  return outcome;
}

}  // namespace egpu::reconcile
