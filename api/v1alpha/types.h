// The structs of group elasticgpu.io, stored version v1alpha: ElasticGPU, ElasticGPUClaim and its template,
// ElasticGPUClass, ElasticGPUQuota. Amounts are integers: core in milli-cards (1000 = one card), memory in bytes.
// Standard library only.
#pragma once

#include <optional>

#include "api/core/heap_optional.h"
#include "api/core/meta.h"
#include "api/core/objects.h"
#include "api/core/sorted_map.h"
#include "api/v1alpha/card.h"

namespace egpu::v1alpha {

using core::Condition;
using core::ObjectMeta;

/// Amounts of a device on one card. charged = granted ÷ overcommit, rounded up.
struct DeviceCard {
  std::string name;  ///< card object name
  std::string uuid;
  int64_t core = 0;
  int64_t memory = 0;
  int64_t chargedCore = 0;
  int64_t chargedMemory = 0;
  Slots slots{};  ///< slots of its MIG instances
  bool operator==(const DeviceCard&) const = default;
};

/// Amounts of a device after a resize; see size.h.
struct DeviceSize {
  int64_t number = 0;             ///< number of the target, counted per device from 1
  StringMap requests;             ///< the claim's requests from which it was computed, as written there
  std::vector<DeviceCard> cards;  ///< cards of spec.cards, in that order
  bool operator==(const DeviceSize&) const = default;
};

struct ClaimRef {
  std::string namespace_, name;
  std::string uid;  ///< empty = reserved by an administrator for a claim of that name
  bool reserves() const { return uid.empty(); }
  bool operator==(const ClaimRef&) const = default;
};

enum class SourceKind { physicalGPU, gpuShare, qGPU, mig, remote };
/// The source of an ElasticGPU. `kind` decides which fields are used.
struct Source {
  SourceKind kind = SourceKind::physicalGPU;
  std::vector<std::string> gpuNames;   ///< physicalGPU; [0] is gpuName of gpuShare, qGPU, mig
  std::string deviceName;              ///< qGPU
  std::vector<std::string> paths;      ///< qGPU
  std::string profile;                 ///< mig
  std::vector<std::string> instances;  ///< mig
  std::string endpoint;                ///< remote
  bool ambiguous = false;  ///< several sources were given; the fields are from the last one; validation rejects it
  bool operator==(const Source&) const = default;
};

struct ElasticGPUSpec {
  StringMap capacity;
  HeapOptional<Source> source;         ///< absent = no source is given
  HeapOptional<Card> card;             ///< cards only
  SortedMap<LedgerEntry> allocations;  ///< cards only: the ledger, by device uid
  std::string mode;  ///< cards only: isolation mode of the shares in the ledger; empty = none is recorded
  // Devices only; immutable after creation except claimRef and target.
  std::string nodeName;
  std::vector<DeviceCard> cards;
  std::string provisioner;
  StringMap parameters;
  std::string className;
  std::string reclaimPolicy;  ///< Retain | Delete
  std::string alternative;    ///< alternative of the claim's firstAvailable that it was created for
  bool adminAccess = false;   ///< admin access: nothing is charged on its cards
  HeapOptional<core::NodeSelector> nodeAffinityRequired;
  std::optional<ClaimRef> claimRef;
  HeapOptional<DeviceSize> target;  ///< target of the last resize; replaces the amounts in spec.cards
  bool operator==(const ElasticGPUSpec&) const = default;
};

/// For printer columns: amounts charged on a card (written by the auditor, debounced) or granted to a device.
struct AllocatedSummary {
  int64_t core = 0, memory = 0, claims = 0;
  std::string coreText, memoryText;  ///< "35%", "12Gi/80Gi"
  bool operator==(const AllocatedSummary&) const = default;
};
struct ElasticGPUStatus {
  std::string phase;  ///< Pending | Available | Bound | Released | Failed; empty = not yet written
  std::string reason, message;
  std::vector<Condition> conditions;
  HeapOptional<AllocatedSummary> allocated;
  HeapOptional<CardUsage> usage;        ///< cards only
  HeapOptional<DeviceSize> inForce;     ///< devices only: amounts in force after a resize; replaces those in spec.cards
  HeapOptional<Isolation> isolation;    ///< devices only; absent = not reported by the provisioner
  SortedMap<IsolationBypass> bypassed;  ///< cards only: by device uid
  SortedMap<AccessLoss> accessLost;     ///< cards: by device uid; devices without cards: by node
  bool operator==(const ElasticGPUStatus&) const = default;
};
/// A card (spec.card) or a device (spec.cards).
struct ElasticGPU {
  ObjectMeta metadata;
  ElasticGPUSpec spec;
  ElasticGPUStatus status;
  bool operator==(const ElasticGPU&) const = default;
  bool isCard() const { return spec.card.has_value(); }
  bool isDevice() const { return !spec.card.has_value(); }
};

/// An alternative of a claim. The claim gets the first alternative that fits.
struct ClaimAlternative {
  std::string name;                 ///< DNS label chosen by the claim's author
  std::vector<std::string> models;  ///< allowed card models; empty = any
  StringMap requests;               ///< as in a claim
  bool operator==(const ClaimAlternative&) const = default;
};
inline constexpr std::size_t kMaxAlternatives = 8;  ///< per claim
struct ElasticGPUClaimSpec {
  std::string className;       ///< egpuClassName
  std::string classNameAlias;  ///< elasticGPUClassName
  std::string elasticGPUName;
  StringMap requests;               ///< key → quantity text as written (a JSON number becomes its text)
  std::string priorityClassName{};  ///< a PriorityClass; empty = the priority of its pods, or the default priority
  /// Instead of requests: alternatives in the order in which they are tried, at most kMaxAlternatives.
  std::vector<ClaimAlternative> firstAvailable{};
  bool adminAccess = false;           ///< admin access: the claim gets cards and is charged nothing
  std::vector<std::string> models{};  ///< allowed card models; empty = any that the class allows
  std::string isolation{};            ///< required value of the class parameter `isolation`; empty = any
  bool operator==(const ElasticGPUClaimSpec&) const = default;
  /// Returns the class from either field; empty = the default class.
  const std::string& effectiveClass() const { return className.empty() ? classNameAlias : className; }
};
/// Usage of a claim's cards, as text for people; empty = unknown.
struct ClaimUsage {
  std::string core;    ///< "35%" of one card
  std::string memory;  ///< "3.1Gi"
  std::string text;    ///< both: "35%, 3.1Gi"
  std::string time;    ///< time of the write
  bool operator==(const ClaimUsage&) const = default;
};
/// Nominated capacity on one card. Amounts are the charged ones.
struct NominatedCard {
  std::string name;  ///< card object name
  int64_t core = 0;
  int64_t memory = 0;
  bool operator==(const NominatedCard&) const = default;
};
/// Capacity that preemption frees and reserves for a claim.
struct Nomination {
  std::string nodeName;
  std::vector<NominatedCard> cards;
  std::vector<std::string> victims;  ///< names of the devices to evict
  bool operator==(const Nomination&) const = default;
};
struct ElasticGPUClaimStatus {
  std::string phase;  ///< Pending | Bound | Lost; empty = not yet written
  std::string elasticGPUName;
  std::string nodeName;
  std::string className;              ///< egpuClassName: the class in effect, from either field or the default
  StringMap capacity;                 ///< granted amounts, as text for people: core "10%", memory "4Gi"
  StringMap requests;                 ///< requests in force, as written in the spec; resizable claims only
  std::string alternative;            ///< name of the alternative in spec.firstAvailable that it got
  HeapOptional<Isolation> isolation;  ///< of its device
  HeapOptional<ClaimUsage> usage;
  int64_t priority = 0;  ///< priority at the time of the write
  HeapOptional<Nomination> nominated;
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUClaimStatus&) const = default;
};
struct ElasticGPUClaim {
  ObjectMeta metadata;
  ElasticGPUClaimSpec spec;
  ElasticGPUClaimStatus status;
  bool operator==(const ElasticGPUClaim&) const = default;
};

