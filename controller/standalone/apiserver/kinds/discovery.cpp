#include "controller/standalone/apiserver/kinds/discovery.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/kinds/unserved.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

// Kubernetes version with which this server is compatible. kubectl warns if the server's version differs from its own
// by more than one minor version.
constexpr std::string_view kVersion = "v1.34.0+elasticgpu-standalone";

const std::array<const char*, 8> kVerbs = {"create", "delete", "deletecollection", "get",
                                           "list",   "patch",  "update",           "watch"};
const std::array<const char*, 3> kStatusVerbs = {"get", "patch", "update"};

std::vector<std::string> groups(const ResourceTable& table) {
  std::vector<std::string> out;
  for (const auto& r : table.all())
    if (!r->group.empty() && std::find(out.begin(), out.end(), r->group) == out.end()) out.push_back(r->group);
  for (const auto& k : unservedKinds(table))
    if (!k.group.empty() && std::find(out.begin(), out.end(), k.group) == out.end()) out.emplace_back(k.group);
  return out;
}
// Returns the versions of a group. Those of its first resource come first, the preferred one at the front.
std::vector<std::string> versions(const ResourceTable& table, std::string_view group) {
  std::vector<std::string> out;
  for (const auto& r : table.all())
    if (r->group == group)
      for (const auto& v : r->versions)
        if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  for (const auto& k : unservedKinds(table))
    if (k.group == group && std::find(out.begin(), out.end(), k.version) == out.end()) out.emplace_back(k.version);
  return out;
}
std::string groupVersion(std::string_view group, std::string_view version) {
  return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
}

// Returns the kind of a subresource. "binding" and "eviction" of pods have other kinds than the resource.
std::string subresourceKind(const Resource& resource, const std::string& subresource) {
  return subresource == "binding" ? "Binding" : subresource == "eviction" ? "Eviction" : resource.kind;
}

/// Returns the unsupported kinds of one group and version.
std::vector<UnservedKind> unserved(const ResourceTable& table, std::string_view group, std::string_view version) {
  auto kinds = unservedKinds(table);
  std::erase_if(kinds, [&](const auto& k) { return k.group != group || k.version != version; });
  return kinds;
}

Json resourceList(const ResourceTable& table, std::string_view group, std::string_view version) {
  Json resources = Json::array();
  for (const auto& r : table.all()) {
    if (r->group != group || !r->serves(version)) continue;
    Json entry = {{"name", r->plural},
                  {"singularName", r->singular},
                  {"namespaced", r->namespaced},
                  {"kind", r->kind},
                  {"verbs", kVerbs}};
    if (!r->shortNames.empty()) entry["shortNames"] = r->shortNames;
    if (!r->categories.empty()) entry["categories"] = r->categories;
    resources.push_back(std::move(entry));
    if (r->hasStatus)
      resources.push_back({{"name", r->plural + "/status"},
                           {"singularName", ""},
                           {"namespaced", r->namespaced},
                           {"kind", r->kind},
                           {"verbs", kStatusVerbs}});
    for (const auto& s : r->subresources)
      resources.push_back({{"name", r->plural + "/" + s},
                           {"singularName", ""},
                           {"namespaced", r->namespaced},
                           {"kind", subresourceKind(*r, s)},
                           {"verbs", {"create"}}});
  }
  for (const auto& k : unserved(table, group, version)) {
    Json entry = {{"name", k.plural},
                  {"singularName", base::lowered(k.kind)},
                  {"namespaced", k.namespaced},
                  {"kind", k.kind},
                  {"verbs", Json::array()}};
    if (!k.shortName.empty()) entry["shortNames"] = {k.shortName};
    resources.push_back(std::move(entry));
  }
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", groupVersion(group, version)},
          {"resources", resources}};
}

Json group(const ResourceTable& table, const std::string& name) {
  Json all = Json::array();
  for (const auto& v : versions(table, name)) all.push_back({{"groupVersion", groupVersion(name, v)}, {"version", v}});
  const Json preferred = all.empty() ? Json() : all[0];
  return {{"name", name}, {"versions", std::move(all)}, {"preferredVersion", preferred}};
}

