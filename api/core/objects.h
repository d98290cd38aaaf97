// Kubernetes' own kinds: Namespace, Node, Pod, volumes, DeviceTaintRule, PodGroup, Event, Lease. The
// structs contain only the fields that this project reads or writes. Other fields survive, because writes are patches
// and never whole objects. Standard library only.
#pragma once

#include <optional>
#include <string_view>

#include "api/core/meta.h"
#include "api/core/resource_claims.h"

namespace egpu::core {

struct NodeSelectorRequirement {
  std::string key;
  std::string op;  ///< In | NotIn | Exists | DoesNotExist | Gt | Lt
  std::vector<std::string> values;
  bool operator==(const NodeSelectorRequirement&) const = default;
};
/// A term matches if all its requirements hold.
struct NodeSelectorTerm {
  std::vector<NodeSelectorRequirement> matchExpressions;
  std::vector<NodeSelectorRequirement> matchFields;
  bool operator==(const NodeSelectorTerm&) const = default;
};
/// A selector matches if at least one term matches.
struct NodeSelector {
  std::vector<NodeSelectorTerm> terms;
  bool operator==(const NodeSelector&) const = default;
};

/// metav1.LabelSelector: all labels and all expressions must hold; an empty one selects everything.
struct LabelSelector {
  StringMap matchLabels;
  std::vector<NodeSelectorRequirement> matchExpressions;  ///< In | NotIn | Exists | DoesNotExist
  bool operator==(const LabelSelector&) const = default;
};

struct Taint {
  std::string key, value, effect;
  bool operator==(const Taint&) const = default;
};
struct Toleration {
  std::string key, op, value, effect;
  bool operator==(const Toleration&) const = default;
};

struct Namespace {
  ObjectMeta metadata;
  std::string phase;  ///< Active | Terminating
  bool operator==(const Namespace&) const = default;
};

struct Node {
  ObjectMeta metadata;
  bool unschedulable = false;
  std::vector<Taint> taints;
  int64_t cpuMilli = 0;        ///< allocatable CPU, milli-cores
  int64_t memoryBytes = 0;     ///< allocatable memory
  int64_t ephemeralBytes = 0;  ///< allocatable ephemeral storage
  int64_t maxPods = 110;       ///< allocatable pods
  bool ready = false;          ///< condition Ready is True
  std::string internalIP;      ///< InternalIP in status.addresses
  bool operator==(const Node&) const = default;
};

struct EnvVar {
  std::string name, value;
  bool operator==(const EnvVar&) const = default;
};

struct Container {
  std::string name;
  std::string image;
  StringMap requests;                       ///< resource name → quantity text
  std::vector<std::string> resourceClaims;  ///< names in resources.claims
  bool sidecar = false;                     ///< init container with restartPolicy Always
  bool operator==(const Container&) const = default;
};

/// An entry of spec.resourceClaims or status.resourceClaimStatuses. In spec, entries with a template have no claim
/// name.
struct PodResourceClaim {
  std::string name;
  std::string resourceClaimName;
  std::string templateName{};  ///< resourceClaimTemplateName; in spec only
  bool operator==(const PodResourceClaim&) const = default;
};

/// A volume backed by a PersistentVolumeClaim. Other volumes are not read.
struct PodVolume {
  std::string name;
  std::string claimName;   ///< persistentVolumeClaim.claimName
  bool ephemeral = false;  ///< the claim is created for the pod and named "<pod>-<volume>"
  bool operator==(const PodVolume&) const = default;
};

/// An entry of preferredDuringSchedulingIgnoredDuringExecution.
struct PreferredNodes {
  int64_t weight = 0;  ///< 1 to 100
  NodeSelectorTerm term;
  bool operator==(const PreferredNodes&) const = default;
};

/// The API server's default for spec.schedulerName.
inline constexpr std::string_view kDefaultScheduler = "default-scheduler";

struct Pod {
  ObjectMeta metadata;
  std::string nodeName;
  std::string schedulerName;
  std::string podGroupName;  ///< PodGroup in spec.schedulingGroup; empty = none
  std::vector<std::string> schedulingGates;
  std::vector<PodResourceClaim> resourceClaims;
  std::vector<Container> initContainers;
  std::vector<Container> containers;
  StringMap requests;  ///< requests of the whole pod (spec.resources)
  StringMap overhead;  ///< overhead of its runtime class
  std::vector<PodVolume> volumes;
  int64_t priority = 0;
  bool preempts = true;  ///< preemptionPolicy is not Never
  StringMap nodeSelector;
  std::optional<NodeSelector> requiredNodeAffinity;
  std::vector<PreferredNodes> preferredNodeAffinity;
  bool hasAffinity = false;      ///< spec.affinity exists, even if it is empty: a patch must add to it
  bool hasNodeAffinity = false;  ///< spec.affinity.nodeAffinity exists
  std::vector<Toleration> tolerations;
  std::string phase;              ///< Pending | Running | Succeeded | Failed
  std::string nominatedNodeName;  ///< node on which the scheduler preempts pods for it
  std::vector<Condition> conditions;
  bool operator==(const Pod&) const = default;
  bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
  /// True if its controller has the uid `maker`, and it has a node and is neither finished nor being deleted.
  bool placedBy(std::string_view maker) const {
    const auto* owner = metadata.controller();
    return owner != nullptr && owner->uid == maker && !nodeName.empty() && !finished() && !metadata.deleting();
  }
};

struct PersistentVolumeClaim {
  ObjectMeta metadata;
  std::string volumeName;  ///< empty = not bound
};
struct PersistentVolume {
  ObjectMeta metadata;
  std::optional<NodeSelector> nodeAffinity;  ///< spec.nodeAffinity.required
};

/// Taints devices, as node taints do for nodes.
struct DeviceTaintRule {
  ObjectMeta metadata;
  bool selects = false;              ///< spec.deviceSelector exists; without it the rule selects no device
  std::string driver, pool, device;  ///< fields of the selector; empty = any
  Taint taint;
  bool operator==(const DeviceTaintRule&) const = default;
};

/// Maps a priority class name to a priority.
struct PriorityClass {
  ObjectMeta metadata;
  int64_t value = 0;
  bool globalDefault = false;
  bool preempts = true;  ///< preemptionPolicy is not Never
  bool operator==(const PriorityClass&) const = default;
};

/// Pods that are scheduled together if the group's policy requires it.
struct PodGroup {
  ObjectMeta metadata;
  int64_t minCount = 0;  ///< schedulingPolicy.gang.minCount; 0 = another policy
  std::string topology;  ///< node label key of the first entry in schedulingConstraints.topology; empty = none
  bool operator==(const PodGroup&) const = default;
};

struct ObjectReference {
  std::string apiVersion, kind, namespace_, name, uid, resourceVersion;
};

/// A core/v1 Event.
struct Event {
  ObjectMeta metadata;
  ObjectReference involvedObject;
  std::string reason, message;
  std::string type;  ///< Normal | Warning
  std::string component;
  int64_t count = 1;
  std::string firstTimestamp, lastTimestamp;
};

struct Lease {
  ObjectMeta metadata;
  std::string holderIdentity;
  int64_t leaseDurationSeconds = 0;
  std::string acquireTime, renewTime;  ///< RFC 3339 with microseconds
  int64_t leaseTransitions = 0;
};

template <>
inline constexpr Kind kindOf<Namespace>{"", "v1", "Namespace", "namespaces", false};
template <>
inline constexpr Kind kindOf<Node>{"", "v1", "Node", "nodes", false};
template <>
inline constexpr Kind kindOf<Pod>{"", "v1", "Pod", "pods", true};
template <>
inline constexpr Kind kindOf<Event>{"", "v1", "Event", "events", true};
template <>
inline constexpr Kind kindOf<Lease>{"coordination.k8s.io", "v1", "Lease", "leases", true};
template <>
inline constexpr Kind kindOf<PersistentVolumeClaim>{"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true};
template <>
inline constexpr Kind kindOf<PersistentVolume>{"", "v1", "PersistentVolume", "persistentvolumes", false};
template <>
inline constexpr Kind kindOf<DeviceTaintRule>{"resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", false};
template <>
inline constexpr Kind kindOf<PriorityClass>{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false};
/// The version of Kubernetes 1.37. Clients first check which version the server has.
template <>
inline constexpr Kind kindOf<PodGroup>{"scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true};

}  // namespace egpu::core
