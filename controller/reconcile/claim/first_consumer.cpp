// WaitForFirstConsumer: an intent that waits until the scheduler places a pod on its node, and what follows if the
// scheduler does not.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/claim.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kRejectFor{120'000};  ///< backoff of a node that plugin or scheduler refused
/// Time for the scheduler to place the pod; twice that while it preempts.
constexpr milliseconds kPlaceTimeout{300'000};
/// A scheduler places most pods sooner: their claims need no report of it, which is a write for each.
constexpr milliseconds kPlacementReportDelay{5'000};
constexpr std::size_t kMaxQuoteLength = 300;

/// Message of the scheduler about a pod that it cannot place; empty if there is none.
std::string schedulerSays(const core::Pod& pod) {
  const auto* condition = findCondition(pod.conditions, "PodScheduled");
  if (condition == nullptr || condition->reason != "Unschedulable" || condition->message.empty()) return {};
  return ": " + base::shortened(condition->message, kMaxQuoteLength);
}

}  // namespace

cache::Store<core::Pod>::Ptr ClaimSync::podToPlace(const cache::Claim& claim) const {
  for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim.metadata)))
    if (isConsumer(context_.stores, *pod) && pod->nodeName.empty() && pod->schedulingGates.empty()) return pod;
  return nullptr;
}

Outcome ClaimSync::waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  const auto& uid = claim->metadata.uid;
  const auto pod = podToPlace(*claim);
  // If the scheduler evicts victims for the pod on this node, it returns to it: a cleared allocation is written again
  // there, so that no victims are evicted on a second node.
  const bool nominated = pod && pod->nominatedNodeName == device->spec.nodeName;
  const auto answer = context_.bridge.ensure(*claim, *device, nominated, stop);  // W7, W8
  switch (answer.state) {
    case ResourceClaimBridge::State::reserved:
      context_.waiting.nodes.placed(uid);
      return provision(claim, device, stop);
    case ResourceClaimBridge::State::cleared:
      return moveAway(*claim, *device,
                      pod ? "the scheduler could not place pod " + pod->metadata.name + " there" + schedulerSays(*pod)
                          : "the scheduler cleared its allocation",
                      stop);
    case ResourceClaimBridge::State::failed:
      return Outcome::ofWrite(answer.error);
    case ResourceClaimBridge::State::allocated:
      if (isPodBeingBoundTo(context_.stores, context_.waiting.chosen, *claim, *device))
        return provision(claim, device, stop);
      break;
    case ResourceClaimBridge::State::waiting:
      break;
    default:
      return resourceClaimNotReady(*claim, answer);  // the obstacle to the allocation ends with an event
  }
  auto again = answer.state == ResourceClaimBridge::State::waiting ? answer.delay : milliseconds(0);
  if (!pod)
    context_.waiting.nodes.notUnplaced(uid);
  else if (const auto moved = unplacedTooLong(*claim, *device, *pod, &again, stop))
    return *moved;
  const auto rejections = context_.waiting.nodes.text(uid);
  const auto early = rejections.empty() ? untilPlacementReport(*claim, *device) : milliseconds(0);
  if (early.count() > 0) again = again.count() > 0 ? std::min(again, early) : early;
  auto outcome = again.count() > 0 ? Outcome::after(again) : Outcome::done();
  if (answer.state == ResourceClaimBridge::State::waiting || early.count() > 0) return outcome;
  auto message = "capacity on node " + device->spec.nodeName + " is reserved until the scheduler places the pod";
  if (!rejections.empty()) message += "; " + rejections;
  if (isResourceClaimObstacleGone(context_.stores, *claim, answer.state))
    outcome.updates.push_back(ConditionUpdate::of(claim->metadata, ConditionUpdate::As::resourceClaimReady, {}, {}));
  outcome.updates.push_back(notBound(*claim, reason::kWaitingForConsumer, message));
  return outcome;
}

milliseconds ClaimSync::untilPlacementReport(const cache::Claim& claim, const cache::Gpu& device) const {
  for (const auto type : {kBound, kResourceClaimReady}) {
    const auto* condition = findCondition(claim.status.conditions, type);
    if (condition != nullptr && condition->status == "False" && condition->reason != reason::kWaitingForConsumer)
      return {};
  }
  const auto passed = context_.waiting.nodes.waitedFor(claim.metadata.uid, device.metadata.uid);
  return std::max(kPlacementReportDelay - passed, milliseconds(0));
}

