// The part of the controller manager that makes a pod's ResourceClaims from the ResourceClaimTemplates that it names.
#pragma once

#include <stop_token>
#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/pod_claims.h"
#include "controller/kube/client.h"
#include "controller/kube/event_sink.h"

namespace egpu::sim {

/// The name of what is stamped for a pod: "<pod>-<name>-" and five characters that are always the same for it, so that
/// what was made before a crash is found. At most 63 characters, for which both parts are shortened alike.
std::string stampedName(const core::Pod& pod, const std::string& name);

/// Keeps references that must outlive it. Of one thread.
class ClaimStamping {
 public:
  ClaimStamping(kube::Client& client, kube::EventSink& events) : client_(client), events_(events) {}

  /// Of a pod that runs or may run: each of its templates has a ResourceClaim, owned by the pod, and the pod's status
  /// names them. False: to be tried again; why is an event on the pod.
  bool stamp(const core::Pod& pod, std::stop_token stop);
  /// Deletes a ResourceClaim that nobody has reserved, that was stamped for this pod. False: to be tried again.
  bool remove(const core::ResourceClaim& claim, const core::Pod& pod, std::stop_token stop);

 private:
  /// The name of the ResourceClaim, made if it isn't there.
  base::Result<std::string> claimOf(const core::Pod& pod, const v1alpha::PodClaim& entry, std::stop_token stop);

  kube::Client& client_;
  kube::EventSink& events_;
};

}  // namespace egpu::sim
