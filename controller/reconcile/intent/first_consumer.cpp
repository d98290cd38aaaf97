// IntentSync: an intent that waits until the scheduler places a pod on its node, and what follows if the scheduler does
// not.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/base/text.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/intent/intent.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kMaxQuoteLength = 300;

/// Message of the scheduler about a pod that it cannot place; empty if there is none.
std::string schedulerMessage(const core::Pod& pod) {
  const auto* condition = findCondition(pod.conditions, "PodScheduled");
  if (condition == nullptr || condition->reason != "Unschedulable" || condition->message.empty()) return {};
  return ": " + base::shortened(condition->message, kMaxQuoteLength);
}

/// Live pod of the claim that waits for the scheduler, or null.
cache::Store<core::Pod>::Ptr podToPlace(const cache::Stores& stores, const cache::Claim& claim) {
  for (const auto& pod : stores.podsOfClaim(core::keyOf(claim.metadata)))
    if (isConsumer(stores, *pod) && pod->nodeName.empty() && pod->schedulingGates.empty()) return pod;
  return nullptr;
}

}  // namespace

Outcome IntentSync::waitForReservation(const ClaimPtr& claim, const GpuPtr& device, std::stop_token stop) {
  const auto& uid = claim->metadata.uid;
  const auto pod = podToPlace(context_.stores, *claim);
  // If the scheduler evicts victims for the pod on this node, it returns to it: a cleared allocation is written again
  // there, so that no victims are evicted on a second node.
  const bool nominated = pod && pod->nominatedNodeName == device->spec.nodeName;
  const auto answer = context_.bridge.ensure(*claim, *device, nominated, stop);  // W7, W8
  switch (answer.state) {
    case ResourceClaimBridge::State::reserved:
      context_.waiting.nodes.placed(uid);
      return provision(claim, device, stop);
    case ResourceClaimBridge::State::cleared:
      return rollback_.moveAway(
          *claim, *device,
          pod ? "the scheduler could not place pod " + pod->metadata.name + " there" + schedulerMessage(*pod)
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

milliseconds IntentSync::untilPlacementReport(const cache::Claim& claim, const cache::Gpu& device) const {
  for (const auto type : {kBound, kResourceClaimReady}) {
    const auto* condition = findCondition(claim.status.conditions, type);
    if (condition != nullptr && condition->status == "False" && condition->reason != reason::kWaitingForConsumer)
      return {};
  }
  const auto passed = context_.waiting.nodes.waitedFor(claim.metadata.uid, device.metadata.uid);
  return std::max(context_.timeouts.placementReportDelay - passed, milliseconds(0));
}

std::optional<Outcome> IntentSync::unplacedTooLong(const cache::Claim& claim, const cache::Gpu& device,
                                                   const core::Pod& pod, milliseconds* again, std::stop_token stop) {
  const bool nominated = pod.nominatedNodeName == device.spec.nodeName;
  const auto patience = context_.timeouts.placementTimeout * (nominated ? 2 : 1);
  const auto passed = context_.waiting.nodes.unplacedFor(claim.metadata.uid, device.metadata.uid);
  if (passed >= patience)
    return rollback_.moveAway(claim, device,
                              "the scheduler has not placed pod " + pod.metadata.name + " there in " +
                                  std::to_string(patience.count() / 60'000) + " minutes" + schedulerMessage(pod),
                              stop);
  *again = again->count() > 0 ? std::min(*again, patience - passed) : patience - passed;
  return std::nullopt;
}

Outcome IntentSync::resourceClaimNotReady(const cache::Claim& claim, const ResourceClaimBridge::EnsureResult& answer) {
  if (answer.state == ResourceClaimBridge::State::taken)
    return Outcome::done()
        .reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::resourceClaimNotReady,
                                     reason::kResourceClaimConflict, answer.why))
        .reports(notBound(claim, reason::kResourceClaimConflict, answer.why));
  const auto* ready = findCondition(claim.status.conditions, kResourceClaimReady);
  if (ready == nullptr || ready->status != "False") return Outcome::done();
  return Outcome::done().reports(notBound(claim, ready->reason, ready->message));
}

}  // namespace egpu::reconcile
