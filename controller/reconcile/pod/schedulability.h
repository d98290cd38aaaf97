// Whether a pod may be scheduled now, whatever its claims are. A pod that may not is no consumer: nothing is decided,
// reserved, nominated or counted in a gang for it, and claims that are stamped for it are not bound. All code that
// decides for pods calls these functions.
//
//   obstacle              ends with
//   Terminating           the end of the pod. A suspended Job, or one whose owner is gone, deletes its pods
//   NamespaceTerminating  the end of the namespace
//   WaitingForGates       the removal of all scheduling gates but ours. Until then node selectors may be added
//   SchedulerNotServed    a restart with --schedulers, or a new pod: spec.schedulerName can't change
//
// A pod on a node has no obstacle except Terminating: it runs, or is about to.
#pragma once

#include <string>
#include <string_view>

#include "api/core/objects.h"
#include "controller/cache/stores.h"

namespace egpu::reconcile {

/// Reason why a pod may not be scheduled, for people.
struct PodObstacle {
  std::string_view reason;  ///< a condition's reason; empty: there is no obstacle
  std::string message;
  explicit operator bool() const { return !reason.empty(); }
};

/// Returns the first obstacle of the pod; a finished pod counts as Terminating.
PodObstacle obstacleOf(const cache::Stores& stores, const core::Pod& pod);
/// True if the condition names an obstacle of pods.
bool isObstacle(const core::Condition& condition);
/// True if claims may be decided for the pod: it has no obstacle, or it runs already.
bool isConsumer(const cache::Stores& stores, const core::Pod& pod);
/// True if the pod is a consumer, or runs and is being deleted: its devices are in use.
bool isUser(const cache::Stores& stores, const core::Pod& pod);
/// True if a pod of the claim is a consumer.
bool hasConsumer(const cache::Stores& stores, const cache::Claim& claim);

/// Returns the pod that Kubernetes stamped the ResourceClaim for; null if it was created by hand.
const core::OwnerReference* stampedFor(const core::ResourceClaim& resourceClaim);
/// True if the claim was made for a ResourceClaim that Kubernetes stamped for a pod. That pod is its only consumer.
bool isStamped(const cache::Stores& stores, const cache::Claim& claim);
/// True if the node of a claim of this class has to suit the claim's pods: the class waits for a consumer, or the claim
/// was stamped for a pod. Node selectors, tolerations, volumes and the pod's other claims count in either binding mode.
/// False for classes of remote GPUs: their claims have no node.
bool isPlacedWithPod(const cache::Stores& stores, const cache::Claim& claim, const cache::Class& cls);
/// True if the step of its pod decides for the claim and reports why it waits: the claim is placed with its pod and is
/// in no gang. The claim's own step or its gang's does this otherwise. False if there is no such class.
bool isDecidedByPod(const cache::Stores& stores, const cache::Claim& claim);
/// Returns the obstacle of the claim's oldest pod, as far as the cache knows, if the claim has no device and none of
/// its pods is a consumer. waits: the claim's class binds for consumers only. A claim of another class has an obstacle
/// only if it was stamped for a pod; a claim that was made by hand is bound by itself.
PodObstacle obstacleOf(const cache::Stores& stores, const cache::Claim& claim, bool waits);

}  // namespace egpu::reconcile
