#include "controller/reconcile/claim/claim_state.h"

#include <algorithm>
#include <utility>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/claim/binder.h"
#include "controller/reconcile/claim/conditions.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Stores& stores, const cache::Claim& claim) {
  const auto devices = stores.devicesOfClaim(claim.metadata.uid);
  if (devices.empty()) return nullptr;
  for (const auto& device : devices)
    if (device->metadata.name == claim.status.elasticGPUName) return device;
  for (const auto& device : devices)
    if (!device->metadata.deleting()) return device;
  return devices.front();
}

bool isStatic(const cache::Claim& claim) {
  return !claim.spec.elasticGPUName.empty() && claim.spec.elasticGPUName != deviceNameFor(claim);
}

cache::Store<cache::Gpu>::Ptr preboundDeviceFor(const cache::Stores& stores, const cache::Claim& claim) {
  const auto reserved = stores.devicesReservedFor(core::keyOf(claim.metadata));
  const auto available = std::find_if(reserved.begin(), reserved.end(), [](const auto& device) {
    return device->status.phase == phase::kAvailable && !device->metadata.deleting();
  });
  if (available != reserved.end()) return *available;
  return reserved.empty() ? nullptr : reserved.front();
}

bool takesDevice(const cache::Stores& stores, const cache::Claim& claim) {
  return isStatic(claim) ? stores.cards.get({"", claim.spec.elasticGPUName}) == nullptr
                         : preboundDeviceFor(stores, claim) != nullptr;
}

bool hasItsCards(const cache::Stores& stores, const cache::Claim& claim) {
  const auto device = deviceOf(stores, claim);
  if (device && device->status.phase == phase::kBound) return true;  // even if it is being deleted (held)
  if (!device || device->metadata.deleting()) return false;
  const auto& cards = device->spec.cards;
  return committed(*device) || std::all_of(cards.begin(), cards.end(), [&](const auto& share) {
           const auto card = stores.cards.get({"", share.name});
           return card && card->spec.allocations.contains(device->metadata.uid);
         });
}

bool hasWaitForFirstConsumer(const cache::Stores& stores, const cache::Claim& claim) {
  // If it is decided, uses the class that decided it: the default class may be another one by now.
  if (auto device = deviceOf(stores, claim); device && !device->spec.className.empty()) {
    auto cls = stores.classes.get({"", device->spec.className});
    return cls && cls->bindingMode == "WaitForFirstConsumer";
  }
  auto cls = classOf(stores, claim, nullptr);
  return cls && cls->bindingMode == "WaitForFirstConsumer";
}

bool isPlacedWithPod(const cache::Stores& stores, const cache::Claim& claim) {
  return !inGang(stores, claim) && hasWaitForFirstConsumer(stores, claim) && !isRemote(stores, claim);
}

bool isReservedForPod(const cache::Stores& stores, const cache::Claim& claim) {
  auto resourceClaim = stores.resourceClaims.get(core::keyOf(claim.metadata));
  return resourceClaim && ResourceClaimBridge::of(*resourceClaim, claim) && !resourceClaim->reservedFor.empty();
}

bool isPodBeingBoundTo(const cache::Stores& stores, const ChosenNodes& chosen, const cache::Claim& claim,
                       const cache::Gpu& device) {
  if (chosen.size() == 0) return false;
  const auto pods = stores.podsOfClaim(core::keyOf(claim.metadata));
  return std::any_of(pods.begin(), pods.end(),
                     [&](const auto& pod) { return alive(*pod) && chosen.nodeOf(*pod) == device.spec.nodeName; });
}

bool canRollBackIntent(const cache::Stores& stores, const ChosenNodes& chosen, const cache::Claim& claim,
                       const cache::Gpu& device) {
  return !committed(device) && device.status.phase != phase::kFailed && !device.metadata.deleting() &&
         !claim.metadata.deleting() && !isStatic(claim) && isPlacedWithPod(stores, claim) &&
         !isReservedForPod(stores, claim) && !isPodBeingBoundTo(stores, chosen, claim, device);
}

bool isResourceClaimObstacleGone(const cache::Stores& stores, const cache::Claim& claim,
                                 ResourceClaimBridge::State current) {
  const auto* ready = findCondition(claim.status.conditions, kResourceClaimReady);
  if (ready == nullptr || ready->status == "True") return false;
  if (ready->reason == reason::kNodeUnsuitable) {  // the pod that it was reported for may be gone
    const auto pods = stores.podsOfClaim(core::keyOf(claim.metadata));
    return std::none_of(pods.begin(), pods.end(),
                        [&stores](const auto& pod) { return isConsumer(stores, *pod) && gated(*pod); });
  }
  if (current == ResourceClaimBridge::State::unwanted) return true;
  const bool isAllocated =
      current == ResourceClaimBridge::State::allocated || current == ResourceClaimBridge::State::reserved;
  return isAllocated && (ready->reason == reason::kRefused || ready->reason == reason::kResourceClaimConflict);
}

std::optional<std::vector<cache::Store<cache::Claim>::Ptr>> openClaimsOf(const cache::Stores& stores,
                                                                         const core::Pod& pod) {
  if (v1alpha::pendingClaim(pod)) return std::nullopt;
  std::vector<cache::Store<cache::Claim>::Ptr> open;
  for (const auto& name : v1alpha::claimNames(pod)) {
    const core::ObjectKey key{pod.metadata.namespace_, name};
    auto claim = stores.claims.get(key);
    const auto resourceClaim = claim ? nullptr : stores.resourceClaims.get(key);
    if (resourceClaim && ResourceClaimBridge::isOthers(*resourceClaim)) continue;
    if (!claim || claim->metadata.deleting()) return std::nullopt;
    if (!deviceOf(stores, *claim)) open.push_back(std::move(claim));
  }
  return open;
}

}  // namespace egpu::reconcile
