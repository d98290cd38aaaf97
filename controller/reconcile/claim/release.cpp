#include "controller/reconcile/claim/release.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/device/lost_cards.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {

/// Names what a claim that is being deleted waits for, for people.
std::string usersText(const Users& users, const core::ObjectKey& claim) {
  const auto pods = users.known(claim);
  if (pods.empty()) return "its ResourceClaim to be no longer reserved";
  return "pod " + pods.front()->metadata.name + (pods.size() > 1 ? " and others" : "") + " to end";
}

}  // namespace

Outcome ClaimRelease::reconcileLost(const ClaimPtr& claim, const GpuPtr& device, const std::string& message,
                                    std::stop_token stop) {
  if (device && device->status.phase == phase::kBound) {
    // The device is marked before the claim is Lost: Failed may follow, and requires this version of the device. The
    // mark is renewed when a further card is lost.
    const auto marked = context_.binder.setPhase(*device, phase::kBound, reason::kCardGone, message, stop);
    if (!marked.ok() || marked->metadata.resourceVersion != device->metadata.resourceVersion)
      return Outcome::nextState(marked.status());
  }
  const auto update = ConditionUpdate::of(claim->metadata, ConditionUpdate::As::lost, reason::kCardGone, message);
  if (claim->status.phase != phase::kLost) return Outcome::requeueNow().reports(update);
  const bool named = isStatic(*claim) && device && device->metadata.name == claim->spec.elasticGPUName;
  if (named || context_.users.isInUse(core::keyOf(claim->metadata)))
    return Outcome::done().reports(update);  // the end of a pod requeues the claim
  const auto resourceClaim =
      context_.bridge.release(core::keyOf(claim->metadata), claim->metadata.uid,
                              device ? device->metadata.name : claim->status.elasticGPUName, stop);
  if (resourceClaim.state == ResourceClaimBridge::Release::failed)
    return Outcome::retry(resourceClaim.error).reports(update);
  if (resourceClaim.state == ResourceClaimBridge::Release::inUse || !device) return Outcome::done().reports(update);
  return recoverLost(*claim, *device, message, stop).reports(update);
}

Outcome ClaimRelease::recoverLost(const cache::Claim& claim, const cache::Gpu& device, const std::string& message,
                                  std::stop_token stop) {
  const auto used = context_.users.isInUseNow(core::keyOf(claim.metadata), device.spec.nodeName, stop);
  if (!used.ok()) return Outcome::retry(used.status());
  if (*used) return Outcome::done();
  if (device.status.phase == phase::kBound) {
    // The next write is final, so the cards are read by quorum first.
    for (const auto& share : device.spec.cards) {
      const auto known = context_.stores.cards.get({"", share.name});
      const auto now =
          context_.writer.read<cache::Gpu>({"", share.name}, known ? known->metadata.uid : std::string(), stop);
      if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
    }
    if (lostCards(context_.stores, device).empty()) return Outcome::requeueNow();
  }
  const auto failed = context_.binder.setPhase(device, phase::kFailed, reason::kCardGone, message, stop);
  if (!failed.ok()) return Outcome::nextState(failed.status());
  if (failed->metadata.deleting()) return Outcome::done();
  const auto removed = context_.writer.remove(*failed, stop);
  return removed.ok() ? Outcome::done() : Outcome::retry(removed);
}

std::optional<Outcome> ClaimRelease::awaitUsers(const cache::Claim& claim, const GpuPtr& device, std::stop_token stop) {
  const bool released =
      device ? device->status.phase == phase::kReleased : context_.waiting.released.contains(claim.metadata.uid);
  // The device was released only after a quorum read found no ResourceClaim and no pod that uses it.
  if (released && !context_.stores.resourceClaims.get(core::keyOf(claim.metadata)) &&
      !context_.users.isInUse(core::keyOf(claim.metadata)))
    return std::nullopt;
  const auto name = device                                ? device->metadata.name
                    : claim.status.elasticGPUName.empty() ? deviceNameFor(claim)
                                                          : claim.status.elasticGPUName;
  const auto resourceClaim = context_.bridge.release(core::keyOf(claim.metadata), claim.metadata.uid, name, stop);
  if (resourceClaim.state == ResourceClaimBridge::Release::failed) return Outcome::retry(resourceClaim.error);
  bool used =
      resourceClaim.state == ResourceClaimBridge::Release::inUse || context_.users.isInUse(core::keyOf(claim.metadata));
  if (!used && device && device->status.phase != phase::kReleased) {
    const auto seen = context_.users.isInUseNow(core::keyOf(claim.metadata), device->spec.nodeName, stop);
    if (!seen.ok()) return Outcome::retry(seen.status());
    used = *seen;
  }
  if (!used) return std::nullopt;
  const auto waitsFor = usersText(context_.users, core::keyOf(claim.metadata));  // their end requeues the claim
  const auto gone = device ? lostCards(context_.stores, *device) : std::string();
  const auto update =
      ConditionUpdate::of(claim.metadata, ConditionUpdate::As::inUse, reason::kInUse,
                          "is being deleted; waits for " + waitsFor + (gone.empty() ? "" : "; " + gone));
  if (device && device->status.phase == phase::kBound && resourceClaim.state == ResourceClaimBridge::Release::gone) {
    // Pods run, but their ResourceClaim is gone: it was removed by force.
    const auto held = context_.users.hold(*device, reason::kResourceClaimDeleted, waitsFor, stop);
    if (!held.ok()) return Outcome::nextState(held);
  }
  return Outcome::done().reports(update);
}

