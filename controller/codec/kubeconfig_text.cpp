#include "controller/codec/kubeconfig_text.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "controller/codec/codec.h"
#include "controller/codec/yaml_text.h"

namespace egpu::codec {

namespace {

using base::Code;
using base::Status;
using OrderedJson = nlohmann::ordered_json;

/// Returns the object `field` of the entry `name` in root[list]. Adds the entry and the object if they are missing.
OrderedJson& entryOf(OrderedJson& root, const char* list, const std::string& name, const char* field) {
  OrderedJson& all = root[list];
  for (OrderedJson& each : all)
    if (each.is_object() && each.value("name", OrderedJson()) == name) {
      if (!each[field].is_object()) each[field] = OrderedJson::object();
      return each[field];
    }
  all.push_back({{"name", name}, {field, OrderedJson::object()}});
  return all.back()[field];
}

Status invalid(const std::string& what) { return {Code::invalid, what + ": it is not changed"}; }

}  // namespace

base::Result<MergedKubeconfig> mergeKubeconfig(std::string_view yaml, const std::string& name,
                                               const std::string& server) {
  const auto json = yamlToJson(yaml);
  if (!json) return invalid("is not a kubeconfig (" + json.status().message() + ")");
  OrderedJson root = OrderedJson::parse(*json, nullptr, false);
  if (root.is_null()) root = {{"apiVersion", "v1"}, {"kind", "Config"}};
  if (!root.is_object()) return invalid("is not a kubeconfig (it holds no mapping)");
  bool any = root.empty();
  for (const char* field : {"kind", "clusters", "contexts", "users", "current-context", "preferences"})
    any = any || root.contains(field);
  if (!any) return invalid("is not a kubeconfig (it has neither clusters nor contexts nor users)");
  for (const auto& [key, expected] : {std::pair{"kind", "Config"}, {"apiVersion", "v1"}}) {
    if (!root.contains(key)) root[key] = expected;
    if (root[key] != expected) return invalid(std::string("is not a kubeconfig (") + key + " is not " + expected + ")");
  }
  for (const char* list : {"clusters", "contexts", "users"}) {
    if (!root.contains(list) || root[list].is_null()) root[list] = OrderedJson::array();
    if (!root[list].is_array()) return invalid(std::string("is not a kubeconfig (") + list + " is not a list)");
  }
  entryOf(root, "clusters", name, "cluster")["server"] = server;
  entryOf(root, "users", name, "user");
  OrderedJson& context = entryOf(root, "contexts", name, "context");
  context["cluster"] = name;
  context["user"] = name;
  OrderedJson& current = root["current-context"];
  if (!current.is_string() || current.get_ref<const std::string&>().empty()) current = name;
  return MergedKubeconfig{jsonToYaml(root.dump()), current.get<std::string>()};
}

}  // namespace egpu::codec
