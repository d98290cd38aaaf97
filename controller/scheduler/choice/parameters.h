// Reads the class parameters that the core evaluates. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

inline constexpr int64_t kMilliPerPercent = 10;  ///< milli-cards
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;
/// More than any card or node has: larger amounts are typing errors. The limit keeps all later sums within 63 bits.
inline constexpr int64_t kMaxMemory = int64_t{1} << 50;  ///< bytes
inline constexpr int64_t kMaxCards = 1024;
inline constexpr int64_t kMaxTflops = 1'000'000'000;  ///< TFLOPS
inline constexpr int64_t kMaxOvercommit = 1'000'000;  ///< thousandths: a factor of 1,000

struct Parameters {
  std::string nodePolicy = "binpack";
  std::string cardPolicy = "binpack";
  bool claimPolicies = false;                 ///< claims can choose other policies
  int64_t memoryWeight = kUsualMemoryWeight;  ///< Request::memoryWeight
  Split split = Split::none;
  int64_t memoryUnit = kGiB;        ///< unit of a number without suffix, in bytes
  int64_t coreOvercommit = 1000;    ///< thousandths, at least 1000
  int64_t memoryOvercommit = 1000;  ///< thousandths, at least 1000
  int64_t maxClaimsPerCard = 0;     ///< 0 = no limit
  int64_t maxClaimsPerNode = 0;     ///< 0 = no limit
  std::vector<std::string> models;  ///< empty = any
  int64_t minMemory = 0;            ///< bytes of a card; 0 = any
};

/// Reads the core's parameters; others belong to the provisioner. Appends all refusals, in the order of the keys, then
/// those of combinations.
Parameters readParameters(const v1alpha::ElasticGPUClass& cls, std::vector<Refusal>& refusals);

/// Applies the policies that a claim chooses instead of its class's. Returns a refusal with the annotation if the class
/// does not allow it or the policy is unknown.
std::optional<Refusal> readClaimPolicies(const v1alpha::ElasticGPUClaim& claim, Parameters& parameters);

/// Reads a whole number from 1 to max. On an error returns nullopt and sets a refusal for `field`.
std::optional<int64_t> readCount(std::string_view field, std::string_view text, int64_t max, Refusal& refusal);
/// Reads a number above 0 and at most max, with up to three decimals; returns its thousandths. Errors as in
/// readCount().
std::optional<int64_t> readMilli(std::string_view field, std::string_view text, int64_t max, Refusal& refusal);
/// Reads an amount of memory in bytes; a number without suffix is in units of `unit`. Errors as in readCount().
std::optional<int64_t> readMemory(std::string_view field, std::string_view text, int64_t unit, Refusal& refusal);

}  // namespace egpu::scheduler
