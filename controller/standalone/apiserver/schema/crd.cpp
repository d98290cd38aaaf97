#include "controller/standalone/apiserver/schema/crd.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <tuple>
#include <utility>

#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/standalone/apiserver/schema/crd_texts.h"
#include "controller/standalone/apiserver/schema/schema.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

std::string text(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}
std::vector<std::string> texts(const Json& object, const char* key) {
  std::vector<std::string> out;
  if (auto it = object.find(key); it != object.end() && it->is_array())
    for (const auto& v : *it)
      if (v.is_string()) out.push_back(v.get<std::string>());
  return out;
}
const Json& member(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  auto it = object.find(key);
  return it == object.end() ? none : *it;
}

// Sort key for Kubernetes' order of versions: v2 > v1 > v1beta1 > v1alpha2 > v1alpha1 > all others by name.
std::tuple<int, int, int> rank(const std::string& version) {
  const char* at = version.data();
  const char* end = at + version.size();
  auto number = [&](int& into) {
    auto r = std::from_chars(at, end, into);
    const bool good = r.ec == std::errc() && into > 0;
    at = r.ptr;
    return good;
  };
  int major = 0, minor = 0;
  if (at == end || *at++ != 'v' || !number(major)) return {0, 0, 0};
  if (at == end) return {3, major, 0};
  const std::string_view rest(at, static_cast<size_t>(end - at));
  const int stage = rest.substr(0, 4) == "beta" ? 2 : rest.substr(0, 5) == "alpha" ? 1 : 0;
  if (stage == 0) return {0, 0, 0};
  at += stage == 2 ? 4 : 5;
  if (!number(minor) || at != end) return {0, 0, 0};
  return {stage, major, minor};
}
bool outranks(const std::string& a, const std::string& b) {
  const auto x = rank(a), y = rank(b);
  return x != y ? x > y : a < b;
}

std::vector<PrinterColumn> printerColumns(const Json& version) {
  std::vector<PrinterColumn> columns;
  const Json& list = member(version, "additionalPrinterColumns");
  for (const auto& c : list) {
    PrinterColumn column{text(c, "name"),        text(c, "type"),     text(c, "format"),
                         text(c, "description"), text(c, "jsonPath"), 0};
    if (const Json& p = member(c, "priority"); p.is_number_integer()) column.priority = p.get<int>();
    columns.push_back(std::move(column));
  }
  if (list.empty())
    columns.push_back({"Age", "date", "", "How long ago it was made.", ".metadata.creationTimestamp", 0});
  return columns;
}

// The following functions read one part of a CRD into `r`. Those that can fail return an error message or an empty
// string.
std::string readNames(const Json& spec, Resource& r) {
  const Json& names = member(spec, "names");
  r.group = text(spec, "group");
  r.kind = text(names, "kind");
  r.plural = text(names, "plural");
  if (r.kind.empty() || r.plural.empty()) return "spec.names needs kind and plural";
  r.listKind = text(names, "listKind").empty() ? r.kind + "List" : text(names, "listKind");
  r.singular = text(names, "singular");
  if (r.singular.empty()) r.singular = base::lowered(r.kind);
  r.shortNames = texts(names, "shortNames");
  r.categories = texts(names, "categories");
  const std::string scope = text(spec, "scope");
  if (scope != "Namespaced" && scope != "Cluster") return "spec.scope must be Namespaced or Cluster";
  r.namespaced = scope == "Namespaced";
  return {};
}

std::string readVersions(const Json& versions, Resource& r) {
  for (const auto& version : versions) {
    const std::string name = text(version, "name");
    if (name.empty()) return "a version has no name";
    if (member(version, "storage") == true) r.storageVersion = name;
    if (member(version, "served") == true) r.versions.push_back(name);
    const Json& first = versions.front();
    for (const char* same : {"schema", "additionalPrinterColumns", "subresources", "selectableFields"})
      if (member(version, same) != member(first, same))
        return "versions " + text(first, "name") + " and " + name + " differ in " + same + "; conversion is not served";
  }
  if (r.versions.empty()) return "no version is served";
  if (r.storageVersion.empty()) return "no version is stored";
  std::sort(r.versions.begin(), r.versions.end(), outranks);
  return {};
}

void readSubresources(const Json& version, Resource& r) {
  for (const auto& [name, value] : member(version, "subresources").items()) {
    if (name == "status")
      r.hasStatus = true;
    else
      r.subresources.push_back(name);
  }
  for (const auto& field : member(version, "selectableFields"))
    if (std::string path = text(field, "jsonPath"); path.size() > 1 && path[0] == '.')
      r.selectableFields.push_back(path.substr(1));
}

std::string readSchema(const Json& version, Resource& r) {
  r.schema = member(member(version, "schema"), "openAPIV3Schema");
  if (!r.schema.is_object()) return "schema.openAPIV3Schema is missing";
  auto compiled = Schema::compileObject(r.schema);
  if (!compiled.ok()) return compiled.status().message();
  r.compiled = *compiled;
  Json& properties = r.schema["properties"];
  for (const char* word : {"apiVersion", "kind"})
    if (!properties.contains(word)) properties[word] = {{"type", "string"}};
  if (!member(properties["apiVersion"], "description").is_string())
    properties["apiVersion"]["description"] = "Group and version of this form of the object.";
  if (!member(properties["kind"], "description").is_string()) properties["kind"]["description"] = "Kind of the object.";
  properties["metadata"] = objectMetaSchema();
  return {};
}

base::Result<Resource> convert(const Json& crd) {
  const auto bad = [&](const std::string& what) {
    return base::Status(base::Code::invalid,
                        "CustomResourceDefinition " + text(member(crd, "metadata"), "name") + ": " + what);
  };
  if (text(crd, "kind") != "CustomResourceDefinition") return bad("kind is not CustomResourceDefinition");
  const Json& spec = member(crd, "spec");
  const Json& versions = member(spec, "versions");
  Resource r;
  if (const auto wrong = readNames(spec, r); !wrong.empty()) return bad(wrong);
  if (const auto wrong = readVersions(versions, r); !wrong.empty()) return bad(wrong);
  const Json& first = versions.front();  // readVersions() has checked that the others are equal
  r.columns = printerColumns(first);
  readSubresources(first, r);
  if (const auto wrong = readSchema(first, r); !wrong.empty()) return bad(wrong);
  return r;
}

}  // namespace

base::Result<Resource> loadCrd(std::string_view yaml) {
  auto text = codec::yamlToJson(yaml);
  if (!text.ok()) return text.status();
  const Json crd = Json::parse(*text, nullptr, false);
  if (crd.is_discarded() || !crd.is_object() || !nestsWithin(crd))
    return base::Status(base::Code::invalid, "not a CustomResourceDefinition");
  auto resource = convert(crd);
  if (resource.ok()) resource->custom = true;
  return resource;
}

base::Status addCustomKinds(ResourceTable& table) {
  for (std::string_view text : crdTexts()) {
    auto resource = loadCrd(text);
    if (!resource.ok()) return resource.status();
    if (auto status = table.add(std::move(*resource)); !status.ok()) return status;
  }
  return {};
}

}  // namespace egpu::apiserver