Json aggregatedVersion(const ResourceTable& table, std::string_view group, const std::string& version) {
  Json resources = Json::array();
  for (const auto& r : table.all()) {
    if (r->group != group || !r->serves(version)) continue;
    const Json kind = {{"group", r->group}, {"version", version}, {"kind", r->kind}};
    Json entry = {{"resource", r->plural},
                  {"responseKind", kind},
                  {"scope", r->namespaced ? "Namespaced" : "Cluster"},
                  {"singularResource", r->singular},
                  {"verbs", kVerbs}};
    if (!r->shortNames.empty()) entry["shortNames"] = r->shortNames;
    if (!r->categories.empty()) entry["categories"] = r->categories;
    Json subresources = Json::array();
    if (r->hasStatus)
      subresources.push_back({{"subresource", "status"}, {"responseKind", kind}, {"verbs", kStatusVerbs}});
    for (const auto& s : r->subresources) {
      Json other = kind;
      other["kind"] = subresourceKind(*r, s);
      subresources.push_back({{"subresource", s}, {"responseKind", other}, {"verbs", {"create"}}});
    }
    if (!subresources.empty()) entry["subresources"] = std::move(subresources);
    resources.push_back(std::move(entry));
  }
  for (const auto& k : unserved(table, group, version)) {
    Json entry = {{"resource", k.plural},
                  {"responseKind", {{"group", k.group}, {"version", version}, {"kind", k.kind}}},
                  {"scope", k.namespaced ? "Namespaced" : "Cluster"},
                  {"singularResource", base::lowered(k.kind)},
                  {"verbs", Json::array()}};
    if (!k.shortName.empty()) entry["shortNames"] = {k.shortName};
    resources.push_back(std::move(entry));
  }
  return {{"version", version}, {"freshness", "Current"}, {"resources", std::move(resources)}};
}

Json aggregated(const ResourceTable& table, const std::vector<std::string>& names, std::string_view version) {
  Json items = Json::array();
  for (const auto& name : names) {
    Json all = Json::array();
    for (const auto& v : versions(table, name)) all.push_back(aggregatedVersion(table, name, v));
    Json metadata = {{"creationTimestamp", nullptr}};
    if (!name.empty()) metadata["name"] = name;
    items.push_back({{"metadata", std::move(metadata)}, {"versions", std::move(all)}});
  }
  return {{"kind", "APIGroupDiscoveryList"},
          {"apiVersion", "apidiscovery.k8s.io/" + std::string(version)},
          {"metadata", Json::object()},
          {"items", std::move(items)}};
}

// Returns the requested version of aggregated discovery, "v2" or "v2beta1", or an empty string.
std::string aggregatedWanted(std::string_view accept) {
  const size_t form = accept.find("as=APIGroupDiscoveryList");
  if (form == std::string_view::npos) return {};
  for (std::string_view rest = accept; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (one.find("as=APIGroupDiscoveryList") == std::string_view::npos ||
        one.find("application/json") == std::string_view::npos)
      continue;
    if (one.find("v=v2beta1") != std::string_view::npos) return "v2beta1";
    if (one.find("v=v2") != std::string_view::npos) return "v2";
  }
  return {};
}

DiscoveryAnswer aggregatedAnswer(const ResourceTable& table, const std::vector<std::string>& names,
                                 const std::string& version) {
  return {aggregated(table, names, version),
          "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList"};
}

}  // namespace

std::optional<DiscoveryAnswer> discover(const ResourceTable& table, std::string_view path, std::string_view accept,
                                        std::string_view address) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::string form = aggregatedWanted(accept);
  if (path == "/version")
    return DiscoveryAnswer{{{"major", "1"},
                            {"minor", "34"},
                            {"gitVersion", kVersion},
                            {"gitCommit", ""},
                            {"gitTreeState", ""},
                            {"buildDate", ""},
                            {"goVersion", ""},
                            {"compiler", ""},
                            {"platform", "linux/amd64"}}};
  if (path == "/api") {
    if (!form.empty()) return aggregatedAnswer(table, {""}, form);
    return DiscoveryAnswer{
        {{"kind", "APIVersions"},
         {"versions", versions(table, "")},
         {"serverAddressByClientCIDRs", {{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", address}}}}}};
  }
  if (path == "/apis") {
    if (!form.empty()) return aggregatedAnswer(table, groups(table), form);
    Json all = Json::array();
    for (const auto& name : groups(table)) all.push_back(group(table, name));
    return DiscoveryAnswer{{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(all)}}};
  }
  std::string_view name, version;
  if (path.substr(0, 5) == "/api/") {
    version = path.substr(5);
  } else if (path.substr(0, 6) == "/apis/") {
    name = path.substr(6);
    if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
      version = name.substr(slash + 1);
      name = name.substr(0, slash);
    }
    if (name.empty()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  const auto served = versions(table, name);
  if (served.empty()) return std::nullopt;
  if (version.empty()) {
    Json body = group(table, std::string(name));
    body["kind"] = "APIGroup";
    body["apiVersion"] = "v1";
    return DiscoveryAnswer{std::move(body)};
  }
  if (std::find(served.begin(), served.end(), version) == served.end()) return std::nullopt;
  return DiscoveryAnswer{resourceList(table, name, version)};
}

}  // namespace egpu::apiserver
