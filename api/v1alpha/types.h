// ElasticGPU, ElasticGPUClaim, its template, ElasticGPUClass and ElasticGPUQuota (group elasticgpu.io, stored version v1alpha)
// as plain structs.
// Amounts are integers: core in milli-cards (1000 = one card), memory in bytes. Standard library only.
#pragma once

#include <optional>

#include "api/core/meta.h"
#include "api/core/objects.h"
#include "api/core/rare.h"
#include "api/core/sorted_map.h"

namespace egpu::v1alpha {

using core::Condition;
using core::ObjectMeta;
using core::Rare;
using core::SortedMap;
using core::StringMap;

/// One link from a card to a peer.
struct CardLink {
  std::string peer;  ///< uuid of the peer card
  std::string type;  ///< nvlink | nvswitch | single | multiple | hostbridge | cpu | system | board
  int64_t count = 0;
  bool operator==(const CardLink&) const = default;
};
struct CardTopology {
  int64_t numa = -1;  ///< NUMA node, -1 = unknown
  std::string pcie;   ///< PCI bus id
  std::vector<CardLink> links;
  bool operator==(const CardTopology&) const = default;
};
/// spec.card: a piece of hardware as its node's agent publishes it.
struct Card {
  std::string uuid;
  std::string nodeName;
  int64_t index = 0;
  std::string model;
  int64_t smCount = 0;
  int64_t milliTflops = 0;  ///< rating in thousandths of a TFLOPS (written as `tflops: 19.5`), 0 = unknown
  int64_t core = 1000;      ///< milli-cards
  int64_t memory = 0;       ///< bytes
  CardTopology topology;
  StringMap attributes;  ///< what else its vendor's plugin says of it, by the vendor's names: driverVersion, migMode, …
  bool operator==(const Card&) const = default;
};

/// One entry of a card's ledger, keyed by device uid. Amounts are the charged ones.
struct LedgerEntry {
  std::string device;  ///< name of the device object
  std::string claim;   ///< "namespace/name"
  int64_t core = 0;
  int64_t memory = 0;  ///< with core 0 as well: it observes the card
  int64_t resize = 0;  ///< number of the device's target that it was written for; 0 = none yet
  bool operator==(const LedgerEntry&) const = default;
};

/// What a device takes of one card. charged = granted ÷ overcommit, rounded up.
struct DeviceCard {
  std::string name;  ///< card object name
  std::string uuid;
  int64_t core = 0;
  int64_t memory = 0;
  int64_t chargedCore = 0;
  int64_t chargedMemory = 0;
  bool operator==(const DeviceCard&) const = default;
};

/// What a resize makes of a device's cards; size.h.
struct DeviceSize {
  int64_t number = 0;             ///< of the device's targets, from 1
  StringMap requests;             ///< the claim's that it was made of, as written there
  std::vector<DeviceCard> cards;  ///< those of spec.cards, in that order
  bool operator==(const DeviceSize&) const = default;
};

struct ClaimRef {
  std::string namespace_, name;
  std::string uid;  ///< empty: only reserved for a claim of that name, by an administrator
  bool reserves() const { return uid.empty(); }
  bool operator==(const ClaimRef&) const = default;
};

enum class SourceKind { physicalGPU, gpuShare, qGPU, mig, remote };
/// The one source of an ElasticGPU; which fields count depends on kind.
struct Source {
  SourceKind kind = SourceKind::physicalGPU;
  std::vector<std::string> gpuNames;   ///< physicalGPU; [0] is gpuName of gpuShare, qGPU, mig
  std::string deviceName;              ///< qGPU
  std::vector<std::string> paths;      ///< qGPU
  std::string profile;                 ///< mig
  std::vector<std::string> instances;  ///< mig
  std::string endpoint;                ///< remote
  bool ambiguous = false;  ///< several sources were given, these fields are the last one's; validation refuses it
  bool operator==(const Source&) const = default;
};

struct ElasticGPUSpec {
  StringMap capacity;
  Rare<Source> source;                 ///< absent = none is given
  Rare<Card> card;                     ///< cards only
  SortedMap<LedgerEntry> allocations;  ///< cards only: the ledger, by device uid
  // Devices only; fixed at creation except claimRef and target.
  std::string nodeName;
  std::vector<DeviceCard> cards;
  std::string provisioner;
  StringMap parameters;
  std::string className;
  std::string reclaimPolicy;  ///< Retain | Delete
  std::string alternative;    ///< of its claim's firstAvailable, the one that it was made for
  bool adminAccess = false;   ///< an observer's: it is charged nothing of its cards
  Rare<core::NodeSelector> nodeAffinityRequired;
  std::optional<ClaimRef> claimRef;
  Rare<DeviceSize> target;  ///< what it is to have instead of what spec.cards says, since it was resized
  bool operator==(const ElasticGPUSpec&) const = default;
};

/// For printer columns: of a card what its ledger charges (the auditor, debounced), of a device what it grants.
struct AllocatedSummary {
  int64_t core = 0, memory = 0, claims = 0;
  std::string coreText, memoryText;  ///< "35%", "12Gi/80Gi"
  bool operator==(const AllocatedSummary&) const = default;
};
/// What runs on one card has of it.
struct DeviceUsage {
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< of the whole card's time, -1 = unknown
  bool operator==(const DeviceUsage&) const = default;
};
/// What is used of a card, as its agent saw it when it last differed noticeably.
struct CardUsage {
  int64_t memory = -1;             ///< bytes, -1 = unknown
  int64_t smPercent = -1;          ///< 0…100, -1 = unknown
  SortedMap<DeviceUsage> devices;  ///< by device uid; those that use nothing are left out
  std::string time;                ///< when it was written
  bool operator==(const CardUsage&) const = default;
};
struct ElasticGPUStatus {
  std::string phase;  ///< Pending | Available | Bound | Released | Failed; empty = not yet written
  std::string reason, message;
  std::vector<Condition> conditions;
  Rare<AllocatedSummary> allocated;
  Rare<CardUsage> usage;     ///< cards only
  Rare<DeviceSize> inForce;  ///< devices only: what it has instead of what spec.cards says
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

/// One of the things that would do for a claim, which gets the first of them that fits.
struct ClaimAlternative {
  std::string name;                 ///< a DNS label, of the claim's own choosing
  std::vector<std::string> models;  ///< on cards of these alone; empty = of any
  StringMap requests;               ///< as a claim's
  bool operator==(const ClaimAlternative&) const = default;
};
inline constexpr std::size_t kMostAlternatives = 8;  ///< of a claim
struct ElasticGPUClaimSpec {
  std::string className;       ///< egpuClassName
  std::string classNameAlias;  ///< elasticGPUClassName
  std::string elasticGPUName;
  StringMap requests;               ///< key → quantity text exactly as written (a JSON number becomes its text)
  std::string priorityClassName{};  ///< a PriorityClass; empty = the priority of its pods, else the default one
  /// Instead of requests: what would do, in the order in which it is tried; at most kMostAlternatives.
  std::vector<ClaimAlternative> firstAvailable{};
  bool adminAccess = false;  ///< it observes: it is given cards without any charge
  std::vector<std::string> models{};  ///< on cards of these alone; empty = of any that the class gives out
  std::string isolation{};            ///< required value of the class parameter `isolation`; empty = any
  bool operator==(const ElasticGPUClaimSpec&) const = default;
  /// The class under either spelling; empty = the default class.
  const std::string& effectiveClass() const { return className.empty() ? classNameAlias : className; }
};
/// What a claim uses of its cards, as text for people; empty = unknown.
struct ClaimUsage {
  std::string core;    ///< "35%" of one card
  std::string memory;  ///< "3.1Gi"
  std::string text;    ///< both: "35%, 3.1Gi"
  std::string time;    ///< when it was written
  bool operator==(const ClaimUsage&) const = default;
};
/// What a claim is to get of a card. Amounts are charged ones.
struct NominatedCard {
  std::string name;  ///< card object name
  int64_t core = 0;
  int64_t memory = 0;
  bool operator==(const NominatedCard&) const = default;
};
/// Room that is made for a claim by preemption, and kept for it.
struct Nomination {
  std::string nodeName;
  std::vector<NominatedCard> cards;
  std::vector<std::string> victims;  ///< names of the devices that have to go
  bool operator==(const Nomination&) const = default;
};
struct ElasticGPUClaimStatus {
  std::string phase;  ///< Pending | Bound | Lost; empty = not yet written
  std::string elasticGPUName;
  std::string nodeName;
  std::string className;    ///< egpuClassName: the class that serves it, also under the other spelling and by default
  StringMap capacity;       ///< granted, as text for people: core "10%", memory "4Gi"
  StringMap requests;       ///< in force, as they were asked for; only of a claim that may ask for other amounts
  std::string alternative;  ///< name of the one in spec.firstAvailable that it got
  Rare<ClaimUsage> usage;
  int64_t priority = 0;  ///< as it was found when this was written
  Rare<Nomination> nominated;
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUClaimStatus&) const = default;
};
struct ElasticGPUClaim {
  ObjectMeta metadata;
  ElasticGPUClaimSpec spec;
  ElasticGPUClaimStatus status;
  bool operator==(const ElasticGPUClaim&) const = default;
};

/// Claims like this one are made for pods, one for each.
struct ElasticGPUClaimTemplate {
  ObjectMeta metadata;
  StringMap labels, annotations;  ///< of the claims, as they stand in spec.metadata
  ElasticGPUClaimSpec spec;       ///< of the claims, as it stands in spec.spec
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUClaimTemplate&) const = default;
};

