// Profiles of an A100, and instances of one profile, recovered from the slots that they have together.
#pragma once

#include <vector>

#include "api/v1alpha/mig.h"

namespace egpu::scheduler::mig::testing {

/// Profiles of an A100 of 40 GB, without those with media engines.
inline std::vector<v1alpha::MigProfile> a100() {
  const auto profile = [](const char* name, int64_t mib, int64_t compute, int64_t size, uint16_t starts) {
    v1alpha::MigProfile out;
    out.name = name;
    out.memory = mib << 20;
    out.compute = compute;
    out.size = size;
    out.starts = {starts};
    return out;
  };
  return {profile("1g.5gb", 4864, 1, 1, 0b1111111), profile("1g.10gb", 9856, 1, 2, 0b1010101),
          profile("2g.10gb", 9856, 2, 2, 0b10101),  profile("3g.20gb", 19968, 3, 4, 0b10001),
          profile("4g.20gb", 19968, 4, 4, 0b1),     profile("7g.40gb", 40192, 7, 8, 0b1)};
}

/// Returns the first memory slots of the instances in increasing order.
inline std::vector<unsigned> startsOf(const v1alpha::MigProfile& profile, v1alpha::Slots slots) {
  std::vector<unsigned> starts;
  for (unsigned start = 0; start < v1alpha::Slots::kMemory; ++start) {
    if (!slots.has(start)) continue;
    starts.push_back(start);
    slots = slots.without(profile.slotsFrom(start));
  }
  return starts;
}

}  // namespace egpu::scheduler::mig::testing
