#include "controller/reconcile/pod/pod_binder.h"

#include <algorithm>
#include <set>
#include <thread>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "api/v1alpha/remote.h"
#include "controller/codec/scheduling/binding.h"
#include "controller/reconcile/claim/claim_state.h"
#include "controller/reconcile/pod/schedulability.h"
#include "controller/reconcile/queue_key.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;
namespace phase = v1alpha::keys::phase;
using base::Code;
using base::Status;
using std::chrono::milliseconds;

namespace {

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Returns why the pod can't be bound there, whatever its claims are.
Status unfit(const cache::Stores& stores, const core::Pod& pod, const std::string& node) {
  if (pod.metadata.deleting()) return {Code::conflict, "the pod is being deleted"};
  if (pod.finished()) return {Code::conflict, "the pod has finished"};
  if (const auto obstacle = obstacleOf(stores, pod)) return {Code::conflict, obstacle.message};
  if (!pod.nodeName.empty() && pod.nodeName != node) return {Code::conflict, "the pod is on node " + pod.nodeName};
  if (gated(pod))
    return {Code::conflict, "the pod is behind the scheduling gate " + std::string(keys::kSchedulingGate)};
  if (const auto names = v1alpha::onlyAnnotatedClaims(pod); !names.empty())
    return {Code::invalid,
            "claims named by annotation alone: " + listed(names) +
                "; nothing would prepare them on the node. Install the admission policies, or name them in "
                "spec.resourceClaims too"};
  return Status::okay();
}

}  // namespace

Status PodBinder::bind(const core::ObjectKey& key, const std::string& uid, const std::string& node, milliseconds within,
                       std::stop_token stop) {
  const auto read = writer_.read<core::Pod>(key, {}, stop);
  if (!read.ok()) return read.status();
  if (!uid.empty() && read->metadata.uid != uid)
    return {Code::notFound, "pod " + key.str() + " was recreated: its uid is " + read->metadata.uid};
  if (!read->nodeName.empty() && read->nodeName == node) return Status::okay();
  if (auto wrong = unfit(stores_, *read, node); !wrong.ok()) return wrong;
  if (auto failed = place(*read, node, within, stop)) return *failed;
  return post(*read, node, stop);
}

std::optional<Status> PodBinder::place(const core::Pod& pod, const std::string& node, milliseconds within,
                                       std::stop_token stop) {
  if (placed(pod, node)) return std::nullopt;
  if (auto why = obstacle(pod, node); !why.empty()) return Status(Code::conflict, why);
  const auto key = core::keyOf(pod.metadata);
  if (!waiting_.chosen.begin(key, pod.metadata.uid, node))
    return Status(Code::conflict, "a binding of the pod is under way already");
  const auto wake = [&] {
    enqueue_(podKey(key));
    for (const auto& name : usedOrAnnotated(pod)) enqueue_(claimKey({key.namespace_, name}));
  };
  wake();
  std::optional<Status> failed;
  for (const auto until = clock_.now() + within; !placed(pod, node);
       std::this_thread::sleep_for(timeouts_.bindPollInterval)) {
    auto why = waiting_.chosen.refusal(key);
    if (why.empty()) why = obstacle(pod, node);
    if (!why.empty()) failed = Status(Code::conflict, why);
    if (!failed && stop.stop_requested()) failed = Status(Code::cancelled, "the caller of the binding no longer waits");
    if (!failed && clock_.now() >= until)
      failed = Status(Code::deadline, "not all of the pod's claims are bound on node " + node + " in " +
                                          std::to_string(within.count()) + " ms: " + unfinished(pod, node));
    if (failed) break;
  }
  waiting_.chosen.end(key);
  if (!failed) return failed;
  wake();
  awaitRollBack(pod, stop);
  return failed;
}

bool PodBinder::placed(const core::Pod& pod, const std::string& node) const { return unfinished(pod, node).empty(); }

