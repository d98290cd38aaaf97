// A pod's JSON as admission reads and edits it: resourceClaims and a scheduling gate are added; amounts of
// elasticgpu.io among its own resources and its containers' are found.
#pragma once

#include <optional>
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

/// Amounts of elasticgpu.io, or of a name under it, in one list of resources.
struct OwnAmounts {
  std::string container;                                     ///< empty: the pod's
  std::string list;                                          ///< resources.limits, resources.requests or overhead
  std::vector<std::pair<std::string, std::string>> amounts;  ///< key → value as written, ordered by key
};
/// The first: of containers before those of the pod, limits before requests, init containers before the others. None
/// also for JSON that is no pod.
std::optional<OwnAmounts> ownAmounts(std::string_view podJson);

}  // namespace egpu::codec
