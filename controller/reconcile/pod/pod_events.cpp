#include "controller/reconcile/pod/pod_events.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_amounts.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/resourceclaim/adopter.h"
#include "controller/reconcile/template/amounts.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {
/// True if condition Bound reports on the claim's device. Other reasons of a claim with a device date from before it.
bool isOfDevice(const cache::Claim& claim, const core::Condition& bound) {
  return claim.status.phase == phase::kLost || bound.reason == reason::kProvisionFailed ||
         bound.reason == reason::kProvisionerUnavailable;
}
}  // namespace

void PodEvents::forget(const core::ObjectKey& pod) {
  const base::MutexLock lock(mutex_);
  reported_.erase(pod);
}

std::size_t PodEvents::size() const {
  const base::MutexLock lock(mutex_);
  return reported_.size();
}

bool PodEvents::reportUnstamped(const core::Pod& pod, const std::string& name, std::stop_token stop) {
  const core::ObjectKey key{pod.metadata.namespace_, name};
  if (!gated(pod)) return false;  // the template may belong to another driver
  const auto reported = [&](const std::string& of, std::string_view why, const std::string& message) {
    reportObject(pod, of, why, message);
    return true;
  };
  if (const auto claims = context_.stores.templates.get(key)) {
    const auto* ready = findCondition(claims->conditions, kReady);
    return ready != nullptr && ready->status == "False" &&
           reported("template " + name, ready->reason, ready->reason + ": " + ready->message);
  }
  if (v1alpha::namesAmounts(name)) {  // the controller creates this template for the pod
    const auto why = amountsRefusal(context_.stores, pod, name);
    return why && reported("amounts", reason::kInvalidParameter, *why);
  }
  if (context_.stores.resourceClaimTemplates.get(key)) return false;  // Kubernetes stamps the ResourceClaim soon
  return context_.writer.read<core::ResourceClaimTemplate>(key, {}, stop).status().code() == base::Code::notFound &&
         reported("template " + name, "NotFound",
                  "there is no ElasticGPUClaimTemplate or ResourceClaimTemplate of that name");
}

bool PodEvents::reportMissing(const core::Pod& pod, const v1alpha::PodClaim& entry,
                              const core::ResourceClaim* resourceClaim) {
  const auto& claim = entry.claim;
  if (resourceClaim == nullptr && entry.state == v1alpha::PodClaimState::stamped)
    return false;  // the ResourceClaim exists, but arrives by another watch
  if (resourceClaim == nullptr || (resourceClaim->deviceClassName != keys::kDeviceClass && !asks(*resourceClaim))) {
    reportClaim(pod, claim, "NotFound", "there is no such ElasticGPUClaim");
    return true;
  }
  const auto wanted = asks(*resourceClaim) ? claimFor(*resourceClaim)
                                           : std::string(
                                                 "spec.devices.config: must say what is wanted, as {opaque: {driver: "
                                                 "elasticgpu.io, parameters: {egpuClassName: …, resources: …}}}");
  const auto* why = std::get_if<std::string>(&wanted);
  if (why != nullptr) reportClaim(pod, claim, reason::kInvalidParameter, "its ResourceClaim can't be served: " + *why);
  return why != nullptr;
}

void PodEvents::reportClaim(const core::Pod& pod, const std::string& claim, std::string_view why,
                            const std::string& message) {
  reportObject(pod, "claim " + claim, why, message + askedByAnnotations(pod, claim));
}

void PodEvents::reportObject(const core::Pod& pod, const std::string& of, std::string_view why,
                             const std::string& message) {
  report(pod, of, why, "WaitingForClaim", of + ": " + message);
}

void PodEvents::report(const core::Pod& pod, const std::string& of, std::string_view why, std::string_view event,
                       const std::string& message) {
  if (!pod.nodeName.empty()) return;
  {
    const std::string what = pod.metadata.uid + " " + of + " " + std::string(why);
    const base::MutexLock lock(mutex_);
    auto& last = reported_[core::keyOf(pod.metadata)];
    if (last == what) return;
    last = what;
  }
  // A pod that a queue holds back is no problem.
  const auto* type = event == reason::kWaitingForGates ? "Normal" : "Warning";
  events_.event(kube::referenceTo(pod), type, event, message);
}

void PodEvents::reportConditions(const core::Pod& pod, const std::vector<UsedClaim>& used,
                                 const std::vector<ConditionUpdate>& news) {
  const auto now = context_.stores.pods.get(core::keyOf(pod.metadata));
  if (!now || !now->nodeName.empty()) return;
  for (const auto& update : news) {
    const bool waits =
        update.as == ConditionUpdate::As::notBound || update.as == ConditionUpdate::As::resourceClaimNotReady;
    if (waits && update.reason != reason::kWaitingForConsumer)
      return reportClaim(pod, update.claim.name, update.reason, update.reason + ": " + update.message);
  }
  for (const auto& one : used) {
    const auto claim = context_.stores.claims.get(core::keyOf(one.claim->metadata));
    if (!claim) continue;
    const bool decided = deviceOf(context_.stores, *claim) != nullptr;
    for (const auto type : {kBound, kResourceClaimReady}) {
      const auto* condition = findCondition(claim->status.conditions, type);
      if (condition == nullptr || condition->status != "False" || condition->message.empty()) continue;
      if (type == kBound && decided && !isOfDevice(*claim, *condition)) continue;
      if (condition->reason == reason::kWaitingForConsumer || condition->reason == reason::kProvisioning) continue;
      // Skip obstacles of other pods, and node mismatches: these may be over, and each step of a pod reports them
      // again.
      if (isObstacle(*condition) || condition->reason == reason::kNodeUnsuitable) continue;
      return reportClaim(pod, claim->metadata.name, condition->reason, condition->reason + ": " + condition->message);
    }
  }
}

}  // namespace egpu::reconcile
