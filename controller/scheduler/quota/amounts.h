// What quotas count, in the ledger's unit: what is charged to cards. Standard library only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace egpu::scheduler {

enum class QuotaKey : uint8_t { gpu, core, memory, tflops, claims };
inline constexpr std::size_t kQuotaKeys = 5;

/// By QuotaKey: cards (each once per claim that has a part of it), milli-cards, bytes, thousandths of a TFLOPS, claims.
using QuotaAmounts = std::array<int64_t, kQuotaKeys>;
/// Nothing = no limit.
using QuotaLimits = std::array<std::optional<int64_t>, kQuotaKeys>;

/// What a claim may still have of cards of these models; empty = of all.
struct QuotaRoom {
  std::vector<std::string> models;
  QuotaLimits left;  ///< negative where a quota was lowered under what is used
  bool operator==(const QuotaRoom&) const = default;
};

}  // namespace egpu::scheduler