/// Template from which a claim is created for each pod.
struct ElasticGPUClaimTemplate {
  ObjectMeta metadata;
  StringMap labels, annotations;  ///< spec.metadata of the claims
  ElasticGPUClaimSpec spec;       ///< spec.spec of the claims
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUClaimTemplate&) const = default;
};

struct ElasticGPUClass {
  ObjectMeta metadata;
  std::string provisioner;
  StringMap parameters;
  std::string reclaimPolicy = "Delete";   ///< Retain | Delete
  std::string bindingMode = "Immediate";  ///< egpuBindingMode: Immediate | WaitForFirstConsumer
  /// Selector of the namespaces whose claims can use the class; nullopt = all.
  std::optional<core::LabelSelector> allowedNamespaces;
  /// Node taints that claims tolerate when they are bound before a pod is known (Immediate).
  std::vector<core::Toleration> tolerations;
  std::vector<Condition> conditions;  ///< status.conditions
  bool operator==(const ElasticGPUClass&) const = default;
};

/// Amounts by key: gpu, gpu-core, gpu-memory, tflops, claims. Values are quantity texts as written; a whole number
/// without suffix is GiB for gpu-memory. They limit the amounts charged to the namespace's claims.
struct ElasticGPUQuotaSpec {
  StringMap hard;                    ///< totals of the namespace
  StringMap perClaim;                ///< limits of each single claim
  std::vector<std::string> classes;  ///< selector.classes: classes whose claims count; empty = all
  std::vector<std::string> models;   ///< selector.models: card models that count; empty = all
  int64_t alertPercent = 95;         ///< 1…100
  std::string enforcement = "Wait";  ///< Wait | Refuse
  bool operator==(const ElasticGPUQuotaSpec&) const = default;
};
struct ElasticGPUQuotaStatus {
  StringMap used;     ///< by key of spec.hard, with the same units
  StringMap summary;  ///< text for people: used "/" hard
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUQuotaStatus&) const = default;
};
/// Limits of a namespace's claims, set by an administrator.
struct ElasticGPUQuota {
  ObjectMeta metadata;
  ElasticGPUQuotaSpec spec;
  ElasticGPUQuotaStatus status;
  bool operator==(const ElasticGPUQuota&) const = default;
};

}  // namespace egpu::v1alpha

namespace egpu::core {
template <>
inline constexpr Kind kindOf<v1alpha::ElasticGPU>{"elasticgpu.io", "v1alpha", "ElasticGPU", "elasticgpus", false};
template <>
inline constexpr Kind kindOf<v1alpha::ElasticGPUClaim>{"elasticgpu.io", "v1alpha", "ElasticGPUClaim",
                                                       "elasticgpuclaims", true};
template <>
inline constexpr Kind kindOf<v1alpha::ElasticGPUClaimTemplate>{"elasticgpu.io", "v1alpha", "ElasticGPUClaimTemplate",
                                                               "elasticgpuclaimtemplates", true};
template <>
inline constexpr Kind kindOf<v1alpha::ElasticGPUClass>{"elasticgpu.io", "v1alpha", "ElasticGPUClass",
                                                       "elasticgpuclasses", false};
template <>
inline constexpr Kind kindOf<v1alpha::ElasticGPUQuota>{"elasticgpu.io", "v1alpha", "ElasticGPUQuota",
                                                       "elasticgpuquotas", true};
}  // namespace egpu::core
