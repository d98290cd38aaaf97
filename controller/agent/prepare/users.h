// Finds the pods of this node that use a ResourceClaim, by quorum reads.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/agent/claim_ref.h"
#include "controller/agent/prepare/shared_reads.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent {

/// Thread-safe. Keeps a reference to the client, which must outlive it. Each query is a quorum read of the node's pods
/// in the claim's namespace, which concurrent callers share.
class Users {
 public:
  Users(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}

  /// Returns the pods of this node that name the claim and are not finished. reservedFor is no substitute: it adds no
  /// pods of this node, and a tenant can delete a ResourceClaim that a pod uses.
  base::Result<std::vector<core::Pod>> podsOf(const ClaimRef& claim, const std::stop_token& stop);

  /// Returns all pods of a namespace on this node, for callers that check several claims.
  SharedReads<std::vector<core::Pod>>::Answer podsIn(const std::string& namespace_, const std::stop_token& stop);
  /// True if `pod` is on this node, names the claim and is not finished.
  bool uses(const core::Pod& pod, const ClaimRef& claim) const;

  /// Treatment of terminating pods. The kubelet unprepares a claim after a pod's containers have stopped, but before it
  /// updates the pod's status: callers in an unprepare can't wait for the pod's phase or reservedFor, and must ignore
  /// terminating pods. Other callers must count them.
  enum class Ending { passedOver, counted };
  /// Returns the first pod of podsOf() with a running container, as "namespace/name"; empty if there is none.
  base::Result<std::string> runningPodOf(const ClaimRef& claim, const std::stop_token& stop,
                                         Ending ending = Ending::passedOver);

 private:
  kube::Client& client_;
  const std::string node_;
  SharedReads<std::vector<core::Pod>> pods_;  ///< by namespace
};

}  // namespace egpu::agent