struct ElasticGPUClass {
  ObjectMeta metadata;
  std::string provisioner;
  StringMap parameters;
  std::string reclaimPolicy = "Delete";   ///< Retain | Delete
  std::string bindingMode = "Immediate";  ///< egpuBindingMode: Immediate | WaitForFirstConsumer
  /// Namespaces whose claims may use the class, by their labels; none = all of them.
  std::optional<core::LabelSelector> allowedNamespaces;
  /// Taints of nodes that claims may be bound on before a pod of theirs is known (Immediate).
  std::vector<core::Toleration> tolerations;
  std::vector<Condition> conditions;  ///< status.conditions
  bool operator==(const ElasticGPUClass&) const = default;
};

/// Amounts by key: gpu, gpu-core, gpu-memory, tflops, claims; quantity text as written, of gpu-memory a bare whole
/// number is GiB. They bound what the ledger charges to the namespace's claims.
struct ElasticGPUQuotaSpec {
  StringMap hard;                    ///< totals of the namespace
  StringMap perClaim;                ///< of each claim by itself
  std::vector<std::string> classes;  ///< selector.classes: which claims count; empty = all
  std::vector<std::string> models;   ///< selector.models: which cards count; empty = all
  int64_t alertPercent = 95;         ///< 1…100
  std::string enforcement = "Wait";  ///< Wait | Refuse
  bool operator==(const ElasticGPUQuotaSpec&) const = default;
};
struct ElasticGPUQuotaStatus {
  StringMap used;     ///< of each key in spec.hard, as it is written there
  StringMap summary;  ///< the same for people: used "/" hard
  std::vector<Condition> conditions;
  bool operator==(const ElasticGPUQuotaStatus&) const = default;
};
/// What the claims of its namespace may have. An administrator's.
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
