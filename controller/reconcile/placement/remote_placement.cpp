#include "controller/reconcile/placement/remote_placement.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/remote.h"
#include "controller/reconcile/claim/remote_intent.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

bool RemotePlacement::isUsable(const cache::Claim& claim, const ResolvedClaim& asked, const cache::Gpu& device) const {
  if (v1alpha::isOnAnyNode(device)) return true;
  const auto node = context_.stores.nodes.get({"", device.spec.nodeName});
  if (!node || !staticBinding_.againstClass(device, *asked.cls, asked.request).empty()) return false;
  if (asked.cls->bindingMode != "WaitForFirstConsumer") return true;
  const auto canRunThere = [&](const core::Pod& pod) {
    return isConsumer(context_.stores, pod) && nodeUnsuitable(pod, {}, *node).empty();
  };
  return context_.stores.firstPodByAge(core::keyOf(claim.metadata), canRunThere) != nullptr;
}

GpuPtr RemotePlacement::availableDevice(const cache::Claim& claim, const ResolvedClaim& asked) const {
  GpuPtr first;
  for (const auto& device : context_.stores.devicesInPhase(phase::kAvailable))
    if (v1alpha::isRemote(*device) && device->spec.className == asked.cls->metadata.name && !device->spec.claimRef &&
        !device->metadata.deleting() && device->spec.adminAccess == claim.spec.adminAccess &&
        isLargeEnough(*device, asked.request) && (!first || device->metadata.name < first->metadata.name) &&
        isUsable(claim, asked, *device))
      first = device;
  return first;
}

Outcome RemotePlacement::reconcile(const ClaimPtr& claim, const ResolvedClaim& asked, std::stop_token stop) {
  if (asked.cls->bindingMode == "WaitForFirstConsumer" && !hasConsumer(context_.stores, *claim))
    return Outcome::done().reports(
        notBound(*claim, reason::kWaitingForConsumer, "waits for the first pod that uses the claim"));
  const auto& uid = claim->metadata.uid;
  auto& refusals = context_.waiting.provisioners;
  const auto device = availableDevice(*claim, asked);
  // The device may have become Available while the plugin refused the claim's own one.
  if (device && refusals.isRefusalOfOther(uid, device->metadata.name)) refusals.forgetClaim(uid);
  if (const auto refusal = refusals.refusal(uid); !refusal.empty())
    return parts_.intents.reportRefusal(*claim, refusal);
  if (device) return staticBinding_.bind(claim, device, stop);
  const auto intent = remoteIntent(*claim, *asked.cls, asked.request);
  if (auto outcome = staticBinding_.reserveQuota(*claim, intent)) return *std::move(outcome);
  return parts_.intents.writeRemote(*claim, intent, stop);
}

}  // namespace egpu::reconcile
