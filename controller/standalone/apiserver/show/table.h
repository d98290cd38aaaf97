// meta.k8s.io Tables: what `kubectl get` prints. CRD columns by JSONPath, built-in columns as kubectl's own printers
// had them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// What of each object comes along with its row.
enum class IncludeObject { metadata, object, none };

/// The Table version ("v1" or "v1beta1") if `accept` prefers a Table over plain JSON; nullopt = plain.
std::optional<std::string> tableVersion(std::string_view accept);
/// The query parameter includeObject; absent or empty = metadata. nullopt = not a known word (400).
std::optional<IncludeObject> parseIncludeObject(std::string_view text);

struct TableOptions {
  std::string version = "v1";  ///< of meta.k8s.io
  IncludeObject include = IncludeObject::metadata;
  bool columns = true;  ///< columnDefinitions; a watch sends them only in its first table
  int64_t now = 0;      ///< Unix seconds, for ages
};

/// A Table of `items`; `listMeta` becomes its metadata (resourceVersion, continue, remainingItemCount).
nlohmann::json makeTable(const Resource& resource, const std::vector<const nlohmann::json*>& items,
                         const nlohmann::json& listMeta, const TableOptions& options);

/// The values a printer column's JSONPath names: ".spec.x", ".status.conditions[?(@.type==\"Ready\")].status",
/// ".metadata.labels.a\.b/c", "[0]", "[*]". A path that can't be understood or matches nothing gives none.
std::vector<nlohmann::json> evaluateJsonPath(const nlohmann::json& object, std::string_view path);

/// "5s", "3m20s", "2h", "4d3h", … as kubectl prints durations; "<invalid>" for times ahead by more than a second or
/// two.
std::string humanDuration(int64_t seconds);
/// So long ago was an RFC 3339 time; nullopt if that is none. now: Unix seconds.
std::optional<std::string> ageSince(std::string_view timestamp, int64_t now);

}  // namespace egpu::apiserver
