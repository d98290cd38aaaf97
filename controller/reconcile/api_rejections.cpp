#include "controller/reconcile/api_rejections.h"

#include <vector>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/base/log.h"

namespace egpu::reconcile {

namespace phase = v1alpha::keys::phase;
namespace reason = v1alpha::keys::reason;

namespace {
constexpr int kPassing = 2;  ///< number of failures in a row that are not reported
}  // namespace

bool ApiRejections::isRefusal(const base::Status& status) {
  return status.http != 0 && (status.code() == base::Code::forbidden || status.code() == base::Code::invalid);
}

void ApiRejections::over(const std::string& queueKey) {
  const base::MutexLock lock(mutex_);
  reported_.erase(queueKey);
}

namespace {
/// Claim of the device, or null.
cache::Store<cache::Claim>::Ptr claimOf(const cache::Stores& stores, const cache::Gpu& device) {
  const auto& ref = device.spec.claimRef;
  auto claim = ref ? stores.claims.get({ref->namespace_, ref->name}) : nullptr;
  return claim && claim->metadata.uid == ref->uid ? claim : nullptr;
}

/// Pods with our gate whose claims are to be created from that template.
std::vector<cache::Store<core::Pod>::Ptr> podsWaitingFor(const cache::Stores& stores, const core::ObjectKey& source) {
  auto pods = stores.gatedPods();
  std::erase_if(pods, [&](const auto& pod) {
    if (pod->metadata.namespace_ != source.namespace_) return true;
    const auto pending = v1alpha::pendingClaim(*pod);
    return !pending || pending->templateName != source.name;
  });
  return pods;
}
}  // namespace

void ApiRejections::note(const QueueKey& key, const base::Status& why, std::stop_token stop) {
  const auto queueKey = key.str();
  const auto message =
      (isFailure(why) ? "the API server fails, it is tried again: " : "the API server refuses it: ") + why.message();
  {
    const base::MutexLock lock(mutex_);
    const auto now = clock_.now();
    auto& reported = reported_[queueKey];
    if (isFailure(why) && ++reported.failures <= kPassing) return;
    const bool isRecent = now - reported.at < timeouts_.rejectionReportInterval;
    if (reported.message == message || (!reported.message.empty() && isRecent)) return;
    reported.message = message;
    reported.at = now;
  }
  base::log::warn("refused by the API server", {{"key", queueKey}, {"why", why.str()}});
  report(key, message, stop);
}

void ApiRejections::report(const QueueKey& key, const std::string& message, std::stop_token stop) {
  switch (key.concern) {
    case Concern::claim:
    case Concern::resourceClaim:
      return reportOnClaim(key.object, message, stop);
    case Concern::gang:
      for (const auto& claim : stores_.claimsOfGang(key.object.namespace_, key.object.name))
        if (claim->status.phase != phase::kBound) return reportOnClaim(core::keyOf(claim->metadata), message, stop);
      return;
    case Concern::pod:
      return reportOnPod(key.object, message, stop);
    case Concern::device: {
      const auto device = stores_.devices.get({"", key.object.name});
      event<cache::Gpu>(device, message);
      if (const auto claim = device ? claimOf(stores_, *device) : nullptr)
        event<cache::Claim>(claim, "device " + device->metadata.name + ": " + message);
      return;
    }
    case Concern::card:
      return event<cache::Gpu>(stores_.cards.get({"", key.object.name}), message);
    case Concern::cls:
      return event<cache::Class>(stores_.classes.get({"", key.object.name}), message);
    case Concern::quota:
      return event<cache::Quota>(stores_.quotas.get(key.object), message);
    case Concern::claimTemplate:
      event<cache::ClaimTemplate>(stores_.templates.get(key.object), message);
      for (const auto& pod : podsWaitingFor(stores_, key.object)) event<core::Pod>(pod, message);
      return;
    case Concern::node:
    case Concern::plugin:
    case Concern::calls:
    case Concern::assumed:
    case Concern::reservations:
    case Concern::capacity:
    case Concern::plans:
    case Concern::explain:
    case Concern::usage:
      return;
  }
}

void ApiRejections::reportOnPod(const core::ObjectKey& key, const std::string& message, std::stop_token stop) {
  const auto pod = stores_.pods.get(key);
  if (!pod) return;
  event<core::Pod>(pod, message);
  for (const auto& name : v1alpha::claimNames(*pod)) {  // claims for which the pod's step chooses a node
    const core::ObjectKey claim{key.namespace_, name};
    const auto known = stores_.claims.get(claim);
    if (known && known->status.phase != phase::kBound) reportOnClaim(claim, message, stop);
  }
}

void ApiRejections::reportOnClaim(const core::ObjectKey& key, const std::string& message, std::stop_token stop) {
  const auto claim = stores_.claims.get(key);
  if (!claim)  // the claim could not be created for its ResourceClaim
    for (const auto& pod : stores_.podsOfClaim(key)) event<core::Pod>(pod, message);
  if (!claim) return;
  if (claim->metadata.deleting() || claim->status.phase == phase::kLost) return event<cache::Claim>(claim, message);
  const auto as =
      claim->status.phase == phase::kBound ? ConditionUpdate::As::resourceClaimNotReady : ConditionUpdate::As::notBound;
  const auto status = status_.report({ConditionUpdate::of(claim->metadata, as, reason::kRefused, message)}, stop);
  if (!status.ok()) base::log::debug("not reported on the claim", {{"claim", key.str()}, {"why", status.str()}});
}

template <class T>
void ApiRejections::event(const typename cache::Store<T>::Ptr& object, const std::string& message) {
  if (object) events_.event(kube::referenceTo(*object), "Warning", reason::kRefused, message);
}

}  // namespace egpu::reconcile
