#include "controller/reconcile/intent/intent_rollback.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

Outcome IntentRollback::rollBack(const cache::Claim& claim, const cache::Gpu& device, std::string_view avoidNodeFor,
                                 std::stop_token stop) {
  if (auto resourceClaim = context_.stores.resourceClaims.get(core::keyOf(claim.metadata));
      resourceClaim && ResourceClaimBridge::of(*resourceClaim, claim)) {
    if (!resourceClaim->reservedFor.empty()) return Outcome::done();  // a pod has reserved it by now
    auto status = context_.bridge.withdraw(*resourceClaim, stop);
    if (!status.ok()) return Outcome::retry(status);
  }
  if (!avoidNodeFor.empty())
    context_.waiting.nodes.reject(claim.metadata.uid, device.spec.nodeName, std::string(avoidNodeFor),
                                  context_.timeouts.nodeRejectionBackoff);
  // A device that existed before the claim is kept: only its claimRef is cleared.
  if (device.status.phase == phase::kAvailable) {
    const auto body = codec::patch::claimRef(device.metadata.uid, device.metadata.resourceVersion, std::nullopt);
    return Outcome::ofWrite(context_.writer.patch(device, body, {}, stop).status());
  }
  const auto status = context_.binder.rollBack(device, stop);
  return status.ok() ? Outcome::done() : Outcome::retry(status);
}

Outcome IntentRollback::moveAway(const cache::Claim& claim, const cache::Gpu& device, const std::string& why,
                                 std::stop_token stop) {
  if (isReservedForPod(context_.stores, claim) || committed(device) || device.metadata.deleting())
    return Outcome::done();
  // The idle claims of the same pods move, too: all must be on one node.
  for (const auto& pod : context_.stores.podsOfClaim(core::keyOf(claim.metadata))) {
    if (!isConsumer(context_.stores, *pod)) continue;
    for (const auto& other : v1alpha::claimNames(*pod)) {
      const core::ObjectKey otherKey{pod->metadata.namespace_, other};
      auto otherClaim = context_.stores.claims.get(otherKey);
      if (!otherClaim || otherClaim->metadata.uid == claim.metadata.uid ||
          !isPlacedWithPod(context_.stores, *otherClaim))
        continue;
      auto otherDevice = deviceOf(context_.stores, *otherClaim);
      if (!otherDevice || committed(*otherDevice) || otherDevice->metadata.deleting()) continue;
      auto outcome = rollBack(*otherClaim, *otherDevice, why, stop);
      context_.forgetIfGone(otherKey,
                            otherClaim->metadata.uid);  // no other step would, if the claim was deleted meanwhile
      if (outcome.isRetry()) return outcome;
    }
  }
  auto outcome = rollBackAndReport(claim, device, why, why, stop);
  if (!outcome.isRetry())
    base::log::info("choosing another node",
                    {{"claim", core::keyOf(claim.metadata).str()}, {"node", device.spec.nodeName}, {"why", why}});
  return outcome;
}

Outcome IntentRollback::regroup(const cache::Claim& claim, const cache::Gpu& device, const std::string& why,
                                std::stop_token stop) {
  return rollBackAndReport(claim, device, {}, why, stop);
}

Outcome IntentRollback::rollBackAndReport(const cache::Claim& claim, const cache::Gpu& device,
                                          std::string_view avoidNodeFor, const std::string& why, std::stop_token stop) {
  auto outcome = rollBack(claim, device, avoidNodeFor, stop);
  if (outcome.isRetry()) return outcome;
  context_.waiting.nodes.choiceFailed(claim.metadata.uid);
  return std::move(outcome).reports(ConditionUpdate::of(claim.metadata, ConditionUpdate::As::moves,
                                                        reason::kNodeUnsuitable,
                                                        "node " + device.spec.nodeName + " is no longer used: " + why));
}

}  // namespace egpu::reconcile
