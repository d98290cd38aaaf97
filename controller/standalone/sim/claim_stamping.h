// Simulates the part of the controller manager that creates a pod's ResourceClaims from its ResourceClaimTemplates.
#pragma once

#include <stop_token>
#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::sim {

/// Returns the name of the ResourceClaim that is created for the pod's claim `name`: "<pod>-<name>-" and five
/// characters of a hash. The name is always the same, so that a claim created before a crash is found. It has at most
/// 63 characters; both parts are shortened in proportion.
std::string stampedName(const core::Pod& pod, const std::string& name);

/// Creates and removes ResourceClaims of pods. Keeps references that must outlive it. Used by one thread.
class ClaimStamping {
 public:
  ClaimStamping(kube::Client& client, kube::EventSink& events) : client_(client), events_(events) {}

  /// Creates a ResourceClaim, owned by the pod, for each of its templates, and records their names in the pod's status.
  /// For pods that are not finished. Returns false if the caller should retry; most failures become an event of the
  /// pod.
  bool stamp(const core::Pod& pod, std::stop_token stop);
  /// Deletes the ResourceClaim if it is owned by this pod and not reserved. Returns false if the caller should retry.
  bool remove(const core::ResourceClaim& claim, const core::Pod& pod, std::stop_token stop);

 private:
  /// Returns the name of the ResourceClaim. Creates it if it does not exist.
  base::Result<std::string> claimOf(const core::Pod& pod, const v1alpha::PodClaim& entry, std::stop_token stop);

  kube::Client& client_;
  kube::EventSink& events_;
};

}  // namespace egpu::sim
