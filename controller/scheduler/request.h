// A claim and its class as integers: what the scheduler is asked for. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/scheduler/quota/amounts.h"

namespace egpu::scheduler {

/// Milli-cards and bytes.
struct Amount {
  int64_t core = 0;
  int64_t memory = 0;
  bool operator==(const Amount&) const = default;
};

/// CPU (thousandths) and memory (bytes) of a node, as pods request them.
struct NodeAmount {
  int64_t cpuMilli = 0;
  int64_t memory = 0;
  bool operator==(const NodeAmount&) const = default;
};

/// Of a card's load score (choice/load_score.h), in thousandths: what memory counts for, and what memory and compute
/// count for together.
inline constexpr int64_t kUsualMemoryWeight = 700;
inline constexpr int64_t kAllWeight = 1000;

/// How a claim's total is divided over the cards of a node: split.h.
enum class Split { none, evenly, fill };

/// What a claim asks for, after units, defaults and the class's parameters. Amounts are per card, or, if `split` says
/// so, the total over however many cards it takes.
struct Request {
  int64_t cards = 1;        ///< number of cards on one node; 0: a pod that takes only of the node; split: 1
  bool wholeCards = false;  ///< every card must be empty and is granted whole (core 1000 and its full memory)
  Amount perCard;           ///< granted per card, or in total; ignored when wholeCards
  bool memoryFromCore =
      false;  ///< memory in proportion to core, ⌊to a MiB⌋, by the chosen card's size; perCard.memory is ignored
  /// > 0, thousandths of a TFLOPS: core from each chosen card's rating, ⌈to a milli-card⌉; perCard.core is ignored
  int64_t milliTflopsPerCard = 0;
  int64_t coreOvercommit = 1000;    ///< thousandths ≥ 1000; charged = ⌈granted·1000/overcommit⌉
  int64_t memoryOvercommit = 1000;  ///< likewise
  std::vector<std::string> models;  ///< empty = any; case-sensitive equality
  int64_t minMemory = 0;            ///< card capacity at least this, bytes
  int64_t maxClaimsPerCard = 0;     ///< 0 = no limit
  int64_t maxClaimsPerNode = 0;     ///< 0 = no limit
  int64_t cpuMilli = 0;             ///< CPU the pod takes of its node, thousandths; 0 = don't care
  int64_t podMemory = 0;            ///< memory the pod takes of its node, bytes; 0 = don't care
  std::string nodePolicy = "binpack";
  std::string cardPolicy = "binpack";
  int64_t memoryWeight = kUsualMemoryWeight;  ///< of policies by load score; 0 … kAllWeight, the rest is compute's
  Split split = Split::none;
  std::string pinnedNode;                ///< empty = any
  /// Card object names, all on one node. The claim gets each of them, and, if `cards` is more, other cards of that node.
  std::vector<std::string> pinnedCards;
  bool observes = false;         ///< amounts are zero: cards fit however full they are, and nothing is taken or counted
  std::vector<QuotaRoom> quota;  ///< what quotas leave to it: cards that would take more are not given
  bool operator==(const Request&) const = default;
};

/// Whether no other cards than the pinned ones may be given.
inline bool isLimitedToPinned(const Request& request) {
  return !request.pinnedCards.empty() && static_cast<int64_t>(request.pinnedCards.size()) >= request.cards;
}

/// Why a claim can't become a request: reason is one of keys::reason (InvalidParameter, NotRepresentable), message
/// names the field and the nearest values that would do.
struct Refusal {
  std::string reason;
  std::string field;
  std::string message;
  bool operator==(const Refusal&) const = default;
};

/// Reads a claim's requests under a class:
///   gpu         so many cards of one node; each whole, unless another amount says how much of each
///   gpu-core    percent of a card: 1 … 100, or 200, 300, … for whole cards; under `split` the total, any whole percent
///   tflops      the same as compute of a card, to three decimals; instead of gpu-core
///   gpu-memory  bytes, of each card of `gpu`, else the claim's total; without a suffix units of the class's
///               memoryUnit (GiB, unless it says MiB)
///
/// A claim that names a card (spec.elasticGPUName) and requests nothing asks for that whole card; with `gpu: N` it asks
/// for that card and N − 1 more of its node. The caller, who alone can tell a card from a device, sets pinnedCards.
/// Without a name, no requests are refused.
/// Its annotations elasticgpu.io/node-policy and card-policy choose other policies than the class's, if that allows it.
/// `gpu: N` asks for that much of each of N cards and is not divided, whatever the class says of splitting.
/// spec.models narrows the class's models. spec.isolation must be what the class provides, unless the claim gets whole
/// cards.
/// Of alternatives (spec.firstAvailable) the one that it got, else the first; see makeRequests().
/// Who observes (spec.adminAccess) asks for cards and for nothing of them, whatever the class limits.
std::variant<Request, Refusal> makeRequest(const v1alpha::ElasticGPUClaim& claim, const v1alpha::ElasticGPUClass& cls);

/// One request per alternative, in their order, each as makeRequest() reads a claim of that alone, and on cards of its
/// models alone. Without alternatives: that one request. The first refusal stands for all.
std::variant<std::vector<Request>, Refusal> makeRequests(const v1alpha::ElasticGPUClaim& claim,
                                                         const v1alpha::ElasticGPUClass& cls);

/// Value of the class parameter `isolation`, "none" without one. The values are the provisioner's.
std::string isolationOf(const v1alpha::ElasticGPUClass& cls);

/// Checks the class's parameters that the core knows; parameters it doesn't know belong to the provisioner.
/// Nothing, or the first refusal (unknown policy: message lists the known ones).
std::vector<Refusal> checkParameters(const v1alpha::ElasticGPUClass& cls);

}  // namespace egpu::scheduler
