// What is used, for people: how it is told, and when anew. Standard library only.
#pragma once

#include <cstdint>
#include <string>

#include "api/v1alpha/quantity.h"

namespace egpu::v1alpha {

/// Whether an amount moved so that its object is written anew: by a twentieth of the whole, or to or from nothing or the
/// unknown (-1). All three in one unit, whole at most 2⁵⁸.
inline bool movedNoticeably(int64_t before, int64_t after, int64_t whole) {
  if (before == after) return false;
  if (before <= 0 || after <= 0) return true;
  return (before < after ? after - before : before - after) * 20 >= whole;
}

/// "35%", of one card's time; "" for the unknown (-1).
inline std::string coreUsageText(int64_t smPercent) {
  return smPercent < 0 ? std::string() : formatMilliCards(smPercent * 10);
}
/// "3.1Gi", rounded to one place; "" for the unknown (-1).
inline std::string memoryUsageText(int64_t bytes) {
  constexpr int64_t kFew = 10'000;
  if (bytes < kFew) return bytes < 0 ? std::string() : readableBytes(bytes);
  return readableBytes(bytes | 1);  // what is odd is never short enough to be told exactly, as 3172Mi
}
/// "35%, 3.1Gi", as far as it is known.
inline std::string usageText(int64_t smPercent, int64_t bytes) {
  const auto core = coreUsageText(smPercent), memory = memoryUsageText(bytes);
  return core + (core.empty() || memory.empty() ? "" : ", ") + memory;
}

}  // namespace egpu::v1alpha
