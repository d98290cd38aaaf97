// A pod's JSON with resourceClaims and a scheduling gate added: the edit that admission makes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

/// claims: name → ResourceClaim name. Each becomes a spec.resourceClaims entry and a resources.claims entry of the
/// container of that name, or of every container; init containers count as containers. Everything else of the pod is
/// kept as it is. An empty gate adds none. Code::invalid if a name is already taken by another resource claim of the
/// pod; Code::malformed if the JSON is no pod.
base::Result<std::string> withResourceClaims(std::string_view podJson,
                                             const std::vector<std::pair<std::string, std::string>>& claims,
                                             std::string_view gate);

}  // namespace egpu::codec
