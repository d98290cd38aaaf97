#include "controller/codec/pod_claims.h"

#include <nlohmann/json.hpp>

#include "api/v1alpha/keys.h"

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

/// Whether a resource's name is under elasticgpu.io or a domain that ends in it.
bool isElasticGpu(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return false;
  const auto domain = key.substr(0, slash);
  const auto group = v1alpha::keys::kGroup;
  if (domain == group) return true;
  return domain.size() > group.size() + 1 && domain.substr(domain.size() - group.size()) == group &&
         domain[domain.size() - group.size() - 1] == '.';
}

/// Of parent.list, or none.
std::vector<std::pair<std::string, std::string>> elasticGpuAmounts(const json& parent, const char* list) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!parent.is_object()) return out;
  const auto amounts = parent.find(list);
  if (amounts == parent.end() || !amounts->is_object()) return out;
  for (const auto& [key, value] : amounts->items())
    if (isElasticGpu(key)) out.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return out;
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

std::optional<OwnAmounts> ownAmounts(std::string_view podJson) {
  const json pod = json::parse(podJson, nullptr, false);
  if (!pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object()) return std::nullopt;
  const json& spec = pod["spec"];
  const auto resources = [](const json& of) { return of.is_object() ? of.value("resources", json()) : json(); };
  for (const char* list : {"limits", "requests"})
    for (const char* containers : {"initContainers", "containers"})
      if (isList(spec, containers))
        for (const auto& c : spec[containers])
          if (auto amounts = elasticGpuAmounts(resources(c), list); !amounts.empty()) {
            const json name = c.value("name", json());
            return OwnAmounts{name.is_string() ? name.get<std::string>() : "", std::string("resources.") + list,
                              std::move(amounts)};
          }
  for (const char* list : {"limits", "requests"})
    if (auto amounts = elasticGpuAmounts(resources(spec), list); !amounts.empty())
      return OwnAmounts{"", std::string("resources.") + list, std::move(amounts)};
  if (auto amounts = elasticGpuAmounts(spec, "overhead"); !amounts.empty())
    return OwnAmounts{"", "overhead", std::move(amounts)};
  return std::nullopt;
}

}  // namespace egpu::codec
