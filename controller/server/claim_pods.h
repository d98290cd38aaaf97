// Maps each claim to the pods that use it, for the allocation map.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/cache/stores.h"

namespace egpu::server {

/// Claim → its pods that have not ended, sorted by name; both as "namespace/name".
using ClaimPods = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Returns the pods of each claim in the map.
ClaimPods podsOf(const allocator::AllocationMap& map, const cache::Stores& stores);

}  // namespace egpu::server
