// State of a claim, as far as the caches know: its device, its ResourceClaim, and how it is bound.
#pragma once

#include <optional>
#include <vector>

#include "controller/cache/stores.h"
#include "controller/reconcile/pod/chosen_nodes.h"
#include "controller/reconcile/resourceclaim/bridge.h"

namespace egpu::reconcile {

/// Returns the claim's device by claimRef: the one that its status names, else one that stays, else one that is being
/// deleted. Null: none.
cache::Store<cache::Gpu>::Ptr deviceOf(const cache::Stores& stores, const cache::Claim& claim);
/// True if the user set spec.elasticGPUName to another name than that of the claim's own device.
bool isStatic(const cache::Claim& claim);
/// Returns the device that an administrator bound to the claim in advance (claimRef without uid), or null.
cache::Store<cache::Gpu>::Ptr preboundDeviceFor(const cache::Stores& stores, const cache::Claim& claim);
/// True if the claim gets an existing device: one that it names (even before it exists), or one that was
/// bound to it in advance.
bool takesDevice(const cache::Stores& stores, const cache::Claim& claim);
/// True if the device is Bound, or the ledgers of all its cards have its entry.
bool hasItsCards(const cache::Stores& stores, const cache::Claim& claim);

/// True if the claim's class has WaitForFirstConsumer; false if the class is gone.
bool hasWaitForFirstConsumer(const cache::Stores& stores, const cache::Claim& claim);
/// True if hasWaitForFirstConsumer(), and the claim is in no gang and not remote. Gang members are decided for all of
/// their pods at once, and Bound before any of these pods is ungated.
bool isPlacedWithPod(const cache::Stores& stores, const cache::Claim& claim);

/// True if a pod has reserved the claim's ResourceClaim.
bool isReservedForPod(const cache::Stores& stores, const cache::Claim& claim);
/// True if a pod of the claim is being bound to the device's node. This counts as a reservation.
bool isPodBeingBoundTo(const cache::Stores& stores, const ChosenNodes& chosen, const cache::Claim& claim,
                       const cache::Gpu& device);
/// True if the intent may be rolled back: nothing is provisioned, no pod has reserved it, and no user named it.
bool canRollBackIntent(const cache::Stores& stores, const ChosenNodes& chosen, const cache::Claim& claim,
                       const cache::Gpu& device);
/// True if the obstacle in the claim's condition ResourceClaimReady is gone. current: state of its ResourceClaim.
bool isResourceClaimObstacleGone(const cache::Stores& stores, const cache::Claim& claim,
                                 ResourceClaimBridge::State current);

/// Returns the claims of the pod that have no device, each once, in the order of its entries, without claims of other
/// drivers. Nullopt while a claim is pending, missing or being deleted: the pod gets no node before all of them exist.
std::optional<std::vector<cache::Store<cache::Claim>::Ptr>> openClaimsOf(const cache::Stores& stores,
                                                                         const core::Pod& pod);

}  // namespace egpu::reconcile
