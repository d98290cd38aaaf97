// Formats usage for people, and decides when a usage update is worth a write. Standard library only.
#pragma once

#include <cstdint>
#include <string>

#include "api/v1alpha/quantity.h"

namespace egpu::v1alpha {

/// True if the change justifies a write: at least a twentieth of the whole, or a change from or to zero or unknown
/// (-1). All three values have the same unit; `whole` is at most 2⁵⁸.
inline bool movedNoticeably(int64_t before, int64_t after, int64_t whole) {
  if (before == after) return false;
  if (before <= 0 || after <= 0) return true;
  return (before < after ? after - before : before - after) * 20 >= whole;
}

/// "35%" of one card's time; "" if unknown (-1).
inline std::string coreUsageText(int64_t smPercent) {
  return smPercent < 0 ? std::string() : formatMilliCards(smPercent * 10);
}
/// "3.1Gi", rounded to one decimal; "" if unknown (-1).
inline std::string memoryUsageText(int64_t bytes) {
  constexpr int64_t kFew = 10'000;
  if (bytes < kFew) return bytes < 0 ? std::string() : readableBytes(bytes);
  return readableBytes(bytes | 1);  // an odd number has no short exact form such as 3172Mi, so it is rounded
}
/// "35%, 3.1Gi"; unknown parts are omitted.
inline std::string usageText(int64_t smPercent, int64_t bytes) {
  const auto core = coreUsageText(smPercent), memory = memoryUsageText(bytes);
  return core + (core.empty() || memory.empty() ? "" : ", ") + memory;
}

}  // namespace egpu::v1alpha
