// What the simulated cluster alone reads and writes: a pod's JSON as admission edits it, and the bodies of the writes
// that a scheduler, a kubelet or the controller manager makes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/status.h"
#include "controller/codec/scheduling/binding.h"

namespace egpu::codec {

/// claims: name → ResourceClaim name, or, if templates is set, ResourceClaimTemplate name. Each becomes a spec.resourceClaims entry and a resources.claims entry of the
/// container of that name, or of every container; init containers count as containers. Everything else of the pod is
/// kept as it is. An empty gate adds none. Code::invalid if a name is already taken by another resource claim of the
/// pod; Code::malformed if the JSON is no pod.
base::Result<std::string> withResourceClaims(std::string_view podJson,
                                             const std::vector<std::pair<std::string, std::string>>& claims,
                                             std::string_view gate, bool templates = false);

/// What kube-controller-manager makes of a ResourceClaimTemplate for a pod: a ResourceClaim of that name, owned by the pod.
/// name: the pod's name for it. Code::malformed if the JSON is no such template.
base::Result<std::string> stampedClaim(std::string_view templateJson, const core::Pod& pod, const std::string& name,
                                       const std::string& claimName);

/// Amounts of elasticgpu.io, or of a name under it, in one list of resources.
struct OwnAmounts {
  std::string container;                                     ///< empty: the pod's
  std::string list;                                          ///< resources.limits, resources.requests or overhead
  std::vector<std::pair<std::string, std::string>> amounts;  ///< key → value as written, ordered by key
};
/// The first: of containers before those of the pod, limits before requests, init containers before the others. None
/// also for JSON that is no pod.
std::optional<OwnAmounts> ownAmounts(std::string_view podJson);

/// status.allocatable of each node of a NodeList: node name → resource → quantity. Code::malformed: not a NodeList.
base::Result<std::map<std::string, core::StringMap>> allocatableOf(std::string_view nodeListJson);

}  // namespace egpu::codec

namespace egpu::codec::patch {

/// ResourceClaim /status, merge patch: reservedFor replaced, with uid and resourceVersion. clearAllocation: together
/// with the allocation.
std::string reservedFor(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::ResourceClaimConsumer>& consumers, bool clearAllocation);
/// Pod /status, merge patch: the pod's names for its templates → the ResourceClaims that were stamped from them.
std::string stampedClaims(std::string_view uid, const std::map<std::string, std::string>& claims);
/// Pod /status, strategic merge patch: condition PodScheduled False with reason and message.
std::string podUnschedulable(std::string_view uid, std::string_view reason, std::string_view message,
                             std::string_view now);
/// Pod /status, strategic merge patch: Running, every container ready. hostIP may be empty.
std::string podRunning(const core::Pod& pod, std::string_view podIP, std::string_view hostIP, std::string_view now);
/// Pod /status, strategic merge patch: still Pending, every container waiting with that reason and message.
std::string podWaiting(const core::Pod& pod, std::string_view reason, std::string_view message, std::string_view now);
/// Pod /status, strategic merge patch: Failed, because its kubelet does not admit it.
std::string podRejected(std::string_view uid, std::string_view reason, std::string_view message);
/// Pod /status, strategic merge patch: Failed, its node being gone (condition DisruptionTarget), as the pod garbage
/// collector writes it.
std::string podOrphaned(std::string_view uid, std::string_view now);
/// Node /status, merge patch: capacity, allocatable, condition Ready, addresses.
std::string nodeStatus(const core::Node& node, std::string_view now);

}  // namespace egpu::codec::patch
