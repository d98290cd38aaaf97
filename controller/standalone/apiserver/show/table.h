// meta.k8s.io Tables, which `kubectl get` prints. Columns of CRDs use JSONPath; columns of built-in kinds are those of
// kubectl's own printers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// Part of the object that each row contains.
enum class IncludeObject { metadata, object, none };

/// Returns the Table version ("v1" or "v1beta1") if `accept` prefers a Table over plain JSON, otherwise nullopt.
std::optional<std::string> tableVersion(std::string_view accept);
/// Parses the query parameter includeObject; empty = metadata. Returns nullopt for an unknown value (400).
std::optional<IncludeObject> parseIncludeObject(std::string_view text);

struct TableOptions {
  std::string version = "v1";  ///< version of meta.k8s.io
  IncludeObject include = IncludeObject::metadata;
  bool columns = true;  ///< columnDefinitions; a watch sends them only in its first table
  int64_t now = 0;      ///< Unix seconds, for ages
};

/// Returns a Table of `items` as JSON text, without a copy of the items. `listMeta` becomes its metadata
/// (resourceVersion, continue, remainingItemCount).
std::string tableText(const Resource& resource, const std::vector<const nlohmann::json*>& items,
                      const nlohmann::json& listMeta, const TableOptions& options);

/// Returns the values at the JSONPath of a printer column: ".spec.x",
/// ".status.conditions[?(@.type==\"Ready\")].status", ".metadata.labels.a\.b/c", "[0]", "[*]". Empty if the path can't
/// be parsed or matches nothing.
std::vector<nlohmann::json> evaluateJsonPath(const nlohmann::json& object, std::string_view path);

/// Formats a duration as kubectl does: "5s", "3m20s", "2h", "4d3h", …; "<invalid>" for times that are more than a
/// second in the future.
std::string humanDuration(int64_t seconds);
/// Returns the age of an RFC 3339 time, or nullopt if the text is not such a time. now: Unix seconds.
std::optional<std::string> ageSince(std::string_view timestamp, int64_t now);

}  // namespace egpu::apiserver
