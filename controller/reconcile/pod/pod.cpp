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
  auto pod = stores_.pods.get(key);
  if (!pod || !alive(*pod) || pod->metadata.deleting()) {
    stores_.usage.unplan(key);
    const std::lock_guard lock(mutex_);
    told_.erase(key);
    podsWaitingForNodeResources_.erase(key);
    return Outcome::done();
  }
  if (const auto node = waiting_.chosen.nodeOf(*pod); pod->nodeName.empty() && !node.empty()) {
    core::Pod there = *pod;  // a scheduler is binding it: decide as if it were on that node
    there.nodeName = node;
    pod = std::make_shared<const core::Pod>(std::move(there));
  }
  if (const auto obstacle = obstacleOf(stores_, *pod)) return awaitEnd(*pod, obstacle);
  std::string lacks;
  const auto claims = claimsOf(*pod, &lacks, stop);
  if (!claims || claims->empty()) {
    stores_.usage.unplan(key);
    if (lacks.empty()) return Outcome::done();
    return Outcome::done().reports(waitReports(*pod, presentClaims(*pod), waitText(*pod, lacks)));
  }
  const auto& used = *claims;
  auto outcome = decideFor(*pod, used, stop);
  for (const auto& one : used) context_.forgetIfGone(core::keyOf(one.claim->metadata), one.claim->metadata.uid);
  return outcome;
}

Outcome PodSync::awaitEnd(const core::Pod& pod, const PodObstacle& obstacle) {
  const auto key = core::keyOf(pod.metadata);
  stores_.usage.unplan(key);
  removeNodeResourceWait(key);
  const auto names = v1alpha::claimNames(pod);
  const bool ours = gated(pod) || std::any_of(names.begin(), names.end(), [&](const auto& name) {
                      return stores_.claims.get({key.namespace_, name}) != nullptr;
                    });
  if (ours && obstacle.reason != reason::kWaitingForConsumer)
    tellOnce(pod, {}, obstacle.reason, obstacle.reason, obstacle.message);
  return Outcome::done();  // the end of the obstacle is an event of the pod or its namespace
}

Outcome PodSync::decideFor(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  const bool promised = std::any_of(used.begin(), used.end(), [this](const auto& one) {
    return !one.device && cluster_.decidedInGang(one.claim->metadata.uid);
  });
  if (open) {
    if (!promised) stores_.usage.unplan(key);  // until it is promised a node again
  } else {
    removeNodeResourceWait(key);
    plan(pod, used);
  }
  if (pod.nodeName.empty() && waiting_.chosen.leavesToScheduler(pod)) return leaveToScheduler(pod, used, stop);
  if (const auto gathered = colocateClaims(pod, used, stop)) return *gathered;
  if (!open && !gated(pod)) return Outcome::done();
  auto outcome = open ? choose(pod, used, stop) : ungate(pod, used, stop);
  tellConditions(pod, used, outcome.updates);
  return outcome;
}

bool PodSync::allPodsForeignScheduled(const cache::Claim& claim) const {
  const auto pods = stores_.podsOfClaim(core::keyOf(claim.metadata));
  return std::all_of(pods.begin(), pods.end(), [this](const auto& pod) {
    return !isConsumer(stores_, *pod) || (pod->nodeName.empty() && waiting_.chosen.leavesToScheduler(*pod));
  });
}

Outcome PodSync::leaveToScheduler(const core::Pod& pod, const std::vector<Used>& used, std::stop_token stop) {
  std::vector<const Used*> idle;
  for (const auto& one : used)
    if (canRollBackIntent(pod, one)) idle.push_back(&one);
  if (!idle.empty()) return regroup(idle, "no binding of pod " + pod.metadata.name + " is under way", stop);
  const bool open = std::any_of(used.begin(), used.end(), [](const auto& one) { return !one.device; });
  if (!open) return gated(pod) ? ungate(pod, used, stop) : Outcome::done();
  auto outcome = Outcome::done();
  const auto choice = choiceOf(pod, used, &outcome);
  if (choice && gated(pod))
    if (const auto failed = removeGate(pod, codec::patch::liftGate(pod, keys::kSchedulingGate), stop)) return *failed;
  if (choice)
    for (const auto* one : choice->open)
      if (allPodsForeignScheduled(*one->claim))
        outcome.updates.push_back(
            notBound(*one->claim, reason::kWaitingForConsumer, "the scheduler of its pods chooses the node"));
  tellConditions(pod, used, outcome.updates);
  return outcome;
}

void PodSync::removeNodeResourceWait(const core::ObjectKey& pod) {
  const std::lock_guard lock(mutex_);
  podsWaitingForNodeResources_.erase(pod);
}

std::size_t PodSync::remembered() const {
  const std::lock_guard lock(mutex_);
  return told_.size() + podsWaitingForNodeResources_.size();
}

