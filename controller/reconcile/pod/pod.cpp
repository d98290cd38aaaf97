#include "controller/reconcile/pod/pod.h"

#include <algorithm>
#include <set>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/node_fit/resources.h"
#include "controller/reconcile/queue_key.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/template/amounts.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;
using std::chrono::milliseconds;

Outcome PodSync::step(const core::ObjectKey& key, std::stop_token stop) {
  auto pod = context_.stores.pods.get(key);
  if (!pod || !alive(*pod) || pod->metadata.deleting()) {
    context_.stores.usage.unplan(key);
    events_.forget(key);
    placement_.removeNodeResourceWait(key);
    return Outcome::done();
  }
  if (const auto node = context_.waiting.chosen.nodeOf(*pod); pod->nodeName.empty() && !node.empty()) {
    core::Pod there = *pod;  // a scheduler is binding it: decide as if it were on that node
    there.nodeName = node;
    pod = std::make_shared<const core::Pod>(std::move(there));
  }
  if (const auto obstacle = obstacleOf(context_.stores, *pod)) return awaitEnd(*pod, obstacle);
  std::string lacks;
  const auto claims = claimsOf(*pod, &lacks, stop);
  if (!claims || claims->empty()) {
    context_.stores.usage.unplan(key);
    if (lacks.empty()) return Outcome::done();
    return Outcome::done().reports(placement_.waitReports(*pod, presentClaims(*pod), waitText(*pod, lacks)));
  }
  const auto& used = *claims;
  auto outcome = decideFor(*pod, used, stop);
  for (const auto& one : used) context_.forgetIfGone(core::keyOf(one.claim->metadata), one.claim->metadata.uid);
  return outcome;
}

Outcome PodSync::awaitEnd(const core::Pod& pod, const PodObstacle& obstacle) {
  const auto key = core::keyOf(pod.metadata);
  context_.stores.usage.unplan(key);
  placement_.removeNodeResourceWait(key);
  const auto names = v1alpha::claimNames(pod);
  const bool ours = gated(pod) || std::any_of(names.begin(), names.end(), [&](const auto& name) {
                      return context_.stores.claims.get({key.namespace_, name}) != nullptr;
                    });
  if (ours && obstacle.reason != reason::kWaitingForConsumer)
    events_.report(pod, {}, obstacle.reason, obstacle.reason, obstacle.message);
  return Outcome::done();  // the end of the obstacle changes the pod or its namespace, which requeues the pod
}

Outcome PodSync::decideFor(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  const bool promised = std::any_of(used.begin(), used.end(), [this](const auto& one) {
    return !one.device && context_.cluster.decidedInGang(one.claim->metadata.uid);
  });
  if (open) {
    if (!promised) context_.stores.usage.unplan(key);  // until promise() counts it on a node again
  } else {
    placement_.removeNodeResourceWait(key);
    plan(pod, claimsWithNode(used));
  }
  if (pod.nodeName.empty() && context_.waiting.chosen.leavesToScheduler(pod)) return leaveToScheduler(pod, used, stop);
  if (const auto gathered = colocation_.reconcile(pod, claimsWithNode(used), stop)) return *gathered;
  if (!open && !gated(pod)) return Outcome::done();
  auto outcome = open ? placement_.reconcile(pod, used, stop) : ungate_.reconcile(pod, used, stop);
  events_.reportConditions(pod, used, outcome.updates);
  return outcome;
}

bool PodSync::allPodsForeignScheduled(const cache::Claim& claim) const {
  const auto pods = context_.stores.podsOfClaim(core::keyOf(claim.metadata));
  return std::all_of(pods.begin(), pods.end(), [this](const auto& pod) {
    return !isConsumer(context_.stores, *pod) ||
           (pod->nodeName.empty() && context_.waiting.chosen.leavesToScheduler(*pod));
  });
}

Outcome PodSync::leaveToScheduler(const core::Pod& pod, const std::vector<UsedClaim>& used, std::stop_token stop) {
  std::vector<const UsedClaim*> idle;
  for (const auto& one : used)
    if (colocation_.canRollBackIntent(pod, one)) idle.push_back(&one);
  if (!idle.empty()) return colocation_.regroup(idle, "no binding of pod " + pod.metadata.name + " is under way", stop);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  if (!open) return gated(pod) ? ungate_.reconcile(pod, used, stop) : Outcome::done();
  auto outcome = Outcome::done();
  const auto choice = placement_.choiceOf(pod, used, &outcome);
  if (choice && gated(pod))
    if (const auto failed = ungate_.removeGate(pod, codec::patch::liftGate(pod, keys::kSchedulingGate), stop))
      return *failed;
  if (choice)
    for (const auto* one : choice->open)
      if (allPodsForeignScheduled(*one->claim))
        outcome.updates.push_back(
            notBound(*one->claim, reason::kWaitingForConsumer, "the scheduler of its pods chooses the node"));
  events_.reportConditions(pod, used, outcome.updates);
  return outcome;
}

