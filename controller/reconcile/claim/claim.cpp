#include "controller/reconcile/claim/claim.h"

#include <algorithm>
#include <memory>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/bypass.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/claim/quorum_reads.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/device/lost_cards.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

Outcome ClaimSync::step(const core::ObjectKey& key, std::stop_token stop) {
  const auto claim = context_.stores.claims.get(key);
  auto outcome = reconcile(key, claim, stop);
  if (claim) context_.forgetIfGone(key, claim->metadata.uid);
  return outcome;
}

Outcome ClaimSync::reconcile(const core::ObjectKey& key, const ClaimPtr& claim, std::stop_token stop) {
  // Drops assumptions of an earlier claim of this name, left by a write of unknown outcome.
  context_.cluster.forgetEarlier(key.str(), claim ? claim->metadata.uid : std::string());
  if (!claim) return Outcome::done();  // devices that name it have steps of their own
  if (claim->metadata.deleting()) return reportHealth(*claim, release_.reconcileDeleted(claim, stop), stop);
  auto device = deviceOf(context_.stores, *claim);
  if (!device) return reconcileUnbound(claim, stop);
  if (auto outcome = victim_.reconcile(claim, device, stop)) {
    changedAt_ = context_.clock.now();
    return reportHealth(*claim, *std::move(outcome), stop);
  }
  milliseconds again{0};
  if (auto outcome = incompleteGang_.reconcileBound(claim, device, &again, stop))
    return reportHealth(*claim, *std::move(outcome), stop);
  if (device->status.phase == phase::kFailed)
    return release_.reconcileLost(claim, device,
                                  device->status.message.empty() ? "the device failed" : device->status.message, stop);
  if (device->status.phase == phase::kBound) {
    auto outcome = commit(claim, device, stop);
    return outcome.isDone() && again.count() > 0 ? Outcome::after(again).reports(std::move(outcome.updates)) : outcome;
  }
  // Released by hand: the controller releases only devices of claims that are being deleted.
  if (device->status.phase == phase::kReleased)
    return release_.reconcileLost(claim, device, "device " + device->metadata.name + " was released under the claim",
                                  stop);
  // The device is not committed: its phase is "", Pending or Available.
  if (device->metadata.deleting()) return awaitRollBack(*claim, *device);
  if (isStatic(*claim) && device->metadata.name != claim->spec.elasticGPUName &&
      !isReservedForPod(context_.stores, *claim) &&
      std::none_of(device->spec.cards.begin(), device->spec.cards.end(),
                   [&](const auto& share) { return share.name == claim->spec.elasticGPUName; }))
    return parts_.rollback.rollBack(*claim, *device, {}, stop);  // its user named a card meanwhile
  return intent_.reconcile(claim, device, stop);
}

Outcome ClaimSync::awaitRollBack(const cache::Claim& claim, const cache::Gpu& device) {
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
  const auto reported = context_.status.updateHealth(*now, *device, stop);
  if (!reported.ok()) return Outcome::nextState(reported.status());
  return *reported ? Outcome::requeueNow() : outcome;  // the condition updates are for the claim before this write
}

Outcome ClaimSync::reconcileUnbound(const ClaimPtr& claim, std::stop_token stop) {
  if (claim->spec.elasticGPUName == deviceNameFor(*claim) || !claim->status.elasticGPUName.empty())
    if (const auto outcome = reconcileMissingDevice(claim, stop)) return *outcome;
  const auto obstacle = obstacleNow(context_, *claim, stop);
  if (!obstacle.ok()) return Outcome::retry(obstacle.status());
  // A claim made by hand gets the device that it names, whatever the obstacle.
  const bool given = !*obstacle || madeFor(*claim).empty();
  if (const auto outcome = given ? staticBinding_.reconcile(claim, stop) : std::nullopt) {
    context_.cluster.releaseReservation(claim->metadata.uid);
    return *outcome;
  }
  auto asked = parts_.resolver.resolve(*claim);
  if (asked.later) return Outcome::after(context_.timeouts.busyPluginInterval);
  if (!asked.cls) {  // classes and claims come by different watches
    const auto exists = classExistsNow(context_, *claim, stop);
    if (!exists.ok()) return Outcome::retry(exists.status());
    if (*exists) return Outcome::requeueNow();
  }
  if (!asked.ok()) {
    context_.cluster.forget(claim->metadata.uid);
    return Outcome::done().reports(asked.refusal(*claim));
  }
  if (*obstacle) return awaitPods(*claim, *obstacle);
  if (isRemote(context_.stores, *asked.cls)) return remotePlacement_.reconcile(claim, asked, stop);
  if (auto refusal = context_.waiting.provisioners.refusal(claim->metadata.uid); !refusal.empty())
    return reportProvisionRefusal(*claim, refusal);
  if (inGang(context_.stores, *claim)) return gang_.reconcileMember(claim, asked, stop);
  return isDecidedByPod(context_.stores, *claim) ? leaveToConsumer(claim)
                                                 : placement_.reconcile(*claim, std::move(asked), stop);
}

