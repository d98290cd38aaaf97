// Amounts that quotas count, in the ledger's unit: the charged amounts. Standard library only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace egpu::scheduler {

enum class QuotaKey : uint8_t { gpu, core, memory, tflops, claims, instances };
inline constexpr std::size_t kQuotaKeys = static_cast<std::size_t>(QuotaKey::instances) + 1;

/// By QuotaKey: cards (once per claim with a part of the card), milli-cards, bytes, thousandths of a TFLOPS, claims,
/// MIG instances.
using QuotaAmounts = std::array<int64_t, kQuotaKeys>;
/// Usage of a quota object: by the profile that limits name (Quota::profile), "" for the limits without one.
using QuotaUsage = std::map<std::string, QuotaAmounts, std::less<>>;
/// nullopt = no limit.
using QuotaLimits = std::array<std::optional<int64_t>, kQuotaKeys>;

/// Remaining quota of a claim for cards of these models; empty = all models.
struct RemainingQuota {
  std::vector<std::string> models;
  QuotaLimits left;       ///< negative if a quota was lowered below its usage
  std::string profile{};  ///< only requests for MIG instances of this profile (a key) are limited; empty = all requests
  bool operator==(const RemainingQuota&) const = default;
};

}  // namespace egpu::scheduler
