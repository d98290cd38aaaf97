// Whether a pod may be scheduled now, whatever its claims are. A pod that may not is no consumer: nothing is decided,
// reserved, nominated or counted in a gang for it, and claims that are stamped for it are not bound. All that decides for
// pods asks here.
//
//   obstacle              ends with
//   Terminating           the end of the pod. A suspended Job, or one whose owner is gone, deletes its pods
//   NamespaceTerminating  the end of the namespace
//   WaitingForGates       the removal of all scheduling gates but ours. Until then node selectors may be added
//   SchedulerNotServed    a restart with --schedulers, or a new pod: spec.schedulerName can't change
//
// A pod that has a node has none of them but Terminating: it runs, or is about to.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"
#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// What keeps a pod from being scheduled, for people.
struct PodObstacle {
  std::string_view reason;  ///< of a condition; empty: there is no obstacle
  std::string message;
  explicit operator bool() const { return !reason.empty(); }
};

/// The first obstacle of the pod; a finished pod counts as Terminating.
PodObstacle obstacleOf(const cache::Stores& stores, const core::Pod& pod);
/// The condition names an obstacle of pods.
bool isObstacle(const core::Condition& condition);
/// Nothing keeps the pod from being scheduled, or it runs already: claims may be decided for it.
bool isConsumer(const cache::Stores& stores, const core::Pod& pod);
/// The pod is a consumer, or runs and is being deleted: what it has is in use.
bool isUser(const cache::Stores& stores, const core::Pod& pod);
/// A pod of the claim is a consumer.
bool hasConsumer(const cache::Stores& stores, const cache::Claim& claim);

/// The pod that Kubernetes stamped the ResourceClaim for; null: it was made by hand.
const core::OwnerReference* stampedFor(const core::ResourceClaim& carrier);
/// The claim was made for a ResourceClaim that Kubernetes stamped for a pod. That pod is the claim's only consumer.
bool isStamped(const cache::Stores& stores, const cache::Claim& claim);
/// Whether the node of a claim of this class has to suit the claim's pods: the class waits for a consumer, or the claim
/// was stamped for a pod. Node selectors, tolerations, volumes and the pod's other claims count in either binding mode.
bool isPlacedWithPod(const cache::Stores& stores, const cache::Claim& claim, const cache::Class& cls);
/// Whether the step of its pod decides for the claim, and reports why it waits: the claim is placed with its pod and is of
/// no gang. All other claims have a step of their own or of their gang for this. False if there is no such class.
bool isDecidedByPod(const cache::Stores& stores, const cache::Claim& claim);
/// What keeps a claim without a device from being decided, as far as the cache knows: the obstacle of its oldest pod, if
/// none of its pods is a consumer. waits: its class binds for consumers only. A claim of another class has an obstacle
/// only if it was stamped for a pod; a claim that was made by hand is bound by itself.
PodObstacle obstacleOf(const cache::Stores& stores, const cache::Claim& claim, bool waits);

}  // namespace egpu::reconcile
