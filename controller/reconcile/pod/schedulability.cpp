#include "controller/reconcile/pod/schedulability.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/class/class.h"
#include "controller/reconcile/class/remote_class.h"
#include "controller/reconcile/device/users.h"
#include "controller/reconcile/gang/membership.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/retry/unschedulable_queue.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace reason = v1alpha::keys::reason;

namespace {

enum class Obstacle { none, terminating, namespaceTerminating, gates, scheduler };

bool isForeign(const std::string& gate) { return gate != keys::kSchedulingGate; }

std::string_view schedulerOf(const core::Pod& pod) {
  return pod.schedulerName.empty() ? core::kDefaultScheduler : std::string_view(pod.schedulerName);
}

bool isTerminating(const core::Namespace& space) { return space.metadata.deleting() || space.phase == "Terminating"; }

Obstacle firstObstacle(const cache::Stores& stores, const core::Pod& pod) {
  if (pod.finished() || pod.metadata.deleting()) return Obstacle::terminating;
  if (!pod.nodeName.empty()) return Obstacle::none;
  const auto space = stores.namespaces.get({"", pod.metadata.namespace_});
  if (space && isTerminating(*space)) return Obstacle::namespaceTerminating;
  if (std::any_of(pod.schedulingGates.begin(), pod.schedulingGates.end(), isForeign)) return Obstacle::gates;
  return stores.servedSchedulers.contains(schedulerOf(pod)) ? Obstacle::none : Obstacle::scheduler;
}

template <class Names>
std::string namesText(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string gatesText(const core::Pod& pod) {
  std::vector<std::string> foreign;
  std::copy_if(pod.schedulingGates.begin(), pod.schedulingGates.end(), std::back_inserter(foreign), isForeign);
  const bool several = foreign.size() > 1;
  return "pod " + pod.metadata.name + " is held by scheduling gate" + (several ? "s " : " ") + namesText(foreign) +
         " (spec.schedulingGates) of another controller; its claims get cards once that controller removes " +
         (several ? "them" : "it");
}

std::string schedulerText(const cache::Stores& stores, const core::Pod& pod) {
  return "pod " + pod.metadata.name + " names scheduler " + std::string(schedulerOf(pod)) +
         " (spec.schedulerName), which is not served here; served: " + namesText(stores.servedSchedulers) +
         ". Recreate the pod for one of these, or, if that scheduler runs here and supports ResourceClaims, add it to "
         "the controller's flag --schedulers";
}

}  // namespace

PodObstacle obstacleOf(const cache::Stores& stores, const core::Pod& pod) {
  switch (firstObstacle(stores, pod)) {
    case Obstacle::none:
      break;
    case Obstacle::terminating:
      return {reason::kWaitingForConsumer,
              "pod " + pod.metadata.name + (pod.finished() ? " has finished" : " is being deleted")};
    case Obstacle::namespaceTerminating:
      return {reason::kWaitingForConsumer,
              "namespace " + pod.metadata.namespace_ + " of pod " + pod.metadata.name + " is being deleted"};
    case Obstacle::gates:
      return {reason::kWaitingForGates, gatesText(pod)};
    case Obstacle::scheduler:
      return {reason::kSchedulerNotServed, schedulerText(stores, pod)};
  }
  return {};
}

bool isObstacle(const core::Condition& condition) {
  return condition.reason == reason::kWaitingForGates || condition.reason == reason::kSchedulerNotServed;
}

bool isConsumer(const cache::Stores& stores, const core::Pod& pod) {
  return firstObstacle(stores, pod) == Obstacle::none;
}

bool isUser(const cache::Stores& stores, const core::Pod& pod) { return running(pod) || isConsumer(stores, pod); }

bool hasConsumer(const cache::Stores& stores, const cache::Claim& claim) {
  const auto consumes = [&stores](const core::Pod& pod) { return isConsumer(stores, pod); };
  return stores.firstPodByAge(core::keyOf(claim.metadata), consumes) != nullptr;
}

const core::OwnerReference* stampedFor(const core::ResourceClaim& resourceClaim) {
  const auto& owners = resourceClaim.metadata.ownerReferences;
  const auto owner = std::find_if(owners.begin(), owners.end(), [](const auto& each) { return each.kind == "Pod"; });
  return owner == owners.end() ? nullptr : &*owner;
}

bool isStamped(const cache::Stores& stores, const cache::Claim& claim) {
  const auto resourceClaim = madeFor(claim).empty() ? nullptr : stores.resourceClaims.get(core::keyOf(claim.metadata));
  return resourceClaim && stampedFor(*resourceClaim) != nullptr;
}

bool isPlacedWithPod(const cache::Stores& stores, const cache::Claim& claim, const cache::Class& cls) {
  if (isRemote(stores, cls)) return false;
  return cls.bindingMode == "WaitForFirstConsumer" || isStamped(stores, claim);
}

bool isDecidedByPod(const cache::Stores& stores, const cache::Claim& claim) {
  if (inGang(stores, claim)) return false;
  const auto cls = stores.classes.get({"", classNameOf(stores, claim)});
  return cls && isPlacedWithPod(stores, claim, *cls);
}

PodObstacle obstacleOf(const cache::Stores& stores, const cache::Claim& claim, bool waits) {
  const auto key = core::keyOf(claim.metadata);
  const auto resourceClaim = madeFor(claim).empty() ? nullptr : stores.resourceClaims.get(key);
  const auto* owner = resourceClaim ? stampedFor(*resourceClaim) : nullptr;
  if (!waits && owner == nullptr) return {};
  cache::Store<core::Pod>::Ptr oldest;
  for (const auto& pod : stores.podsOfClaim(key)) {
    if (isConsumer(stores, *pod)) return {};
    const bool toReport = alive(*pod);  // a pod that is ending is not reported on the claim
    if (toReport && (!oldest || ageOf(pod->metadata) < ageOf(oldest->metadata))) oldest = pod;
  }
  auto first = oldest ? obstacleOf(stores, *oldest) : PodObstacle();
  if (first || owner == nullptr) return first;
  // The pod's status may not name the ResourceClaim yet.
  const auto pod = stores.pods.get({key.namespace_, owner->name});
  if (pod && pod->metadata.uid == owner->uid) return obstacleOf(stores, *pod);
  return {reason::kWaitingForConsumer, "pod " + owner->name + ", which the claim was made for, is gone"};
}

}  // namespace egpu::reconcile
