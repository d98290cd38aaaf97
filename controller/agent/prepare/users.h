// Which pods of this node use a ResourceClaim, as the API says at this moment.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "controller/agent/prepare/entitled.h"
#include "controller/base/status.h"
#include "controller/kube/client.h"

namespace egpu::agent {

/// The pods of this node that name it and are not finished, by quorum read. reservedFor says no more: it has pods of
/// this node only, and a tenant can tear a ResourceClaim out from under a pod.
base::Result<std::vector<core::Pod>> podsOf(kube::Client& client, const ClaimRef& claim, const std::string& node,
                                            std::stop_token stop);

/// The first of them that has a container running and is not on its way out, as "namespace/name"; empty if there is
/// none. The kubelet gives a claim back when a pod's containers have stopped and before it says so of the pod: neither
/// the pod's phase nor reservedFor can be waited for.
base::Result<std::string> runningPodOf(kube::Client& client, const ClaimRef& claim, const std::string& node,
                                       std::stop_token stop);

}  // namespace egpu::agent