std::vector<PodSync::Used> PodSync::presentClaims(const core::Pod& pod) const {
  std::vector<Used> used;
  for (const auto& name : v1alpha::claimNames(pod))
    if (auto claim = stores_.claims.get({pod.metadata.namespace_, name}); claim && !claim->metadata.deleting())
      used.push_back({claim, deviceOf(stores_, *claim)});
  return used;
}

std::optional<std::vector<PodSync::Used>> PodSync::claimsOf(const core::Pod& pod, std::string* lacks,
                                                            std::stop_token stop) {
  const auto key = core::keyOf(pod.metadata);
  std::vector<Used> used;
  if (const auto pending = v1alpha::pendingClaim(pod)) {
    if (tellUnstamped(pod, pending->templateName, stop)) *lacks = "template " + pending->templateName;
    return std::nullopt;  // the stamped ResourceClaim is an event of the pod
  }
  const auto annotated = v1alpha::annotatedClaims(pod);
  std::set<std::string> names;
  for (const auto& entry : v1alpha::podClaims(pod)) {
    if (!names.insert(entry.claim).second) continue;
    const core::ObjectKey claimKeyOf{key.namespace_, entry.claim};
    auto claim = stores_.claims.get(claimKeyOf);
    const auto carrier = stores_.carriers.get(claimKeyOf);
    // Pods and claims arrive by different watches. A claim that is yet to be made for a stamped ResourceClaim is not
    // read: its creation is an event.
    const bool stamped = entry.state == v1alpha::PodClaimState::stamped || (carrier && asks(*carrier));
    if (!claim && gated(pod) && !stamped) {
      const auto now = writer_.read<cache::Claim>(claimKeyOf, {}, stop);
      if (now.ok()) claim = stores_.claims.get(claimKeyOf);
    }
    if (!claim) {
      if (carrier && ResourceClaimBridge::isOthers(*carrier) && annotated.count(entry.claim) == 0)
        continue;  // another driver's: nothing to wait for
      if (tellMissing(pod, entry, carrier.get())) *lacks = "claim " + entry.claim;
      return std::nullopt;  // the claim's creation is an event
    }
    if (carrier && asks(*carrier) && madeFor(*claim) != carrier->metadata.uid) {
      if (madeFor(*claim).empty()) {
        *lacks = "claim " + entry.claim;
        tell(pod, entry.claim, reason::kResourceClaimConflict,
             "an ElasticGPUClaim of that name exists and was not made for the pod's ResourceClaim: give one of them "
             "another name");
      }
      return std::nullopt;  // the end of the earlier ResourceClaim or claim is an event
    }
    if (claim->metadata.deleting()) {
      *lacks = "claim " + entry.claim;
      tell(pod, entry.claim, "Deleting", "it is being deleted");
      return std::nullopt;
    }
    used.push_back({claim, deviceOf(stores_, *claim)});
  }
  return used;
}

bool PodSync::tellUnstamped(const core::Pod& pod, const std::string& name, std::stop_token stop) {
  const core::ObjectKey key{pod.metadata.namespace_, name};
  if (!gated(pod)) return false;  // the template may be another driver's
  const auto report = [&](const std::string& of, std::string_view why, const std::string& message) {
    tellOf(pod, of, why, message);
    return true;
  };
  if (const auto claims = stores_.templates.get(key)) {
    const auto* ready = findCondition(claims->conditions, kReady);
    return ready != nullptr && ready->status == "False" &&
           report("template " + name, ready->reason, ready->reason + ": " + ready->message);
  }
  if (v1alpha::namesAmounts(name)) {  // the controller creates this template for the pod
    const auto why = amountsRefusal(stores_, pod, name);
    return why && report("amounts", reason::kInvalidParameter, *why);
  }
  if (stores_.carrierTemplates.get(key)) return false;  // Kubernetes stamps the ResourceClaim soon
  return writer_.read<core::ResourceClaimTemplate>(key, {}, stop).status().code() == base::Code::notFound &&
         report("template " + name, "NotFound",
                "there is no ElasticGPUClaimTemplate or ResourceClaimTemplate of that name");
}

bool PodSync::tellMissing(const core::Pod& pod, const v1alpha::PodClaim& entry, const core::ResourceClaim* carrier) {
  const auto& claim = entry.claim;
  if (carrier == nullptr && entry.state == v1alpha::PodClaimState::stamped) return false;  // it comes by another watch
  if (carrier == nullptr || (carrier->deviceClassName != keys::kDeviceClass && !asks(*carrier))) {
    tell(pod, claim, "NotFound", "there is no such ElasticGPUClaim");
    return true;
  }
  const auto wanted = asks(*carrier) ? claimFor(*carrier)
                                     : std::string(
                                           "spec.devices.config: must say what is wanted, as {opaque: {driver: "
                                           "elasticgpu.io, parameters: {egpuClassName: …, resources: …}}}");
  const auto* why = std::get_if<std::string>(&wanted);
  if (why != nullptr) tell(pod, claim, reason::kInvalidParameter, "its ResourceClaim can't be served: " + *why);
  return why != nullptr;
}

