// The parts that this project reads and writes of Kubernetes' own kinds: Namespace, Node, Pod, ResourceClaim, volumes,
// DeviceTaintRule, PodGroup, Event, Lease. Fields not named here survive because writes are patches, never whole objects. Standard library only.
#pragma once

#include <optional>
#include <string_view>

#include "api/core/meta.h"

namespace egpu::core {

struct NodeSelectorRequirement {
  std::string key;
  std::string op;  ///< In | NotIn | Exists | DoesNotExist | Gt | Lt
  std::vector<std::string> values;
  bool operator==(const NodeSelectorRequirement&) const = default;
};
/// All requirements of one term must hold.
struct NodeSelectorTerm {
  std::vector<NodeSelectorRequirement> matchExpressions;
  std::vector<NodeSelectorRequirement> matchFields;
  bool operator==(const NodeSelectorTerm&) const = default;
};
/// One of the terms must hold.
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
  std::string internalIP;      ///< of status.addresses
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
  bool sidecar = false;                     ///< an init container that runs on (restartPolicy Always)
  bool operator==(const Container&) const = default;
};

/// One entry of spec.resourceClaims, or of status.resourceClaimStatuses (of a template; nameless in spec).
struct PodResourceClaim {
  std::string name;
  std::string resourceClaimName;
  std::string templateName{};  ///< resourceClaimTemplateName; in spec only
  bool operator==(const PodResourceClaim&) const = default;
};

/// A volume that stands on a PersistentVolumeClaim; all others are not ours to know.
struct PodVolume {
  std::string name;
  std::string claimName;   ///< persistentVolumeClaim.claimName
  bool ephemeral = false;  ///< its claim is made for the pod and called "<pod>-<volume>"
  bool operator==(const PodVolume&) const = default;
};

/// One of preferredDuringSchedulingIgnoredDuringExecution.
struct PreferredNodes {
  int64_t weight = 0;  ///< 1 to 100
  NodeSelectorTerm term;
  bool operator==(const PreferredNodes&) const = default;
};

/// The API server's default of a pod's spec.schedulerName.
inline constexpr std::string_view kDefaultScheduler = "default-scheduler";

struct Pod {
  ObjectMeta metadata;
  std::string nodeName;
  std::string schedulerName;
  std::string podGroupName;  ///< of schedulingGroup: the PodGroup that it is of; empty: of none
  std::vector<std::string> schedulingGates;
  std::vector<PodResourceClaim> resourceClaims;
  std::vector<Container> initContainers;
  std::vector<Container> containers;
  StringMap requests;  ///< of the pod as a whole (spec.resources), resource name → quantity text
  StringMap overhead;  ///< of its runtime class
  std::vector<PodVolume> volumes;
  int64_t priority = 0;
  bool preempts = true;  ///< preemptionPolicy isn't Never
  StringMap nodeSelector;
  std::optional<NodeSelector> requiredNodeAffinity;
  std::vector<PreferredNodes> preferredNodeAffinity;
  bool hasAffinity = false;      ///< spec.affinity is there, whatever it holds: a patch must add to it
  bool hasNodeAffinity = false;  ///< spec.affinity.nodeAffinity is there
  std::vector<Toleration> tolerations;
  std::string phase;              ///< Pending | Running | Succeeded | Failed
  std::string nominatedNodeName;  ///< where the scheduler makes room for it by preemption
  std::vector<Condition> conditions;
  bool operator==(const Pod&) const = default;
  bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
  /// It was made by the controller with this uid, has a node, and stays.
  bool placedBy(std::string_view maker) const {
    const auto* owner = metadata.controller();
    return owner != nullptr && owner->uid == maker && !nodeName.empty() && !finished() && !metadata.deleting();
  }
};

