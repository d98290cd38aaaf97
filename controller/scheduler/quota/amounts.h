// Amounts that quotas count, in the ledger's unit: the charged amounts. Standard library only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace egpu::scheduler {

enum class QuotaKey : uint8_t { gpu, core, memory, tflops, claims };
inline constexpr std::size_t kQuotaKeys = static_cast<std::size_t>(QuotaKey::claims) + 1;

/// By QuotaKey: cards (once per claim with a part of the card), milli-cards, bytes, thousandths of a TFLOPS, claims.
using QuotaAmounts = std::array<int64_t, kQuotaKeys>;
/// nullopt = no limit.
using QuotaLimits = std::array<std::optional<int64_t>, kQuotaKeys>;

/// Remaining quota of a claim for cards of these models; empty = all models.
struct RemainingQuota {
  std::vector<std::string> models;
  QuotaLimits left;  ///< negative if a quota was lowered below its usage
  bool operator==(const RemainingQuota&) const = default;
};

}  // namespace egpu::scheduler
