// Columns of the built-in kinds, the same as in kubectl's printers. Private to table*.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

struct BuiltinColumn {
  const char* name;
  const char* type;
  const char* description;
  int priority;  ///< 1 = only with -o wide
};
struct BuiltinTable {
  std::vector<BuiltinColumn> columns;
  std::vector<nlohmann::json> (*cells)(const nlohmann::json& object, int64_t now);
};

/// Returns the columns of a kind, or null for custom kinds.
const BuiltinTable* builtinTable(const Resource& resource);

/// Returns the age by metadata.creationTimestamp, or "<unknown>" without one.
std::string ageOf(const nlohmann::json& object, int64_t now);
std::string ageOfTime(std::string_view timestamp, int64_t now);
/// Returns the value at a path of object keys, or null if there is none.
const nlohmann::json& at(const nlohmann::json& object, std::initializer_list<const char*> path);
std::string textAt(const nlohmann::json& object, std::initializer_list<const char*> path);

}  // namespace egpu::apiserver