std::optional<Outcome> ClaimSync::unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device,
                                                  const core::Pod& pod, milliseconds* again, std::stop_token stop) {
  const bool nominated = pod.nominatedNodeName == device.spec.nodeName;
  const auto patience = nominated ? 2 * kPlaceTimeout : kPlaceTimeout;
  const auto passed = context_.waiting.nodes.unplacedFor(claim.metadata.uid, device.metadata.uid);
  if (passed >= patience)
    return moveAway(claim, device,
                    "the scheduler has not placed pod " + pod.metadata.name + " there in " +
                        std::to_string(patience.count() / 60'000) + " minutes" + schedulerSays(pod),
                    stop);
  *again = again->count() > 0 ? std::min(*again, patience - passed) : patience - passed;
  return std::nullopt;
}

Outcome ClaimSync::resourceClaimNotReady(const cache::Claim& claim, const ResourceClaimBridge::Answer& answer) {
  if (answer.state == ResourceClaimBridge::State::taken)
    return Outcome::done()
        .reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::resourceClaimNotReady,
                                     reason::kResourceClaimConflict, answer.why))
        .reports(notBound(claim, reason::kResourceClaimConflict, answer.why));
  const auto* carried = findCondition(claim.status.conditions, kResourceClaimReady);
  if (carried == nullptr || carried->status != "False") return Outcome::done();
  return Outcome::done().reports(notBound(claim, carried->reason, carried->message));
}

Outcome ClaimSync::moveAway(const cache::Claim& claim, const cache::Gpu& device, const std::string& why,
                            std::stop_token stop) {
  if (isReserved(context_.stores, claim) || committed(device) || device.metadata.deleting()) return Outcome::done();
  // The idle claims of the same pods move, too: all must be on one node.
  for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim.metadata))) {
    if (!isConsumer(context_.stores, *pod)) continue;
    for (const auto& other : v1alpha::claimNames(*pod)) {
      const core::ObjectKey otherKey{pod->metadata.namespace_, other};
      auto otherClaim = context_.stores.claims.get(otherKey);
      if (!otherClaim || otherClaim->metadata.uid == claim.metadata.uid ||
          !waitsForConsumer(context_.stores, *otherClaim))
        continue;
      auto otherDevice = deviceOf(context_.stores, *otherClaim);
      if (!otherDevice || committed(*otherDevice) || otherDevice->metadata.deleting()) continue;
      auto outcome = rollBack(*otherClaim, *otherDevice, why, stop);
      forgetIfGone(otherKey, otherClaim->metadata.uid);  // no other step would, if the claim was deleted meanwhile
      if (outcome.isRetry()) return outcome;
    }
  }
  auto outcome = rollBackAndReport(claim, device, why, why, stop);
  if (!outcome.isRetry())
    base::log::info("choosing another node",
                    {{"claim", core::keyOf(claim.metadata).str()}, {"node", device.spec.nodeName}, {"why", why}});
  return outcome;
}

Outcome ClaimSync::regroup(const cache::Claim& claim, const cache::Gpu& device, const std::string& why,
                           std::stop_token stop) {
  return rollBackAndReport(claim, device, {}, why, stop);
}

Outcome ClaimSync::rollBackAndReport(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                                     const std::string& why, std::stop_token stop) {
  auto outcome = rollBack(claim, device, avoidNodeFor, stop);
  if (outcome.isRetry()) return outcome;
  context_.waiting.nodes.choiceFailed(claim.metadata.uid);
  return std::move(outcome).reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::moves,
                                                        reason::kNodeUnsuitable,
                                                        "node " + device.spec.nodeName + " is no longer used: " + why));
}

Outcome ClaimSync::stuck(const cache::Claim& claim, const std::string& why) {
  return Outcome::retry({base::Code::unavailable, why})
      .reports(notBound(claim, reason::kProvisionFailed, why + " (its node can't change, so this is retried)"));
}

Outcome ClaimSync::rollBack(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                            std::stop_token stop) {
  if (auto carrier = context_.stores.carriers.get(core::keyOf(claim.metadata));
      carrier && ResourceClaimBridge::of(*carrier, claim)) {
    if (!carrier->reservedFor.empty()) return Outcome::done();  // a pod has reserved it by now
    auto status = context_.bridge.withdraw(*carrier, stop);
    if (!status.ok()) return Outcome::retry(status);
  }
  if (!avoidNodeFor.empty())
    context_.waiting.nodes.reject(claim.metadata.uid, device.spec.nodeName, std::string(avoidNodeFor), kRejectFor);
  // A device that existed before the claim is kept: only its claimRef is cleared.
  if (device.status.phase == phase::kAvailable) {
    const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, std::nullopt);
    return Outcome::ofWrite(context_.writer.patch(device, body, {}, stop).status());
  }
  const auto status = context_.binder.rollBack(device, stop);
  return status.ok() ? Outcome::done() : Outcome::retry(status);
}

}  // namespace egpu::reconcile
