// JSON that only the simulated cluster reads and writes: pods as admission edits them, and the bodies of writes of the
// scheduler, the kubelet and the controller manager.
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

/// Adds claims and a scheduling gate to a pod and keeps all other fields. claims: name → ResourceClaim name, or
/// ResourceClaimTemplate name if `templates` is set. Each claim is added to spec.resourceClaims, and to
/// resources.claims of the container with the same name, or of every container if there is none; init containers count
/// as containers. An empty gate adds none. Fails with Code::invalid if another resource claim of the pod has the name,
/// and with Code::malformed if the JSON is not a pod.
base::Result<std::string> withResourceClaims(std::string_view podJson,
                                             const std::vector<std::pair<std::string, std::string>>& claims,
                                             std::string_view gate, bool templates = false);

/// Returns the ResourceClaim that kube-controller-manager creates from a ResourceClaimTemplate for a pod. It is owned
/// by the pod and named `claimName`. name: entry in the pod's spec.resourceClaims. Fails with Code::malformed if the
/// JSON is not such a template.
base::Result<std::string> stampedClaim(std::string_view templateJson, const core::Pod& pod, const std::string& name,
                                       const std::string& claimName);

/// Amounts of resources of elasticgpu.io, or of a subdomain of it, in one list of resources.
struct OwnAmounts {
  std::string container;                                     ///< empty: the list is that of the pod
  std::string list;                                          ///< resources.limits, resources.requests or overhead
  std::vector<std::pair<std::string, std::string>> amounts;  ///< key → value as written, ordered by key
};
/// Returns the first list with such amounts. Order: containers before the pod, limits before requests, init containers
/// before containers. Returns nullopt if there is none, or if the JSON is not a pod.
std::optional<OwnAmounts> ownAmounts(std::string_view podJson);

/// Returns status.allocatable of each node in a NodeList: node name → resource → quantity. Fails with Code::malformed
/// if the JSON is not a NodeList.
base::Result<std::map<std::string, core::StringMap>> allocatableOf(std::string_view nodeListJson);

}  // namespace egpu::codec

namespace egpu::codec::patch {

/// ResourceClaim /status, merge patch: replaces reservedFor, with uid and resourceVersion. clearAllocation: also
/// removes the allocation.
std::string reservedFor(std::string_view uid, std::string_view resourceVersion,
                        const std::vector<core::ResourceClaimConsumer>& consumers, bool clearAllocation);
/// Pod /status, merge patch: sets resourceClaimStatuses. claims: name in the pod's spec → ResourceClaim that was
/// created from its template.
std::string stampedClaims(std::string_view uid, const std::map<std::string, std::string>& claims);
/// Pod /status, strategic merge patch: condition PodScheduled False with reason and message.
std::string podUnschedulable(std::string_view uid, std::string_view reason, std::string_view message,
                             std::string_view now);
/// Pod /status, strategic merge patch: phase Running, every container ready. hostIP may be empty.
std::string podRunning(const core::Pod& pod, std::string_view podIP, std::string_view hostIP, std::string_view now);
/// Pod /status, strategic merge patch: phase Pending, every container waiting with this reason and message.
std::string podWaiting(const core::Pod& pod, std::string_view reason, std::string_view message, std::string_view now);
/// Pod /status, strategic merge patch: phase Failed, because the kubelet does not admit the pod.
std::string podRejected(std::string_view uid, std::string_view reason, std::string_view message);
/// Pod /status, strategic merge patch: phase Failed with the condition DisruptionTarget, as the pod garbage collector
/// writes it when the node no longer exists.
std::string podOrphaned(std::string_view uid, std::string_view now);
/// Node /status, merge patch: capacity, allocatable, condition Ready, addresses, nodeInfo.
std::string nodeStatus(const core::Node& node, std::string_view now);

}  // namespace egpu::codec::patch
