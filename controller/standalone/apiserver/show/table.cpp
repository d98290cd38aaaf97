#include "controller/standalone/apiserver/show/table.h"

#include <cmath>
#include <utility>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/show/table_builtin.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

std::string plainText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the value of one printer column; null = an empty cell.
Json customCell(const PrinterColumn& column, const Json& object, int64_t now) {
  const auto found = evaluateJsonPath(object, column.jsonPath);
  if (found.empty() || found[0].is_null()) return nullptr;
  const Json& value = found[0];
  if (column.type == "string") {
    std::string all;
    for (const auto& v : found) all += (all.empty() ? "" : " ") + plainText(v);
    return all;
  }
  if (column.type == "integer") {
    if (value.is_number_float()) {
      const double d = value.get<double>();
      return std::abs(d) < 9e18 ? Json(static_cast<int64_t>(d)) : Json();
    }
    return value.is_number() ? value : Json();
  }
  if (column.type == "number") return value.is_number() ? value : Json();
  if (column.type == "boolean") return value.is_boolean() ? value : Json();
  if (column.type == "date") {
    if (!value.is_string()) return nullptr;
    return ageSince(value.get_ref<const std::string&>(), now).value_or("<invalid>");
  }
  return nullptr;
}

Json columnDefinition(const std::string& name, const std::string& type, const std::string& format,
                      const std::string& description, int priority) {
  return {{"name", name}, {"type", type}, {"format", format}, {"description", description}, {"priority", priority}};
}

Json columnDefinitions(const Resource& resource, const BuiltinTable* builtin) {
  Json columns = Json::array();
  if (builtin) {
    for (const auto& c : builtin->columns)
      columns.push_back(columnDefinition(c.name, c.type, std::string_view(c.name) == "Name" ? "name" : "",
                                         c.description, c.priority));
    return columns;
  }
  columns.push_back(columnDefinition("Name", "string", "name", "Unique within a namespace.", 0));
  for (const auto& c : resource.columns)
    columns.push_back(columnDefinition(c.name, c.type, c.format, c.description, c.priority));
  return columns;
}

}  // namespace

std::optional<std::string> tableVersion(std::string_view accept) {
  // Clients list the preferred media type first. The first supported one decides.
  while (!accept.empty()) {
    const size_t comma = accept.find(',');
    std::string_view one = base::trimmed(accept.substr(0, comma));
    accept = comma == std::string_view::npos ? std::string_view() : accept.substr(comma + 1);
    const size_t semicolon = one.find(';');
    const std::string_view media = base::trimmed(one.substr(0, semicolon));
    if (media != "application/json" && media != "*/*" && media != "application/*") continue;
    std::string_view as, group, version;
    for (std::string_view rest = semicolon == std::string_view::npos ? std::string_view() : one.substr(semicolon + 1);
         !rest.empty();) {
      const size_t end = rest.find(';');
      const std::string_view parameter = base::trimmed(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      if (parameter.substr(0, 3) == "as=") as = parameter.substr(3);
      if (parameter.substr(0, 2) == "g=") group = parameter.substr(2);
      if (parameter.substr(0, 2) == "v=") version = parameter.substr(2);
    }
    if (as.empty()) return std::nullopt;
    if (as == "Table" && group == "meta.k8s.io" && (version == "v1" || version == "v1beta1"))
      return std::string(version);
  }
  return std::nullopt;
}

std::optional<IncludeObject> parseIncludeObject(std::string_view text) {
  if (text.empty() || text == "Metadata") return IncludeObject::metadata;
  if (text == "Object") return IncludeObject::object;
  if (text == "None") return IncludeObject::none;
  return std::nullopt;
}

std::string tableText(const Resource& resource, const std::vector<const Json*>& items, const Json& listMeta,
                      const TableOptions& options) {
  const BuiltinTable* builtin = builtinTable(resource);
  const std::string apiVersion = "meta.k8s.io/" + options.version;
  const Json head = {{"kind", "Table"},
                     {"apiVersion", apiVersion},
                     {"metadata", listMeta.is_object() ? listMeta : Json::object()},
                     {"columnDefinitions", options.columns ? columnDefinitions(resource, builtin) : Json(nullptr)}};
  const std::string metadataHead =
      R"(,"object":{"kind":"PartialObjectMetadata","apiVersion":)" + Json(apiVersion).dump() + R"(,"metadata":)";
  std::string text = head.dump();
  text.pop_back();
  text += R"(,"rows":[)";
  bool first = true;
  for (const Json* item : items) {
    Json cells = Json::array();
    if (builtin) {
      for (auto& cell : builtin->cells(*item, options.now)) cells.push_back(std::move(cell));
    } else {
      cells.push_back(textAt(*item, {"metadata", "name"}));
      for (const auto& column : resource.columns) cells.push_back(customCell(column, *item, options.now));
    }
    text += first ? R"({"cells":)" : R"(,{"cells":)";
    first = false;
    text += cells.dump();
    if (options.include == IncludeObject::object) text += R"(,"object":)" + item->dump();
    if (options.include == IncludeObject::metadata) text += metadataHead + at(*item, {"metadata"}).dump() + "}";
    text += "}";
  }
  return text += "]}";
}

}  // namespace egpu::apiserver
