#include "controller/codec/pod_claims.h"

#include <nlohmann/json.hpp>

namespace egpu::codec {

using base::Code;
using base::Status;
using nlohmann::json;

namespace {

bool isList(const json& parent, const char* key) { return parent.contains(key) && parent[key].is_array(); }

/// An entry of `list` whose name is `name`, or null.
const json* named(const json& list, const std::string& name) {
  for (const auto& e : list)
    if (e.is_object() && e.value("name", json()) == name) return &e;
  return nullptr;
}

void claimInContainer(json& container, const std::string& name) {
  auto& resources = container["resources"];
  if (!resources.is_object()) resources = json::object();
  auto& claims = resources["claims"];
  if (!claims.is_array()) claims = json::array();
  if (named(claims, name) == nullptr) claims.push_back({{"name", name}});
}

}  // namespace

base::Result<std::string> withResourceClaims(std::string_view podJson,
                                             const std::vector<std::pair<std::string, std::string>>& claims,
                                             std::string_view gate) {
  json pod = json::parse(podJson, nullptr, false);
  if (!pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object())
    return Status(Code::malformed, "not a pod");
  json& spec = pod["spec"];
  if (!isList(spec, "resourceClaims")) spec["resourceClaims"] = json::array();
  for (const auto& [name, claim] : claims) {
    if (const json* other = named(spec["resourceClaims"], name)) {
      if (other->value("resourceClaimName", json()) != claim)
        return Status(Code::invalid, "spec.resourceClaims: \"" + name +
                                         "\" already stands for something else than the claim \"" + claim +
                                         "\" of the annotation of that name");
    } else {
      spec["resourceClaims"].push_back({{"name", name}, {"resourceClaimName", claim}});
    }
    bool found = false;
    for (const char* list : {"initContainers", "containers"})
      if (isList(spec, list))
        for (auto& c : spec[list])
          if (c.is_object() && c.value("name", json()) == name) {
            claimInContainer(c, name);
            found = true;
          }
    if (found) continue;
    for (const char* list : {"initContainers", "containers"})
      if (isList(spec, list))
        for (auto& c : spec[list])
          if (c.is_object()) claimInContainer(c, name);
  }
  if (gate.empty()) return pod.dump();
  if (!isList(spec, "schedulingGates")) spec["schedulingGates"] = json::array();
  if (named(spec["schedulingGates"], std::string(gate)) == nullptr) spec["schedulingGates"].push_back({{"name", gate}});
  return pod.dump();
}

}  // namespace egpu::codec
