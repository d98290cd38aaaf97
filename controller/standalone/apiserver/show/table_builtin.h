// Columns of the built-in kinds, as kubectl's printers have them. Private to table*.cpp.
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
  int priority;  ///< 1 = with -o wide only
};
struct BuiltinTable {
  std::vector<BuiltinColumn> columns;
  std::vector<nlohmann::json> (*cells)(const nlohmann::json& object, int64_t now);
};

/// Null for kinds without columns of their own (custom ones).
const BuiltinTable* builtinTable(const Resource& resource);

/// metadata.creationTimestamp as an age; "<unknown>" without one.
std::string ageOf(const nlohmann::json& object, int64_t now);
std::string ageOfTime(std::string_view timestamp, int64_t now);
/// The value at a path of object keys; null if there is none.
const nlohmann::json& at(const nlohmann::json& object, std::initializer_list<const char*> path);
std::string textAt(const nlohmann::json& object, std::initializer_list<const char*> path);

}  // namespace egpu::apiserver
