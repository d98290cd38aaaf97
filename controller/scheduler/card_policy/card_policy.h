// The card tier: which of the fitting cards of the chosen node are given. Equal score: lower index first, then uuid.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace egpu::scheduler {

struct CardPolicy {
  std::string_view name;
  /// Higher is preferred. fill: fill.h, 0 … 2,000,000, before the request is placed.
  int64_t (*score)(int64_t fill);
};

/// Null if there is no such policy.
const CardPolicy* findCardPolicy(std::string_view name);
/// All names, sorted.
std::vector<std::string_view> cardPolicyNames();

}  // namespace egpu::scheduler