Outcome ClaimSync::reportProvisionRefusal(const cache::Claim& claim, const std::string& refusal) {
  const auto& uid = claim.metadata.uid;
  if (inGang(context_.stores, claim) && context_.cluster.decidedInGang(uid)) {
    context_.cluster.forget(uid);
    // The capacity of its pods on the node was planned with this decision.
    for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim.metadata)))
      context_.enqueue(podKey(core::keyOf(pod->metadata)));
  }
  return parts_.intents.reportRefusal(claim, refusal);
}

std::optional<Outcome> ClaimSync::reconcileMissingDevice(const ClaimPtr& claim, std::stop_token stop) {
  // The claim names its own device, or reports Bound, and the cache lacks that device: it is late, or
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
    if (now->status.phase != phase::kFailed) return Outcome::after(context_.timeouts.shortRecheckInterval);
  }
  if (claim->status.phase == phase::kBound) {
    auto outcome = release_.reconcileLost(claim, nullptr, "device " + name + " is gone", stop);
    return outcome.isDone() ? Outcome::requeueNow().reports(std::move(outcome.updates)) : outcome;
  }
  if (claim->status.phase == phase::kLost) {
    const auto named = isStatic(*claim) ? context_.stores.gpu(claim->spec.elasticGPUName) : nullptr;
    const bool waitsForNamed = isStatic(*claim) && (!named || named->metadata.deleting());
    if (waitsForNamed || context_.users.isInUse(core::keyOf(claim->metadata))) return Outcome::done();
    const auto resourceClaim = context_.bridge.release(core::keyOf(claim->metadata), claim->metadata.uid, name, stop);
    if (resourceClaim.state == ResourceClaimBridge::Release::failed) return Outcome::retry(resourceClaim.error);
    if (resourceClaim.state == ResourceClaimBridge::Release::inUse) return Outcome::done();
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
  auto outcome = choosers.inRounds ? Outcome::after(context_.timeouts.consumerRoundInterval) : Outcome::done();
  // The nomination for the pod's claims stays as long as all of them exist.
  if (consumed && !isOver && !(claim->status.nominated && parts_.preemptor.preemptionGroup(claim).empty()))
    return outcome;
  return std::move(outcome).reports(
      notBound(*claim, reason::kWaitingForConsumer,
               consumed ? "waits for the other claims of its pod" : "waits for the first pod that uses the claim"));
}

Outcome ClaimSync::commit(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
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
  const auto status = context_.status.writeBound(*claim, *device, stop);  // W6
  if (!status.ok()) return Outcome::nextState(status);
  changedAt_ = context_.clock.now();
  return reconcileBound(*claim, *device, stop);
}

Outcome ClaimSync::reconcileBound(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
  auto outcome = reconcileResourceClaim(claim, device, stop);
  const auto current = context_.stores.claims.get(core::keyOf(claim.metadata));  // as updated by W6
  if (!current || current->metadata.uid != claim.metadata.uid) return outcome;
  if (auto evicted = evictBypassing(context_, *current, device, stop))
    outcome = std::move(outcome).mergeWith(*std::move(evicted));
  auto resized = resize_.reconcile(*current, device, stop);
  return resized ? std::move(outcome).mergeWith(*std::move(resized)) : outcome;
}

Outcome ClaimSync::reconcileResourceClaim(const cache::Claim& claim, const cache::Gpu& device, std::stop_token stop) {
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