std::string PodBinder::unfinished(const core::Pod& pod, const std::string& node) const {
  if (auto why = demand_.unstamped(pod); !why.empty()) return why;
  for (const auto& name : usedOrAnnotated(pod)) {
    const core::ObjectKey key{pod.metadata.namespace_, name};
    const auto claim = stores_.claims.get(key);
    const auto resourceClaim = stores_.resourceClaims.get(key);
    if (!claim && resourceClaim && !ResourceClaimBridge::ours(*resourceClaim) &&
        resourceClaim->deviceClassName != keys::kDeviceClass)
      continue;  // a claim of another driver
    const auto device = claim ? deviceOf(stores_, *claim) : nullptr;
    const bool bound = device && device->status.phase == phase::kBound && !device->metadata.deleting() &&
                       (v1alpha::isOnAnyNode(*device) || device->spec.nodeName == node) &&
                       claim->status.phase == phase::kBound;
    const bool allocated = resourceClaim && !resourceClaim->metadata.deleting() && resourceClaim->allocation && bound &&
                           resourceClaim->allocation->device == device->metadata.name && !isLeft(*device);
    if (allocated) continue;
    const auto* condition = claim ? findCondition(claim->status.conditions, kBound) : nullptr;
    if (!claim) return "claim " + name + " does not exist";
    if (bound && isLeft(*device)) return "claim " + name + " is leaving its device: " + device->status.message;
    if (bound) return "claim " + name + " is bound, its ResourceClaim not allocated yet";
    return "claim " + name + " is not bound" +
           (condition == nullptr || condition->message.empty() ? std::string() : ": " + condition->message);
  }
  return {};
}

std::string PodBinder::obstacle(const core::Pod& pod, const std::string& node) {
  const auto now = stores_.pods.get(core::keyOf(pod.metadata));
  if (now && (now->metadata.uid != pod.metadata.uid || now->metadata.deleting())) return "the pod is being deleted";
  if (auto why = demand_.unstamped(pod); !why.empty()) return why;
  const auto demand = demand_.demandOf(pod);
  if (!demand.never.empty()) return demand.never;
  if (!demand.node.empty() && demand.node != node)
    return "claim " + demand.fixedBy + " is on node " + demand.node + ", not on " + node;
  for (const auto& name : usedOrAnnotated(pod)) {
    const auto claim = stores_.claims.get({pod.metadata.namespace_, name});
    if (!claim && !demand.later.empty()) return demand.later;
    if (!claim) continue;  // a claim of another driver
    if (const auto device = deviceOf(stores_, *claim)) {
      if (isLeft(*device)) return "claim " + name + " is leaving its device: " + device->status.message;
      continue;
    }
    if (const auto refusal = waiting_.provisioners.refusal(claim->metadata.uid); !refusal.empty())
      return "claim " + name + ": " + refusal;
  }
  return {};
}

void PodBinder::awaitRollBack(const core::Pod& pod, std::stop_token stop) const {
  if (!waiting_.chosen.leavesToScheduler(pod)) return;  // the pod is the first consumer of its intents: they stay
  const auto polls = timeouts_.bindRollBackTimeout / timeouts_.bindPollInterval;
  for (int64_t i = 0; i < polls && !stop.stop_requested(); ++i) {
    const auto names = usedOrAnnotated(pod);
    const bool idle = std::any_of(names.begin(), names.end(), [&](const auto& name) {
      const auto claim = stores_.claims.get({pod.metadata.namespace_, name});
      const auto device = claim ? deviceOf(stores_, *claim) : nullptr;
      return device && !phase::committed(device->status.phase) && !v1alpha::isOnAnyNode(*device);
    });
    if (!idle) return;
    std::this_thread::sleep_for(timeouts_.bindPollInterval);
  }
}

Status PodBinder::post(const core::Pod& pod, const std::string& node, std::stop_token stop) {
  kube::HttpRequest request;
  request.method = kube::Method::post;
  request.target = kube::Client::path(core::kindOf<core::Pod>, pod.metadata.namespace_, pod.metadata.name, "binding");
  request.headers = {{"Content-Type", "application/json"}};
  request.body = codec::patch::binding(pod, node);  // W10
  const auto answer = writer_.client().call(std::move(request), stop);
  if (answer.ok()) return Status::okay();
  // The pod may be bound nevertheless: by this request, or by an earlier one whose answer was lost.
  const auto now = writer_.read<core::Pod>(core::keyOf(pod.metadata), pod.metadata.uid, stop);
  if (now.ok() && now->metadata.uid == pod.metadata.uid && now->nodeName == node) return Status::okay();
  return answer.status();
}

}  // namespace egpu::reconcile