void PodSync::plan(const core::Pod& pod, const std::vector<Used>& used) {
  if (!pod.nodeName.empty()) return;  // a pod on a node is counted there already
  const auto& node = used.front().device->spec.nodeName;
  bool counts = std::all_of(used.begin(), used.end(), [&](const auto& one) {
    return one.device->spec.nodeName == node && !one.device->metadata.deleting();
  });
  // A pod that can't be placed there blocks no other pod, unless the scheduler evicts pods for it there.
  const auto* scheduled = findCondition(pod.conditions, "PodScheduled");
  if (scheduled != nullptr && scheduled->reason == "Unschedulable" && pod.nominatedNodeName != node) counts = false;
  const auto key = core::keyOf(pod.metadata);
  const auto object = counts ? stores_.nodes.get({"", node}) : nullptr;
  if (object && shortOf(cache::requestsOf(pod), stores_.usage.of(node, key), *object).empty())
    stores_.usage.plan(pod, node);
  else
    stores_.usage.unplan(key);
}

void PodSync::freed(const std::string& node) {
  std::vector<std::pair<core::ObjectKey, Short>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (podsWaitingForNodeResources_.empty()) return;
    waiting.assign(podsWaitingForNodeResources_.begin(), podsWaitingForNodeResources_.end());
  }
  const auto object = stores_.nodes.get({"", node});
  if (!object) return;
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
  for (const auto& [pod, is] : waiting)
    if (shortOf(is.requests, stores_.usage.of(node, pod), *object).empty()) enqueue_(podKey(pod));
}

std::string waitText(const core::Pod& pod, const std::string& names) {
  return "waits for " + names + " of pod " + pod.metadata.name + ": all claims of a pod go to one node";
}

namespace {
/// True if condition Bound reports on the claim's device. Other reasons of a claim with a device date from before it.
bool isOfDevice(const cache::Claim& claim, const core::Condition& bound) {
  return claim.status.phase == phase::kLost || bound.reason == reason::kProvisionFailed ||
         bound.reason == reason::kProvisionerUnavailable;
}
}  // namespace

void PodSync::tell(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message) {
  tellOf(pod, "claim " + claim, why, message + askedByAnnotations(pod, claim));
}

void PodSync::tellOf(const core::Pod& pod, const std::string& of, std::string_view why, const std::string& message) {
  tellOnce(pod, of, why, "WaitingForClaim", of + ": " + message);
}

void PodSync::tellOnce(const core::Pod& pod, const std::string& of, std::string_view why, std::string_view event,
                       const std::string& message) {
  if (!pod.nodeName.empty()) return;
  {
    const std::string what = pod.metadata.uid + " " + of + " " + std::string(why);
    const std::lock_guard lock(mutex_);
    auto& last = told_[core::keyOf(pod.metadata)];
    if (last == what) return;
    last = what;
  }
  // A pod that a queue holds back is no problem.
  const auto* type = event == reason::kWaitingForGates ? "Normal" : "Warning";
  events_.event(kube::referenceTo(pod), type, event, message);
}

void PodSync::tellConditions(const core::Pod& pod, const std::vector<Used>& used,
                             const std::vector<ConditionUpdate>& news) {
  const auto now = stores_.pods.get(core::keyOf(pod.metadata));
  if (!now || !now->nodeName.empty()) return;
  for (const auto& update : news) {
    const bool waits =
        update.as == ConditionUpdate::As::notBound || update.as == ConditionUpdate::As::resourceClaimNotReady;
    if (waits && update.reason != reason::kWaitingForConsumer)
      return tell(pod, update.claim.name, update.reason, update.reason + ": " + update.message);
  }
  for (const auto& one : used) {
    const auto claim = stores_.claims.get(core::keyOf(one.claim->metadata));
    if (!claim) continue;
    const bool decided = deviceOf(stores_, *claim) != nullptr;
    for (const auto type : {kBound, kResourceClaimReady}) {
      const auto* condition = findCondition(claim->status.conditions, type);
      if (condition == nullptr || condition->status != "False" || condition->message.empty()) continue;
      if (type == kBound && decided && !isOfDevice(*claim, *condition)) continue;
      if (condition->reason == reason::kWaitingForConsumer || condition->reason == reason::kProvisioning) continue;
      // Skip obstacles of other pods, and node mismatches: these may be over, and each step of a pod reports them
      // again.
      if (isObstacle(*condition) || condition->reason == reason::kNodeUnsuitable) continue;
      return tell(pod, claim->metadata.name, condition->reason, condition->reason + ": " + condition->message);
    }
  }
}

}  // namespace egpu::reconcile
