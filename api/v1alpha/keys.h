// All annotations, labels, finalizers, drivers and well-known names of the project. No other file spells them out.
#pragma once

#include <string_view>

namespace egpu::v1alpha::keys {

inline constexpr std::string_view kGroup = "elasticgpu.io";

// Labels.
inline constexpr std::string_view kRoleLabel = "elasticgpu.io/role";  ///< on ElasticGPU: kRoleCard or kRoleDevice
inline constexpr std::string_view kRoleCard = "card";
inline constexpr std::string_view kRoleDevice = "device";
inline constexpr std::string_view kNodeLabel =
    "elasticgpu.io/node";  ///< for convenience only; spec.card.nodeName is authoritative
/// Card: provisioner whose plugin discovered it (labelValueOf its name). Only that plugin can report it as gone.
inline constexpr std::string_view kDiscoveredByLabel = "elasticgpu.io/discovered-by";
inline constexpr std::string_view kAmountsLabel =
    "elasticgpu.io/amounts";  ///< "true" on a ResourceClaimTemplate made from the amounts in its name
inline constexpr std::string_view kSimulatedLabel = "elasticgpu.io/simulated";  ///< "true" on simulated objects

// Annotations.
inline constexpr std::string_view kClaimAnnotationPrefix = "egpuc.elasticgpu.io/";      ///< pod: + <name> → claim
inline constexpr std::string_view kTemplateAnnotationPrefix = "egpuct.elasticgpu.io/";  ///< pod: + <name> → template
inline constexpr std::string_view kAmountAnnotationPrefix =
    "egpu.elasticgpu.io/";  ///< pod: + class, gpu, gpu-core, … (pod_amounts.h)
inline constexpr std::string_view kDefaultClassAnnotation = "elasticgpu.io/is-default-class";
/// Claim: its own policy, allowed if the class has claimPolicies: "true"; otherwise the claim is rejected.
inline constexpr std::string_view kNodePolicyAnnotation = "elasticgpu.io/node-policy";
inline constexpr std::string_view kCardPolicyAnnotation = "elasticgpu.io/card-policy";
/// Device whose claim is gone: uids, separated by commas, of the pods that ran then. While one of them runs, the device
/// is retained.
inline constexpr std::string_view kHeldForAnnotation = "elasticgpu.io/held-for";
/// Pod: + container name → edits by the node agent (env, devices, mounts). Written by the simulated kubelet.
inline constexpr std::string_view kPreparedAnnotationPrefix = "prepared.elasticgpu.io/";

/// Claim: name of its gang, number of members and, optionally, a node label with one value for all members.
inline constexpr std::string_view kGangAnnotation = "elasticgpu.io/gang";
inline constexpr std::string_view kGangSizeAnnotation = "elasticgpu.io/gang-size";
inline constexpr std::string_view kGangTopologyAnnotation = "elasticgpu.io/gang-topology";
/// Claim, instead of the three above: the PodGroup that describes its gang. Set by the controller on a group's claims.
inline constexpr std::string_view kGangPodGroupAnnotation = "elasticgpu.io/gang-pod-group";
/// Claim of a movable class: uid of the device to leave for another one as soon as no pod uses it.
inline constexpr std::string_view kMoveAnnotation = "elasticgpu.io/move";

/// Namespace: "true" allows spec.adminAccess. Defined by Kubernetes; tenants must not be able to label namespaces.
inline constexpr std::string_view kAdminAccessLabel = "resource.kubernetes.io/admin-access";

/// Card: set by an operator after a repair or reset, to the reason of the condition NeedsRepair. The agent removes it.
inline constexpr std::string_view kRepairedAnnotation = "elasticgpu.io/repaired";

// Finalizers.
inline constexpr std::string_view kLedgerFinalizer = "elasticgpu.io/ledger";  ///< card: until its ledger is empty
inline constexpr std::string_view kDeviceFinalizer =
    "elasticgpu.io/device";  ///< device: until deprovisioned and removed from the ledgers
inline constexpr std::string_view kClaimFinalizer = "elasticgpu.io/claim";  ///< claim: until its device is released
inline constexpr std::string_view kResourceClaimFinalizer =
    "elasticgpu.io/resource-claim";  ///< ResourceClaim: until no pod has it reserved

// The ResourceClaim that represents a claim to the scheduler and the kubelet.
/// Name of the entry in a pod's resourceClaims that admission adds for its amounts (kAmountAnnotationPrefix).
inline constexpr std::string_view kAmountsEntry = "egpu";
inline constexpr std::string_view kDriver = "elasticgpu.io";       ///< DRA driver name
inline constexpr std::string_view kDeviceClass = "elasticgpu.io";  ///< DeviceClass whose selector is CEL false
inline constexpr std::string_view kResourceClaimRequest = "gpu";   ///< name of the only request of such a ResourceClaim
inline constexpr std::string_view kSchedulingGate = "elasticgpu.io/claims";

/// Attribute of a card, from its plugin: whether the card's node has the limiter; kLimiterAvailable, or why not.
inline constexpr std::string_view kLimiterAttribute = "limiter", kLimiterAvailable = "available";
/// Attribute of a card, from its node's agent: whether the driver limits the memory of containers on the card;
/// kMemoryLimitsAvailable, or why not.
inline constexpr std::string_view kMemoryLimitsAttribute = "memoryLimits", kMemoryLimitsAvailable = "available";
/// Attribute of a card, from its plugin: its compute mode if that is not the default. kExclusiveProcess: it serves one
/// process at a time. The agent omits it while its MPS daemon has set the mode.
inline constexpr std::string_view kComputeModeAttribute = "computeMode", kExclusiveProcess = "exclusiveProcess";
/// Parameter of devices with isolation driver, from the controller: kComputeLimiter if the limiter limits their
/// compute.
inline constexpr std::string_view kComputeParameter = "compute", kComputeLimiter = "limiter";

// Names.
inline constexpr std::string_view kDevicePrefix = "egpu-";  ///< + claim uid

// Request key suffixes after "<provisioner>/" or "elasticgpu.io/".
inline constexpr std::string_view kGpu = "gpu";
inline constexpr std::string_view kGpuCore = "gpu-core";
inline constexpr std::string_view kGpuMemory = "gpu-memory";
inline constexpr std::string_view kTflops = "tflops";
inline constexpr std::string_view kMigPrefix = "mig-";  ///< + profile, with '.' for '+': "mig-1g.5gb"
inline constexpr std::string_view kClaims = "claims";   ///< quotas only, in addition to the amounts above

// Phases of claims and devices. A claim is Pending, Bound or Lost; a device is in any phase except Lost.
namespace phase {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kAvailable = "Available";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kReleased = "Released";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kLost = "Lost";
/// True if a device in this phase was provisioned and has entries in the ledgers of its cards.
constexpr bool committed(std::string_view phase) {
  return phase == kBound || phase == kReleased || phase == kAvailable;
}
}  // namespace phase

// Reasons of a claim's conditions. Also used: kTainted on cards; kTemplateTaken and kTemplateChanged on templates.
namespace reason {
inline constexpr std::string_view kClassNotFound = "ClassNotFound";
inline constexpr std::string_view kProvisionerUnavailable = "ProvisionerUnavailable";
inline constexpr std::string_view kInvalidParameter = "InvalidParameter";
inline constexpr std::string_view kNotRepresentable = "NotRepresentable";
inline constexpr std::string_view kWaitingForConsumer = "WaitingForConsumer";
/// All pods of the claim are behind scheduling gates of other controllers.
inline constexpr std::string_view kWaitingForGates = "WaitingForGates";
/// No scheduler served by this controller has the schedulerName of the claim's pods.
inline constexpr std::string_view kSchedulerNotServed = "SchedulerNotServed";
inline constexpr std::string_view kWaitingForGang = "WaitingForGang";  ///< other members are missing or being decided
inline constexpr std::string_view kNoFit = "NoFit";
inline constexpr std::string_view kQuotaExceeded = "QuotaExceeded";  ///< an ElasticGPUQuota of the claim's namespace
inline constexpr std::string_view kProvisioning = "Provisioning";
inline constexpr std::string_view kProvisionFailed = "ProvisionFailed";
inline constexpr std::string_view kStaticNotAvailable = "StaticNotAvailable";
inline constexpr std::string_view kCardGone = "CardGone";
inline constexpr std::string_view kResourceClaimConflict = "ResourceClaimConflict";
inline constexpr std::string_view kTemplateTaken = "TemplateTaken";
inline constexpr std::string_view kTemplateChanged = "TemplateChanged";
inline constexpr std::string_view kNodeUnsuitable = "NodeUnsuitable";
inline constexpr std::string_view kUnhealthy = "Unhealthy";  ///< the claim has its card, but the card no longer works
inline constexpr std::string_view kIsolationBypassed = "IsolationBypassed";    ///< a program evades the limiter
inline constexpr std::string_view kMpsDaemonRestarted = "MpsDaemonRestarted";  ///< the card's MPS daemon had ended
inline constexpr std::string_view kMpsDaemonFailed = "MpsDaemonFailed";        ///< the agent can't start it
inline constexpr std::string_view kMpsServerFault = "MpsServerFault";          ///< a program stopped all MPS clients
inline constexpr std::string_view kMemoryLimitFailed = "MemoryLimitFailed";    ///< the driver refused a memory limit
inline constexpr std::string_view kTainted = "Tainted";      ///< a DeviceTaintRule selects the claim's card or device
inline constexpr std::string_view kInUse = "InUse";          ///< being deleted while pods use it
inline constexpr std::string_view kClaimGone = "ClaimGone";  ///< device retained for running pods: its claim is gone
inline constexpr std::string_view kResourceClaimDeleted =
    "ResourceClaimDeleted";  ///< as above, but the claim is being deleted
inline constexpr std::string_view kPriorityClassNotFound = "PriorityClassNotFound";
inline constexpr std::string_view kPreempting = "Preempting";  ///< capacity is being freed for the claim
inline constexpr std::string_view kPreempted = "Preempted";    ///< evicted for a claim of higher priority
inline constexpr std::string_view kMoved = "Moved";        ///< the claim left its device as kMoveAnnotation requested
inline constexpr std::string_view kNotMoved = "NotMoved";  ///< the move that kMoveAnnotation requests is not allowed
inline constexpr std::string_view kResizing = "Resizing";  ///< the requested amounts are not in force yet
inline constexpr std::string_view kResizeInfeasible = "ResizeInfeasible";  ///< its cards cannot hold the amounts
inline constexpr std::string_view kResizeFailed = "ResizeFailed";          ///< its provisioner rejected the resize
inline constexpr std::string_view kScalingQuotaExceeded = "ScalingQuotaExceeded";
/// The shares on a card exceed its usable memory. On a card, a reason of its condition SharesFit.
inline constexpr std::string_view kCardTooSmall = "CardTooSmall";
inline constexpr std::string_view kCardMemoryChanged = "CardMemoryChanged";  ///< the memory of its whole cards changed
inline constexpr std::string_view kNotResizable = "NotResizable";  ///< its class or provisioner does not allow it
inline constexpr std::string_view kRefused = "Refused";  ///< the API server rejects a write (access, quota, policy)
}  // namespace reason

}  // namespace egpu::v1alpha::keys