std::vector<UsedClaim> PodSync::presentClaims(const core::Pod& pod) const {
  std::vector<UsedClaim> used;
  for (const auto& name : v1alpha::claimNames(pod))
    if (auto claim = context_.stores.claims.get({pod.metadata.namespace_, name}); claim && !claim->metadata.deleting())
      used.push_back({claim, deviceOf(context_.stores, *claim)});
  return used;
}

std::optional<std::vector<UsedClaim>> PodSync::claimsOf(const core::Pod& pod, std::string* lacks,
                                                        std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  std::vector<UsedClaim> used;
  if (const auto pending = v1alpha::pendingClaim(pod)) {
    if (events_.reportUnstamped(pod, pending->templateName, stop)) *lacks = "template " + pending->templateName;
    return std::nullopt;  // the ResourceClaim, once stamped, enqueues the pod
  }
  const auto annotated = v1alpha::annotatedClaims(pod);
  std::set<std::string> names;
  for (const auto& entry : v1alpha::podClaims(pod)) {
    if (!names.insert(entry.claim).second) continue;
    const core::ObjectKey claimKeyOf{key.namespace_, entry.claim};
    auto claim = context_.stores.claims.get(claimKeyOf);
    const auto resourceClaim = context_.stores.resourceClaims.get(claimKeyOf);
    // Pods and claims arrive by different watches. A claim that is yet to be made for a stamped ResourceClaim is not
    // read: its creation requeues the pod.
    const bool stamped = entry.state == v1alpha::PodClaimState::stamped || (resourceClaim && asks(*resourceClaim));
    if (!claim && gated(pod) && !stamped) {
      const auto now = context_.writer.read<cache::Claim>(claimKeyOf, {}, stop);
      if (now.ok()) claim = context_.stores.claims.get(claimKeyOf);
    }
    if (!claim) {
      if (resourceClaim && ResourceClaimBridge::isOthers(*resourceClaim) && annotated.count(entry.claim) == 0)
        continue;  // a claim of another driver: nothing to wait for
      if (events_.reportMissing(pod, entry, resourceClaim.get())) *lacks = "claim " + entry.claim;
      return std::nullopt;  // the creation of the claim requeues the pod
    }
    if (resourceClaim && asks(*resourceClaim) && madeFor(*claim) != resourceClaim->metadata.uid) {
      if (madeFor(*claim).empty()) {
        *lacks = "claim " + entry.claim;
        events_.reportClaim(
            pod, entry.claim, reason::kResourceClaimConflict,
            "an ElasticGPUClaim of that name exists and was not made for the pod's ResourceClaim: give one of them "
            "another name");
      }
      return std::nullopt;  // the end of the earlier ResourceClaim or claim requeues the pod
    }
    if (claim->metadata.deleting()) {
      *lacks = "claim " + entry.claim;
      events_.reportClaim(pod, entry.claim, "Deleting", "it is being deleted");
      return std::nullopt;
    }
    used.push_back({claim, deviceOf(context_.stores, *claim)});
  }
  return used;
}

void PodSync::plan(const core::Pod& pod, const std::vector<UsedClaim>& used) {
  if (!pod.nodeName.empty()) return;  // a pod on a node is counted there already
  if (used.empty()) return context_.stores.usage.unplan(core::keyOf(pod.metadata));
  const auto& node = used.front().device->spec.nodeName;
  bool counts = std::all_of(used.begin(), used.end(), [&](const auto& one) {
    return one.device->spec.nodeName == node && !one.device->metadata.deleting();
  });
  // A pod that can't be placed there blocks no other pod, unless the scheduler evicts pods for it there.
  const auto* scheduled = findCondition(pod.conditions, "PodScheduled");
  if (scheduled != nullptr && scheduled->reason == "Unschedulable" && pod.nominatedNodeName != node) counts = false;
  const auto key = core::keyOf(pod.metadata);
  const auto object = counts ? context_.stores.nodes.get({"", node}) : nullptr;
  if (object && shortOf(cache::requestsOf(pod), context_.stores.usage.of(node, key), *object).empty())
    context_.stores.usage.plan(pod, node);
  else
    context_.stores.usage.unplan(key);
}

}  // namespace egpu::reconcile
