// Every annotation, label, finalizer, driver and well-known name of the project, with its meaning. Nothing else spells
// them.
#pragma once

#include <string_view>

namespace egpu::v1alpha::keys {

inline constexpr std::string_view kGroup = "elasticgpu.io";

// Labels.
inline constexpr std::string_view kRoleLabel = "elasticgpu.io/role";  ///< on ElasticGPU: kRoleCard or kRoleDevice
inline constexpr std::string_view kRoleCard = "card";
inline constexpr std::string_view kRoleDevice = "device";
inline constexpr std::string_view kNodeLabel =
    "elasticgpu.io/node";  ///< convenience only; spec.card.nodeName is the truth
/// card: the provisioner whose plugin discovered it (labelValueOf its name); it alone can say that the card is gone.
inline constexpr std::string_view kDiscoveredByLabel = "elasticgpu.io/discovered-by";
inline constexpr std::string_view kAmountsLabel =
    "elasticgpu.io/amounts";  ///< on a ResourceClaimTemplate that was made of the amounts in its name: "true"
inline constexpr std::string_view kSimulatedLabel = "elasticgpu.io/simulated";  ///< "true" on what the simulation made

// Annotations.
inline constexpr std::string_view kClaimAnnotationPrefix = "egpuc.elasticgpu.io/";      ///< pod: + <name> → claim
inline constexpr std::string_view kTemplateAnnotationPrefix = "egpuct.elasticgpu.io/";  ///< pod: + <name> → template
inline constexpr std::string_view kAmountAnnotationPrefix =
    "egpu.elasticgpu.io/";  ///< pod: class, gpu, gpu-core, gpu-memory
inline constexpr std::string_view kDefaultClassAnnotation = "elasticgpu.io/is-default-class";
/// claim: a policy of its own, where its class has claimPolicies: "true"; else it is refused.
inline constexpr std::string_view kNodePolicyAnnotation = "elasticgpu.io/node-policy";
inline constexpr std::string_view kCardPolicyAnnotation = "elasticgpu.io/card-policy";
/// device whose claim is gone: uids of the pods that ran then, with commas between; while one of them runs, it is held.
inline constexpr std::string_view kHeldForAnnotation = "elasticgpu.io/held-for";
/// pod: + container name → what the node side gave it (env, devices, mounts), written by the simulated kubelet.
inline constexpr std::string_view kPreparedAnnotationPrefix = "prepared.elasticgpu.io/";

/// claim: whose gang it is, and how many members that has; optionally the node label of which all are to have one value.
inline constexpr std::string_view kGangAnnotation = "elasticgpu.io/gang";
inline constexpr std::string_view kGangSizeAnnotation = "elasticgpu.io/gang-size";
inline constexpr std::string_view kGangTopologyAnnotation = "elasticgpu.io/gang-topology";
/// claim, instead of these: its gang is as this PodGroup says it. Written by us on claims that are made for such a pod.
inline constexpr std::string_view kGangPodGroupAnnotation = "elasticgpu.io/gang-pod-group";
/// claim, where its class is movable: uid of the device that it is to leave, for another one, as soon as no pod uses it.
inline constexpr std::string_view kMoveAnnotation = "elasticgpu.io/move";

/// namespace: "true" where claims may observe (spec.adminAccess). Kubernetes' own; who may label namespaces is no tenant.
inline constexpr std::string_view kAdminAccessLabel = "resource.kubernetes.io/admin-access";

/// card: an operator has had it repaired or reset; the value is the reason of its condition NeedsRepair. Its agent takes
/// it off again.
inline constexpr std::string_view kRepairedAnnotation = "elasticgpu.io/repaired";

// Finalizers.
inline constexpr std::string_view kLedgerFinalizer = "elasticgpu.io/ledger";  ///< card: until its ledger is empty
inline constexpr std::string_view kDeviceFinalizer =
    "elasticgpu.io/device";  ///< device: until deprovisioned and entries nulled
inline constexpr std::string_view kClaimFinalizer = "elasticgpu.io/claim";  ///< claim: until its device is released
inline constexpr std::string_view kCarrierFinalizer =
    "elasticgpu.io/carrier";  ///< ResourceClaim: until nobody reserves it

// The carrier.
/// The name in a pod's resourceClaims of what its amounts (kAmountAnnotationPrefix) ask for.
inline constexpr std::string_view kAmountsEntry = "egpu";
inline constexpr std::string_view kDriver = "elasticgpu.io";       ///< DRA driver name
inline constexpr std::string_view kDeviceClass = "elasticgpu.io";  ///< DeviceClass whose selector is CEL false
inline constexpr std::string_view kCarrierRequest = "gpu";         ///< the one request of a carrier ResourceClaim
inline constexpr std::string_view kSchedulingGate = "elasticgpu.io/claims";

// Names.
inline constexpr std::string_view kDevicePrefix = "egpu-";  ///< + claim uid

// Request key suffixes after "<provisioner>/" or "elasticgpu.io/".
inline constexpr std::string_view kGpu = "gpu";
inline constexpr std::string_view kGpuCore = "gpu-core";
inline constexpr std::string_view kGpuMemory = "gpu-memory";
inline constexpr std::string_view kTflops = "tflops";
inline constexpr std::string_view kClaims = "claims";  ///< of a quota, beside the four above

// Phases of claims and devices. A claim is Pending, Bound or Lost; a device has all but Lost.
namespace phase {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kAvailable = "Available";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kReleased = "Released";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kLost = "Lost";
/// Whether a device in this phase was provisioned and has its entries on its cards.
constexpr bool committed(std::string_view phase) {
  return phase == kBound || phase == kReleased || phase == kAvailable;
}
}  // namespace phase

// Reasons on a claim's conditions; kTainted on a card, too; kTemplateTaken and kTemplateChanged on a template.
namespace reason {
inline constexpr std::string_view kClassNotFound = "ClassNotFound";
inline constexpr std::string_view kProvisionerUnavailable = "ProvisionerUnavailable";
inline constexpr std::string_view kInvalidParameter = "InvalidParameter";
inline constexpr std::string_view kNotRepresentable = "NotRepresentable";
inline constexpr std::string_view kWaitingForConsumer = "WaitingForConsumer";
/// All pods of the claim are behind scheduling gates of other controllers.
inline constexpr std::string_view kWaitingForGates = "WaitingForGates";
/// No scheduler that is served here has the schedulerName of the claim's pods.
inline constexpr std::string_view kSchedulerNotServed = "SchedulerNotServed";
inline constexpr std::string_view kWaitingForGang = "WaitingForGang";  ///< other members are missing, or decide
inline constexpr std::string_view kNoFit = "NoFit";
inline constexpr std::string_view kQuotaExceeded = "QuotaExceeded";  ///< an ElasticGPUQuota of its namespace
inline constexpr std::string_view kProvisioning = "Provisioning";
inline constexpr std::string_view kProvisionFailed = "ProvisionFailed";
inline constexpr std::string_view kStaticNotAvailable = "StaticNotAvailable";
inline constexpr std::string_view kCardGone = "CardGone";
inline constexpr std::string_view kCarrierTaken = "CarrierTaken";
inline constexpr std::string_view kTemplateTaken = "TemplateTaken";
inline constexpr std::string_view kTemplateChanged = "TemplateChanged";
inline constexpr std::string_view kNodeUnsuitable = "NodeUnsuitable";
inline constexpr std::string_view kUnhealthy = "Unhealthy";      ///< the claim has its card, and the card works no more
inline constexpr std::string_view kTainted = "Tainted";          ///< a DeviceTaintRule means the claim's card or device
inline constexpr std::string_view kInUse = "InUse";              ///< being deleted while pods use it
inline constexpr std::string_view kClaimGone = "ClaimGone";      ///< of a device held for pods that run
inline constexpr std::string_view kCarrierGone = "CarrierGone";  ///< the same, its claim is being deleted
inline constexpr std::string_view kPriorityClassNotFound = "PriorityClassNotFound";
inline constexpr std::string_view kPreempting = "Preempting";  ///< room is being made for the claim
inline constexpr std::string_view kPreempted = "Preempted";    ///< the claim, or the device, had to make room
inline constexpr std::string_view kMoved = "Moved";            ///< the claim left its device as kMoveAnnotation asked
inline constexpr std::string_view kNotMoved = "NotMoved";      ///< kMoveAnnotation asks, and may not
inline constexpr std::string_view kResizing = "Resizing";      ///< what the claim asks for now is on its way
inline constexpr std::string_view kResizeInfeasible = "ResizeInfeasible";  ///< its cards can't hold it, now or ever
inline constexpr std::string_view kResizeFailed = "ResizeFailed";          ///< its provisioner refuses it
inline constexpr std::string_view kScalingQuotaExceeded = "ScalingQuotaExceeded";
/// The card's usable memory is less than the shares on it hold; likewise on a card, its condition SharesFit.
inline constexpr std::string_view kCardTooSmall = "CardTooSmall";
inline constexpr std::string_view kCardMemoryChanged = "CardMemoryChanged";  ///< a claim of whole cards has it now
inline constexpr std::string_view kNotResizable = "NotResizable";  ///< its class, or its provisioner, does not allow it
inline constexpr std::string_view kRefused = "Refused";  ///< the API server refuses a write: rights, quota, a policy
}  // namespace reason

}  // namespace egpu::v1alpha::keys
