#include "controller/reconcile/pod/ungate.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/demand.h"
#include "controller/reconcile/pod/node_fit/node_fit.h"
#include "controller/reconcile/pod/schedulability.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {

/// Reports that the claims' node does not suit the pod; its gate stays.
Outcome unsuited(const core::Pod& pod, const std::vector<UsedClaim>& used, bool anyBound, const std::string& why) {
  const auto& node = used.front().device->spec.nodeName;
  // A pod pinned there could never run, and a pin is permanent. Without a pin the scheduler would clear an allocation
  // that another pod needs.
  return Outcome::done().reports(nodeUnsuitableReports(used, "pod " + pod.metadata.name + " can't run on node " + node +
                                                                 (anyBound ? "" : ", chosen for another pod") + ": " +
                                                                 why));
}

}  // namespace

bool PodUngate::suitsAnotherPod(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                const core::Node& node) const {
  for (const auto& one : used)
    for (const auto& other : context_.stores.podsOfClaim(core::keyOf(one.claim->metadata)))
      if (other->metadata.uid != pod.metadata.uid && isConsumer(context_.stores, *other) &&
          nodeUnsuitable(*other, {}, node).empty())
        return true;
  return false;
}

Outcome PodUngate::reconcile(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop) {
  for (const auto& one : used) {
    // A pin is permanent, so never pin to hardware that is gone. The end of the Lost state requeues the pod.
    if (one.claim->status.phase == phase::kLost || one.device->status.phase == phase::kFailed) return Outcome::done();
    if (one.device->metadata.deleting() && !committed(*one.device))
      return Outcome::done();                         // the intent is being rolled back
    if (isLeft(*one.device)) return Outcome::done();  // the end of the mark requeues the pod
    // The claim becomes Lost soon, or its card returns.
    if (one.device->status.reason == reason::kCardGone) return Outcome::after(context_.timeouts.lostCardInterval);
  }
  if (const auto apart = claimsOnDifferentNodes(pod, used)) return *apart;
  if (!areAllAllocated(pod, used)) return Outcome::done();  // each allocation requeues the pod
  const auto placed = claimsWithNode(used);
  if (placed.empty()) return liftGate(pod, used, {}, stop);
  const bool anyBound = std::any_of(placed.begin(), placed.end(),
                                    [](const auto& one) { return one.device->status.phase == phase::kBound; });
  const auto& node = placed.front().device->spec.nodeName;
  const auto object = context_.stores.nodes.get({"", node});
  auto volumes = context_.volumes.of(pod, stop);
  if (!volumes.ok()) return Outcome::retry(volumes.status());
  // Reading the volumes may have taken long.
  if (std::any_of(used.begin(), used.end(),
                  [this](const auto& one) { return deviceOf(context_.stores, *one.claim) != one.device; }))
    return Outcome::requeueNow();
  const auto why = object ? nodeUnsuitable(pod, *volumes, *object) : "there is no such node";
  if (why.empty()) return liftGate(pod, used, anyBound ? node : std::string(), stop);
  if (!anyBound && (!object || !suitsAnotherPod(pod, placed, *object)))
    return parts_.rollback.moveAway(*placed.front().claim, *placed.front().device,
                                    "pod " + pod.metadata.name + " can't run there: " + why, stop);
  return unsuited(pod, placed, anyBound, why);
}

bool PodUngate::areAllAllocated(const core::Pod& pod, const std::vector<UsedClaim>& used) {
  for (const auto& one : used) {
    const auto resourceClaim = context_.stores.resourceClaims.get(core::keyOf(one.claim->metadata));
    if (resourceClaim && resourceClaim->metadata.deleting() && !resourceClaim->reservedFor.empty())
      events_.reportClaim(pod, one.claim->metadata.name, "ResourceClaimDeleting",
                          "its ResourceClaim is being deleted and is still reserved for other pods");
    if (!resourceClaim || resourceClaim->metadata.deleting() ||
        !context_.bridge.markedAsCanBe(*resourceClaim, *one.claim) || !resourceClaim->allocation ||
        resourceClaim->allocation->device != one.device->metadata.name)
      return false;
    if (!parts_.gangs.isBound(*one.claim)) return false;  // routing.cpp requeues the pod once the last member is Bound
    const bool bound = one.device->status.phase == phase::kBound;
    if (!bound && !isPlacedWithPod(context_.stores, *one.claim))
      return false;  // an Immediate claim must be Bound first
  }
  return true;
}

std::optional<Outcome> PodUngate::removeGate(const core::Pod& pod, const std::string& body, std::stop_token stop) {
  const auto lifted = context_.writer.patch(pod, body, {}, stop, kube::PatchType::json);
  if (lifted.ok()) return std::nullopt;
  if (lifted.status().code() == base::Code::notFound) return Outcome::done();
  const auto now = context_.writer.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
  const bool changed = now.ok() && now->metadata.resourceVersion != pod.metadata.resourceVersion;
  return changed ? Outcome::requeueNow() : Outcome::retry(lifted.status());
}

Outcome PodUngate::liftGate(const core::Pod& pod, const std::vector<UsedClaim>& used, const std::string& pinTo,
                            std::stop_token stop) {
  const auto body = pinTo.empty() ? codec::patch::liftGate(pod, keys::kSchedulingGate)
                                  : codec::patch::pinAndLift(pod, pinTo, keys::kSchedulingGate);
  if (const auto failed = removeGate(pod, body, stop)) return *failed;
  auto outcome = Outcome::done();
  for (const auto& one : used) {
    const auto* ready = findCondition(one.claim->status.conditions, kResourceClaimReady);
    if (ready != nullptr && ready->reason == reason::kNodeUnsuitable)
      outcome.updates.push_back(
          ConditionUpdate::of(one.claim->metadata, ConditionUpdate::As::resourceClaimReady, {}, {}));
  }
  return outcome;
}

}  // namespace egpu::reconcile