std::optional<Outcome> ClaimRelease::releaseDevice(const cache::Gpu& device, std::stop_token stop) {
  const auto& phase = device.status.phase;
  const bool deleting = device.metadata.deleting();
  if (phase == phase::kReleased && device.spec.reclaimPolicy != "Delete" && !deleting) return std::nullopt;  // Retain
  if (phase == phase::kBound)
    return Outcome::nextState(context_.binder.setPhase(device, phase::kReleased, "", "", stop).status());
  if (deleting) return Outcome::done();  // the end of the device requeues the claim
  if (phase == phase::kAvailable) {      // named by the claim, never committed: only its claimRef is cleared
    const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, std::nullopt);
    const auto cleared = context_.writer.patch(device, body, {}, stop);
    return cleared.ok() ? Outcome::requeueNow() : Outcome::ofWrite(cleared.status());
  }
  const auto status = context_.binder.rollBack(device, stop);  // intent, Failed, or Released and Delete
  return status.ok() ? Outcome::requeueNow() : Outcome::retry(status);
}

Outcome ClaimRelease::reconcileDeleted(const ClaimPtr& claim, std::stop_token stop) {
  const auto device = deviceOf(context_.stores, *claim);
  if (const auto used = awaitUsers(*claim, device, stop)) return *used;
  if (device) {
    if (device->status.phase == phase::kReleased) context_.waiting.released.add(claim->metadata.uid);
    if (auto outcome = releaseDevice(*device, stop)) {
      // All pods have ended: from here on the claim waits for its device.
      const auto& why = device->status;
      if (!device->metadata.deleting() || why.reason != reason::kProvisionerUnavailable) return *outcome;
      return std::move(*outcome).reports(ConditionUpdate::of(
          claim->metadata, ConditionUpdate::As::inUse, why.reason,
          "is being deleted; waits for its device " + device->metadata.name + " to be removed: " + why.message));
    }
  } else if (!context_.waiting.released.contains(claim->metadata.uid)) {
    // The cache may not have the device yet.
    const auto& noted = claim->status.elasticGPUName;
    const auto now = context_.writer.read<cache::Gpu>({"", noted.empty() ? deviceNameFor(*claim) : noted}, {}, stop);
    if (now.ok() && belongsTo(*now, *claim)) return Outcome::requeueNow();
    if (!now.ok() && now.status().code() != base::Code::notFound) return Outcome::retry(now.status());
  }
  context_.waiting.forgetClaim(claim->metadata.uid);
  context_.cluster.forget(claim->metadata.uid);
  if (!claim->metadata.hasFinalizer(keys::kClaimFinalizer)) return Outcome::done();
  auto rest = claim->metadata.finalizers;
  rest.erase(std::remove(rest.begin(), rest.end(), keys::kClaimFinalizer), rest.end());
  const auto body = codec::patch::finalizers(claim->metadata.uid, claim->metadata.resourceVersion, rest);
  return Outcome::ofWrite(context_.writer.patch(*claim, body, {}, stop).status());
}

Outcome removeFailedDevice(const ClaimContext& context, const cache::Claim& claim, const cache::Gpu& device,
                           std::stop_token stop) {
  // The status shows the requests of this device, in case it stays. The next device is made for the requests in the
  // spec.
  const auto* bound = findCondition(claim.status.conditions, kBound);
  if (!claim.status.requests.empty() && bound != nullptr && claim.status.phase == phase::kPending)
    return Outcome::requeueNow().reports(notBound(claim, bound->reason, bound->message));
  if (device.metadata.deleting()) return Outcome::done();    // the end of the device requeues the claim
  const auto removed = context.writer.remove(device, stop);  // V6
  if (!removed.ok()) return Outcome::retry(removed);
  context.waiting.released.add(claim.metadata.uid);
  return Outcome::done();
}

}  // namespace egpu::reconcile
