// The class parameters that the core evaluates. They are never passed to a plugin.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace egpu::v1alpha {

inline constexpr std::array<std::string_view, 19> kCoreParameters{
    "preset",           "nodePolicy",       "cardPolicy",       "split",        "memoryUnit",    "coreOvercommit",
    "memoryOvercommit", "maxClaimsPerCard", "maxClaimsPerNode", "model",        "minMemory",     "static",
    "hostPaths",        "preemptible",      "memoryWeight",     "tflopsWeight", "claimPolicies", "movable",
    "resizable"};

inline bool isCoreParameter(std::string_view name) {
  return std::find(kCoreParameters.begin(), kCoreParameters.end(), name) != kCoreParameters.end();
}

}  // namespace egpu::v1alpha
