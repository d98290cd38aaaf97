// Formats amounts of memory for people. Always with a suffix, because a number without one would be read as GiB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "api/v1alpha/quantity.h"

namespace egpu::scheduler {

/// Formats a required amount: exact if it is whole KiB, otherwise rounded up to the next MiB.
inline std::string atLeastText(int64_t bytes) {
  constexpr int64_t kKi = 1024, kMi = kKi * 1024;
  bytes = std::max<int64_t>(bytes, 0);
  return v1alpha::formatBytes(bytes % kKi == 0 ? bytes : (bytes / kMi + 1) * kMi);
}

/// Formats an available amount: exact if it is whole KiB, otherwise rounded down to a MiB, or to a KiB below 1 MiB.
inline std::string maxText(int64_t bytes) {
  constexpr int64_t kKi = 1024, kMi = kKi * 1024;
  bytes = std::max<int64_t>(bytes, 0);
  const int64_t unit = bytes % kKi == 0 ? 1 : bytes < kMi ? kKi : kMi;
  return v1alpha::formatBytes(bytes / unit * unit);
}

}  // namespace egpu::scheduler
