// Which pods use each claim, for the allocation map.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"

namespace egpu::server {

/// Claim → its pods that have not ended, in the order of their names; both as "namespace/name".
using ClaimPods = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Of the claims in the map.
ClaimPods podsOf(const cache::AllocationMap& map, const cache::Stores& stores);

}  // namespace egpu::server
