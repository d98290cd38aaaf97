// Which pods of this node use a ResourceClaim, as the API says at this moment.
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

/// Thread-safe; keeps a reference to the client, which must outlive it. Each question is a quorum read of the node's pods
/// in the claim's namespace, which those who ask at the same time share.
class Users {
 public:
  Users(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}

  /// The pods of this node that name the claim and are not finished. reservedFor says no more: it has pods of this node
  /// only, and a tenant can tear a ResourceClaim out from under a pod.
  base::Result<std::vector<core::Pod>> podsOf(const ClaimRef& claim, const std::stop_token& stop);

  /// All pods of a namespace on this node: for who asks of several claims.
  SharedReads<std::vector<core::Pod>>::Answer podsIn(const std::string& namespace_, const std::stop_token& stop);
  /// Whether one of them names the claim and is not finished.
  bool uses(const core::Pod& pod, const ClaimRef& claim) const;

  /// Pods on their way out. The kubelet gives a claim back when a pod's containers have stopped and before it says so of the
  /// pod: neither the pod's phase nor reservedFor can be waited for. Who has no such word must count them.
  enum class Ending { passedOver, counted };
  /// The first of podsOf that has a container running, as "namespace/name"; empty if there is none.
  base::Result<std::string> runningPodOf(const ClaimRef& claim, const std::stop_token& stop,
                                         Ending ending = Ending::passedOver);

 private:
  kube::Client& client_;
  const std::string node_;
  SharedReads<std::vector<core::Pod>> pods_;  ///< by namespace
};

}  // namespace egpu::agent
