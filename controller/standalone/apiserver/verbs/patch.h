// Three patch types: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

inline constexpr std::string_view kJsonPatch = "application/json-patch+json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kStrategicMergePatch = "application/strategic-merge-patch+json";
inline constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";

inline constexpr size_t kMaxPatchOperations = 10000;               ///< the limit of a real API server
inline constexpr size_t kMaxPatchBytes = size_t{3} * 1024 * 1024;  ///< the request limit of a real API server

/// Returns `current` with the patch applied. `contentType` may have parameters. Failures have http and reason as in a
/// Status: 415 UnsupportedMediaType (server-side apply, or a type that this kind does not support), 400 BadRequest (the
/// body is not a patch), 413 RequestEntityTooLarge (limits), 422 Invalid (a JSON patch that can't be applied).
base::Result<nlohmann::json> applyPatch(const Resource& resource, std::string_view contentType,
                                        const nlohmann::json& current, std::string_view body);

/// Applies a JSON patch (RFC 6902): all operations or none.
base::Result<nlohmann::json> jsonPatch(const nlohmann::json& current, const nlohmann::json& operations);
/// Applies a strategic merge patch. Strategies and merge keys are in `schema`: x-kubernetes-patch-strategy (merge,
/// replace, retainKeys) and x-kubernetes-patch-merge-key. Supports $patch (replace, delete, merge),
/// $deleteFromPrimitiveList, $setElementOrder and $retainKeys.
base::Result<nlohmann::json> strategicMergePatch(const nlohmann::json& current, const nlohmann::json& patch,
                                                 const nlohmann::json& schema);

}  // namespace egpu::apiserver
