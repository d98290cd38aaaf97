#include "controller/reconcile/device/users.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"
#include "controller/base/timestamp.h"
#include "controller/reconcile/claim/conditions.h"

namespace egpu::reconcile {

namespace keys = v1alpha::keys;

namespace {

/// True if a pod names a claim of its namespace, by resourceClaims or by annotation.
bool names(const core::Pod& pod, const std::string& claim) {
  return v1alpha::usesClaim(pod, claim) || v1alpha::annotatedClaims(pod).contains(claim);
}

bool reportsHeld(const cache::Gpu* device) {
  if (device == nullptr || !device->spec.claimRef) return false;
  const auto* held = findCondition(device->status.conditions, kHeld);
  return held != nullptr && held->status == "True";
}

}  // namespace

bool alive(const core::Pod& pod) { return !pod.finished() && !(pod.metadata.deleting() && pod.nodeName.empty()); }
bool gated(const core::Pod& pod) {
  return std::find(pod.schedulingGates.begin(), pod.schedulingGates.end(), keys::kSchedulingGate) !=
         pod.schedulingGates.end();
}
bool running(const core::Pod& pod) { return alive(pod) && !pod.nodeName.empty(); }

Users::Users(Writer& writer, cache::Stores& stores, Binder& binder, kube::EventSink& events, base::Clock& clock,
             base::Metrics& metrics)
    : writer_(writer), stores_(stores), binder_(binder), events_(events), clock_(clock), metrics_(metrics) {
  metrics_.set("elasticgpu_devices_held", 0, {});
  stores_.devices.listen([this](const auto* before, const auto* after) {
    if (reportsHeld(before) || reportsHeld(after)) onDevice((after ? after : before)->metadata.name);
  });
}

void Users::onDevice(const std::string& name) {
  const base::MutexLock lock(mutex_);
  const auto now = stores_.devices.get({"", name});  // the event may be older than the cache
  if (const auto known = held_.find(name); known != held_.end()) {
    auto& devices = byClaim_[known->second];
    devices.erase(name);
    if (devices.empty()) byClaim_.erase(known->second);
    held_.erase(known);
  }
  if (now && reportsHeld(now.get())) {
    const core::ObjectKey claim{now->spec.claimRef->namespace_, now->spec.claimRef->name};
    held_.emplace(name, claim);
    byClaim_[claim].insert(name);
  }
  metrics_.set("elasticgpu_devices_held", static_cast<double>(held_.size()), {});
}

std::vector<std::string> Users::heldFor(const core::ObjectKey& claim) const {
  const base::MutexLock lock(mutex_);
  const auto it = byClaim_.find(claim);
  if (it == byClaim_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

std::vector<cache::Store<core::Pod>::Ptr> Users::known(const core::ObjectKey& claim) const {
  auto pods = stores_.podsOfClaim(claim);
  for (auto& pod : stores_.podsAnnotatedWith(claim)) pods.push_back(std::move(pod));
  pods.erase(std::remove_if(pods.begin(), pods.end(), [](const auto& pod) { return !running(*pod); }), pods.end());
  return pods;
}

base::Result<bool> Users::isInUseNow(const core::ObjectKey& claim, const std::string& node, std::stop_token stop) {
  if (isInUse(claim)) return true;
  const auto pods = readPods(claim, node, std::move(stop));
  if (!pods.ok()) return pods.status();
  return !pods->empty();
}

base::Status Users::hold(const cache::Gpu& device, std::string_view reason, const std::string& who,
                         std::stop_token stop) {
  const auto& ref = *device.spec.claimRef;
  const auto claim = ref.namespace_ + "/" + ref.name;
  const auto text = (reason == keys::reason::kClaimGone ? "claim " + claim + " is gone"
                                                        : "the ResourceClaim of claim " + claim + " is gone") +
                    "; retained, waits for " + who;
  const auto* before = findCondition(device.status.conditions, kHeld);
  const bool fresh = before == nullptr || before->reason != reason;
  auto written = binder_.setHeld(device, reason, text, base::rfc3339(clock_.wall()), stop);
  if (written.ok() && fresh) {
    events_.event(kube::referenceTo(device), "Warning", keys::reason::kInUse, text);
    base::log::warn("a device is held for what still uses it", {{"device", device.metadata.name}, {"why", text}});
  }
  return written.status();
}

base::Result<std::vector<core::Pod>> Users::readPods(const core::ObjectKey& claim, const std::string& node,
                                                     std::stop_token stop) {
  kube::ListOptions options;
  options.namespace_ = claim.namespace_;
  if (!node.empty()) options.fieldSelector = "spec.nodeName=" + node;
  auto all = writer_.client().listAll<core::Pod>(options, stop);
  if (!all.ok()) return all.status();
  std::vector<core::Pod> found;
  for (auto& pod : *all) {
    if (!running(pod) || !names(pod, claim.name)) continue;
    stores_.observed(pod);
    found.push_back(std::move(pod));
  }
  return found;
}

}  // namespace egpu::reconcile
