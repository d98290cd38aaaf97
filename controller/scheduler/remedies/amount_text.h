// Amounts of memory in texts for people, who read a bare number as GiB: always with a suffix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "api/v1alpha/quantity.h"

namespace egpu::scheduler {

/// Exact if it is whole KiB, else up to the next MiB: what must be free, so that this much suffices.
inline std::string atLeastText(int64_t bytes) {
  constexpr int64_t kKi = 1024, kMi = kKi * 1024;
  bytes = std::max<int64_t>(bytes, 0);
  return v1alpha::formatBytes(bytes % kKi == 0 ? bytes : (bytes / kMi + 1) * kMi);
}

/// Exact if it is whole KiB, else down to the MiB, below the first MiB to the KiB: what there is.
inline std::string atMostText(int64_t bytes) {
  constexpr int64_t kKi = 1024, kMi = kKi * 1024;
  bytes = std::max<int64_t>(bytes, 0);
  const int64_t unit = bytes % kKi == 0 ? 1 : bytes < kMi ? kKi : kMi;
  return v1alpha::formatBytes(bytes / unit * unit);
}

}  // namespace egpu::scheduler