/// status.allocation of a ResourceClaim as far as we write it: one result, pinned to one node by metadata.name.
struct ResourceClaimAllocation {
  std::string request, driver, pool, device;
  std::string nodeName;             ///< from nodeSelector matchFields metadata.name
  std::string allocationTimestamp;  ///< 1.36 refuses reservations without it
  bool operator==(const ResourceClaimAllocation&) const = default;
};
struct ResourceClaimConsumer {
  std::string resource, name, uid;
  bool operator==(const ResourceClaimConsumer&) const = default;
};
/// What a driver is told of the devices, by whoever wrote the claim.
struct DeviceConfig {
  std::vector<std::string> requests;  ///< names of those that it is about; none = all
  std::string driver;                 ///< of opaque
  std::string parameters;             ///< of opaque, as JSON
  bool operator==(const DeviceConfig&) const = default;
};
/// What else the first request of a ResourceClaim says.
struct DeviceRequest {
  StringMap capacity;          ///< capacity.requests: name → quantity text
  std::string allocationMode;  ///< ExactCount | All
  int64_t count = 0;           ///< 0 = not given, which means 1
  bool adminAccess = false;
  std::string selectors, alternatives;  ///< selectors and firstAvailable, as JSON; empty = not given
  int64_t others = 0;                   ///< requests beside it
  bool operator==(const DeviceRequest&) const = default;
};
struct ResourceClaim {
  ObjectMeta metadata;
  std::string deviceClassName;  ///< of the first request
  std::string requestName;      ///< of the first request
  DeviceRequest request;        ///< the first one
  std::vector<DeviceConfig> config;
  std::optional<ResourceClaimAllocation> allocation;
  std::vector<ResourceClaimConsumer> reservedFor;
  bool operator==(const ResourceClaim&) const = default;
};

/// Kubernetes stamps ResourceClaims from it for pods that name it.
struct ResourceClaimTemplate {
  ObjectMeta metadata;
  StringMap labels, annotations;  ///< spec.metadata: of the ResourceClaims
  ResourceClaim claim;            ///< spec.spec: of it what a spec says
  bool operator==(const ResourceClaimTemplate&) const = default;
};

struct PersistentVolumeClaim {
  ObjectMeta metadata;
  std::string volumeName;  ///< empty: not bound
};
struct PersistentVolume {
  ObjectMeta metadata;
  std::optional<NodeSelector> nodeAffinity;  ///< spec.nodeAffinity.required
};

struct DeviceClass {
  ObjectMeta metadata;
  std::string celSelector;  ///< first selector's expression
};

/// Keeps pods off devices, as taints keep them off nodes.
struct DeviceTaintRule {
  ObjectMeta metadata;
  bool selects = false;              ///< spec.deviceSelector is there: without it the rule means no device
  std::string driver, pool, device;  ///< of the selector; empty = any
  Taint taint;
  bool operator==(const DeviceTaintRule&) const = default;
};

/// What a priority's name is worth.
struct PriorityClass {
  ObjectMeta metadata;
  int64_t value = 0;
  bool globalDefault = false;
  bool preempts = true;  ///< preemptionPolicy isn't Never
  bool operator==(const PriorityClass&) const = default;
};

/// Pods that are scheduled together, as far as its policy says so.
struct PodGroup {
  ObjectMeta metadata;
  int64_t minCount = 0;  ///< of schedulingPolicy.gang; 0: it has another policy
  std::string topology;  ///< key of the first of schedulingConstraints.topology: a node label; empty: anywhere
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
inline constexpr Kind kindOf<ResourceClaim>{"resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true};
template <>
inline constexpr Kind kindOf<ResourceClaimTemplate>{"resource.k8s.io", "v1", "ResourceClaimTemplate",
                                                    "resourceclaimtemplates", true};
template <>
inline constexpr Kind kindOf<PersistentVolumeClaim>{"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true};
template <>
inline constexpr Kind kindOf<PersistentVolume>{"", "v1", "PersistentVolume", "persistentvolumes", false};
template <>
inline constexpr Kind kindOf<DeviceClass>{"resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false};
template <>
inline constexpr Kind kindOf<DeviceTaintRule>{"resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", false};
template <>
inline constexpr Kind kindOf<PriorityClass>{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false};
/// The version of 1.37; who follows it asks which one there is.
template <>
inline constexpr Kind kindOf<PodGroup>{"scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true};

}  // namespace egpu::core
