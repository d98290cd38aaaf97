// The class parameters the core knows, read into integers. Internal to scheduler/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

inline constexpr int64_t kMilliPerPercent = 10;  ///< of a card
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;
/// What no card or node has: anything above is a slip of the keyboard, and refusing it here keeps every later sum
/// within 63 bits.
inline constexpr int64_t kMaxMemory = int64_t{1} << 50;
inline constexpr int64_t kMaxCards = 1024;
inline constexpr int64_t kMaxTflops = 1'000'000'000;
inline constexpr int64_t kMaxOvercommit = 1'000'000;

struct Parameters {
  std::string nodePolicy = "binpack";
  std::string cardPolicy = "binpack";
  bool claimPolicies = false;                 ///< claims may choose other policies
  int64_t memoryWeight = kUsualMemoryWeight;  ///< Request::memoryWeight
  Split split = Split::none;
  int64_t memoryUnit = kGiB;  ///< bytes that a bare integer counts
  int64_t coreOvercommit = 1000;
  int64_t memoryOvercommit = 1000;
  int64_t maxClaimsPerCard = 0;
  int64_t maxClaimsPerNode = 0;
  std::vector<std::string> models;
  int64_t minMemory = 0;
};

/// Reads what the core knows; the rest is the provisioner's. Every refusal is appended, in the order of the keys,
/// then what is wrong with several of them together.
Parameters readParameters(const v1alpha::ElasticGPUClass& cls, std::vector<Refusal>& refusals);

/// The policies that a claim chooses by itself, in place of its class's. A refusal: the class doesn't let it, or there
/// is no such policy; names the annotation.
std::optional<Refusal> readClaimPolicies(const v1alpha::ElasticGPUClaim& claim, Parameters& parameters);

/// A whole number from 1 to max: its value, or nothing and a refusal for that field.
std::optional<int64_t> readCount(std::string_view field, std::string_view text, int64_t max, Refusal& refusal);
/// A number of up to three decimals, above 0 and at most max: its thousandths. Likewise.
std::optional<int64_t> readMilli(std::string_view field, std::string_view text, int64_t max, Refusal& refusal);
/// An amount of memory in bytes; a bare integer counts units. Likewise.
std::optional<int64_t> readMemory(std::string_view field, std::string_view text, int64_t unit, Refusal& refusal);

}  // namespace egpu::scheduler
