// Node of a compiled schema. Private to schema*.cpp.
#pragma once

#include <re2/re2.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {

struct SchemaNode {
  enum class Type { any, object, array, string, integer, number, boolean };
  enum class Format { none, int32, int64, dateTime, quantity };
  enum class ListType { atomic, set, map };

  Type type = Type::any;
  Format format = Format::none;
  ListType listType = ListType::atomic;
  bool nullable = false;
  bool intOrString = false;
  bool preserveUnknown = false;
  bool exclusiveMinimum = false, exclusiveMaximum = false;
  std::optional<nlohmann::json> defaultValue;
  std::vector<std::string> required;
  std::vector<nlohmann::json> enumeration;
  std::optional<nlohmann::json> minimum, maximum;
  std::optional<int64_t> minLength, maxLength, minItems, maxItems, minProperties, maxProperties;
  std::unique_ptr<re2::RE2> pattern;
  std::vector<std::string> listMapKeys;
  std::map<std::string, std::unique_ptr<SchemaNode>, std::less<>> properties;
  std::unique_ptr<SchemaNode> additional;  ///< additionalProperties
  std::unique_ptr<SchemaNode> items;
};

/// Compiles a schema. Returns null and sets `error` if a keyword is unknown or malformed. `path` is for messages.
std::unique_ptr<SchemaNode> compileNode(const nlohmann::json& schema, const std::string& path, std::string& error);

}  // namespace egpu::apiserver
