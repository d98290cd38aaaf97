// A scheduling request: a claim and its class converted to integers. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/scheduler/quota/amounts.h"

namespace egpu::scheduler {

/// Core in milli-cards, memory in bytes.
struct Amount {
  int64_t core = 0;
  int64_t memory = 0;
  v1alpha::Slots slots{};  ///< slots of MIG instances, of a granted or charged amount only
  bool operator==(const Amount&) const = default;
};

/// CPU (thousandths) and memory (bytes) of a node, as requested by pods.
struct NodeAmount {
  int64_t cpuMilli = 0;
  int64_t memory = 0;
  bool operator==(const NodeAmount&) const = default;
};

/// Weights of a card's load score (choice/load_score.h), in thousandths: the default weight of memory, and the sum of
/// the weights of memory and compute.
inline constexpr int64_t kUsualMemoryWeight = 700;
inline constexpr int64_t kAllWeight = 1000;

/// MIG instances of one profile, all on one card.
struct MigInstances {
  std::string profile;    ///< key of the profile (mig/placement.h); empty = the request is for no instances
  int64_t instances = 0;  ///< number
  bool operator==(const MigInstances&) const = default;
};

/// How a claim's total is divided over the cards of a node; see choice/split.h.
enum class Split { none, evenly, fill };

/// A claim's request after units, defaults and class parameters are applied. Amounts are per card or, with `split`, the
/// total over any number of cards.
struct Request {
  int64_t cards = 1;        ///< number of cards, on one node; 0 = a pod without cards; 1 with split
  bool wholeCards = false;  ///< every card must be empty and is granted whole (core 1000 and its full memory)
  Amount perCard;           ///< granted per card or, with split, in total; ignored with wholeCards
  bool memoryFromCore =
      false;  ///< memory in proportion to core, ⌊to a MiB⌋, of the chosen card's size; perCard.memory is ignored
  bool memoryAssumedGiB = false;  ///< perCard.memory comes from a number without a unit, which counts GiB
  /// If > 0: thousandths of a TFLOPS. Core is computed from the chosen card's rating, ⌈to a milli-card⌉; perCard.core
  /// is ignored.
  int64_t milliTflopsPerCard = 0;
  int64_t coreOvercommit = 1000;    ///< thousandths ≥ 1000; charged = ⌈granted·1000/overcommit⌉
  int64_t memoryOvercommit = 1000;  ///< thousandths ≥ 1000; as coreOvercommit
  std::vector<std::string> models;  ///< empty = any; case-sensitive equality
  int64_t minMemory = 0;            ///< minimum memory of a card, bytes
  int64_t maxClaimsPerCard = 0;     ///< 0 = no limit
  int64_t maxClaimsPerNode = 0;     ///< 0 = no limit
  int64_t cpuMilli = 0;             ///< CPU that its pod requests of the node, thousandths; 0 = no constraint
  int64_t podMemory = 0;            ///< memory that its pod requests of the node, bytes; 0 = no constraint
  std::string nodePolicy = "binpack";
  std::string cardPolicy = "binpack";
  int64_t memoryWeight = kUsualMemoryWeight;  ///< for policies by load score: 0 … kAllWeight; compute has the rest
  Split split = Split::none;
  std::string pinnedNode;  ///< empty = any
  /// Card object names, all on one node. The claim gets all of them and, if `cards` is larger, further cards of that
  /// node.
  std::vector<std::string> pinnedCards;
  /// Class parameter `isolation` of a request for shares; empty = none. All shares of a card have the same mode.
  /// "auto" is the strongest mode of the card's node.
  std::string isolation{};
  MigInstances mig{};        ///< instead of amounts: those of the profile on the chosen card
  bool adminAccess = false;  ///< admin access: amounts are zero, full cards fit, and nothing is allocated or counted
  std::vector<RemainingQuota> quota;  ///< remaining quotas: cards that would exceed one are excluded
  bool operator==(const Request&) const = default;
};

/// True if no cards other than the pinned ones can be given.
inline bool isLimitedToPinned(const Request& request) {
  return !request.pinnedCards.empty() && static_cast<int64_t>(request.pinnedCards.size()) >= request.cards;
}

/// Why a claim cannot become a request. `reason` is one of keys::reason (InvalidParameter, NotRepresentable); `message`
/// has the nearest valid values.
struct Refusal {
  std::string reason;
  std::string field;
  std::string message;
  bool operator==(const Refusal&) const = default;
};

/// Reads a claim's requests under a class:
///   gpu         number of cards, on one node; whole cards, unless another amount gives the share of each
///   gpu-core    percent of a card: 1 … 100, or 200, 300, … for whole cards; under `split` the total, any whole percent
///   tflops      compute of a card, to three decimals; instead of gpu-core
///   mig-<profile>  number of MIG instances of the profile, on one card; alone
///   gpu-memory  bytes: of each card with `gpu`, otherwise the claim's total; without a suffix in units of the class's
///               memoryUnit (GiB by default, or MiB)
///
/// A claim that names a card (spec.elasticGPUName) without requests gets that whole card; with `gpu: N` it gets that
/// card and N − 1 others of its node. The caller sets pinnedCards, because only it can distinguish a card from a
/// device. A claim without a name and requests is rejected. The annotations elasticgpu.io/node-policy and card-policy
/// replace the class's policies, if the class allows it. With `gpu: N` the amounts apply to each of N cards, whatever
/// the class's `split` is. spec.models narrows the class's models. spec.isolation must equal the class's isolation,
/// unless the claim gets whole cards. With alternatives (spec.firstAvailable), reads the one in status.alternative, or
/// the first; see makeRequests(). With spec.adminAccess, amounts are zero and the class's limits do not apply.
std::variant<Request, Refusal> makeRequest(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls);

/// Returns one request per alternative, in their order, as makeRequest() reads a claim with only that alternative,
/// restricted to its models. Without alternatives: one request. One invalid alternative rejects the claim.
std::variant<std::vector<Request>, Refusal> makeRequests(const v1alpha::ElasticGPUClaim& claim,
                                                         const v1alpha::ElasticGPUClass& cls);

/// Returns the class parameter `isolation`, "none" by default; "mig" for a class of MIG instances. The other values are
/// defined by the provisioner.
std::string isolationOf(const v1alpha::ElasticGPUClass& cls);

/// Checks the class parameters that the core evaluates; unknown ones belong to the provisioner. Returns nothing or the
/// first refusal (for an unknown policy, the message lists the known ones).
std::vector<Refusal> checkParameters(const v1alpha::ElasticGPUClass& cls);

}  // namespace egpu::scheduler
