// Events on pods that wait, so that their users see why.
#pragma once

#include <cstddef>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/pod_claims.h"
#include "controller/base/mutex.h"
#include "controller/kube/event_sink.h"
#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/pod/used_claims.h"

namespace egpu::reconcile {

/// Emits events on pods without a node only. No event is repeated for the same object and reason. Thread-safe; the
/// references must outlive it.
class PodEvents {
 public:
  PodEvents(const ClaimContext& context, kube::EventSink& events) : context_(context), events_(events) {}

  /// Reports that the pod waits for a claim.
  void reportClaim(const core::Pod& pod, const std::string& claim, std::string_view why, const std::string& message);
  /// Emits an event with its own reason, unless the pod's last event had the same `of` and `why`. of: object that the
  /// event is about.
  void report(const core::Pod& pod, const std::string& of, std::string_view why, std::string_view event,
              const std::string& message);
  /// Reports why Kubernetes has not stamped a ResourceClaim from that template. Returns false if no reason is known.
  bool reportUnstamped(const core::Pod& pod, const std::string& templateName, std::stop_token stop);
  /// Reports why there is no ElasticGPUClaim. resourceClaim: the ResourceClaim of that name, or null. Returns false if
  /// no reason is known.
  bool reportMissing(const core::Pod& pod, const v1alpha::PodClaim& entry, const core::ResourceClaim* resourceClaim);
  /// Reports the first condition that keeps a claim waiting. news: reports of this step on the pod's claims.
  void reportConditions(const core::Pod& pod, const std::vector<UsedClaim>& used,
                        const std::vector<ConditionUpdate>& news);

  /// Forgets a pod that is gone.
  void forget(const core::ObjectKey& pod) EGPU_EXCLUDES(mutex_);
  std::size_t size() const EGPU_EXCLUDES(mutex_);

 private:
  /// Reports that the pod waits for an object.
  void reportObject(const core::Pod& pod, const std::string& of, std::string_view why, const std::string& message);

  const ClaimContext& context_;
  kube::EventSink& events_;
  mutable base::Mutex mutex_;
  /// Object and reason of each pod's last event.
  std::map<core::ObjectKey, std::string> reported_ EGPU_GUARDED_BY(mutex_);
};

}  // namespace egpu::reconcile
