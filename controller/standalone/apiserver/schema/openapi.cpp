#include "controller/standalone/apiserver/schema/openapi.h"

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "controller/standalone/apiserver/schema/schema.h"
#include "controller/standalone/apiserver/verbs/patch.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kProtoType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
constexpr const char* kObjectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
constexpr const char* kListMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

// Returns the name of a definition as on real servers: "io.elasticgpu.v1alpha.ElasticGPU", "io.k8s.api.core.v1.Pod".
std::string definitionName(const Resource& r, const std::string& version, const std::string& kind) {
  if (!r.custom) {
    const std::string group = r.group.empty() ? "core" : r.group.substr(0, r.group.find('.'));
    return "io.k8s.api." + group + "." + version + "." + kind;
  }
  std::string out;
  for (std::string_view rest = r.group; !rest.empty();) {
    const size_t dot = rest.rfind('.');
    out += std::string(rest.substr(dot == std::string_view::npos ? 0 : dot + 1)) + ".";
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(0, dot);
  }
  return out + version + "." + kind;
}

Json gvk(const Resource& r, const std::string& version, const std::string& kind) {
  return {{"group", r.group}, {"kind", kind}, {"version", version}};
}

// Converts a schema to Swagger 2, which can't express int-or-string, nullable and anyOf. An int-or-string field gets no
// type, so that clients pass any value to the server.
void toSwagger(Json& schema) {
  if (schema.value("x-kubernetes-int-or-string", false)) {
    schema = Json{{"description", schema.value("description", "")}, {"x-kubernetes-int-or-string", true}};
    return;
  }
  if (schema.value("nullable", false)) schema.erase("nullable");
  for (const char* key :
       {"x-kubernetes-validations", "anyOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
        "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "enum", "example"})
    schema.erase(key);
  if (auto it = schema.find("properties"); it != schema.end()) {
    if (schema.value("x-kubernetes-preserve-unknown-fields", false)) {
      // If properties were listed, clients would refuse all others.
      schema.erase("properties");
      schema.erase("required");
    } else {
      for (auto& sub : *it) toSwagger(sub);
    }
  }
  if (auto it = schema.find("items"); it != schema.end()) toSwagger(*it);
  if (auto it = schema.find("additionalProperties"); it != schema.end() && it->is_object()) toSwagger(*it);
}

Json listSchema(const Resource& r, const std::string& version, const std::string& refs) {
  return {{"type", "object"},
          {"description", r.kind + "List is a list of " + r.kind + "."},
          {"required", {"items"}},
          {"properties",
           {{"apiVersion", {{"type", "string"}, {"description", "Group and version."}}},
            {"kind", {{"type", "string"}, {"description", "Kind of the object."}}},
            {"metadata",
             {{"$ref", refs + kListMeta}, {"description", "Version of the list, and the token for the next page."}}},
            {"items",
             {{"type", "array"},
              {"description", "The objects."},
              {"items", {{"$ref", refs + definitionName(r, version, r.kind)}}}}}}},
          {"x-kubernetes-group-version-kind", Json::array({gvk(r, version, r.listKind)})}};
}

Json commonSchemas() {
  return {{kObjectMeta, objectMetaSchema()},
          {kListMeta,
           {{"type", "object"},
            {"description", "Metadata of a list."},
            {"properties",
             {{"resourceVersion", {{"type", "string"}, {"description", "The version that the list shows."}}},
              {"continue", {{"type", "string"}, {"description", "Token for the next page."}}},
              {"remainingItemCount",
               {{"type", "integer"}, {"format", "int64"}, {"description", "Number of objects after this page."}}},
              {"selfLink", {{"type", "string"}, {"description", "Not filled in any more."}}}}}}}};
}

// Adds the definitions of one version of a resource, with references that begin with `refs`.
void define(Json& definitions, const Resource& r, const std::string& version, const std::string& refs) {
  Json schema = r.schema;
  schema["properties"]["metadata"] = {{"$ref", refs + kObjectMeta}, {"description", "Standard object metadata."}};
  schema["x-kubernetes-group-version-kind"] = Json::array({gvk(r, version, r.kind)});
  definitions[definitionName(r, version, r.kind)] = std::move(schema);
  definitions[definitionName(r, version, r.listKind)] = listSchema(r, version, refs);
}

struct Parameter {
  const char* name;
  const char* description;
};
constexpr std::array<Parameter, 3> kWriteParameters = {
    {{"dryRun", "All: dry run, nothing is stored."},
     {"fieldManager", "Name of the client that writes."},
     {"fieldValidation", "Ignore, Warn or Strict: how unknown fields are handled."}}};

std::vector<std::string> patchTypes(const Resource& r) {
  std::vector<std::string> out{std::string(kJsonPatch), std::string(kMergePatch)};
  if (!r.custom) out.push_back(std::string(kStrategicMergePatch));
  return out;
}

using Operation = std::function<Json(const std::string& method)>;

void addPaths(Json& paths, const Resource& r, const std::string& version, const Operation& operation) {
  const std::string base = (r.group.empty() ? "/api/" : "/apis/" + r.group + "/") + version;
  const std::string collection = base + (r.namespaced ? "/namespaces/{namespace}/" : "/") + r.plural;
  if (r.namespaced) paths[base + "/" + r.plural] = {{"get", operation("get")}};
  paths[collection] = {{"get", operation("get")}, {"post", operation("post")}, {"delete", operation("delete")}};
  const Json single = {{"get", operation("get")},
                       {"put", operation("put")},
                       {"patch", operation("patch")},
                       {"delete", operation("delete")}};
  paths[collection + "/{name}"] = single;
  if (r.hasStatus) {
    Json status = single;
    status.erase("delete");
    paths[collection + "/{name}/status"] = std::move(status);
  }
}

Json actionOf(const std::string& method) { return method == "delete" ? "delete" : method; }

Json v2Document(const ResourceTable& table) {
  Json definitions = commonSchemas(), paths = Json::object();
  for (const auto& r : table.all())
    for (const auto& version : r->versions) {
      define(definitions, *r, version, "#/definitions/");
      addPaths(paths, *r, version, [&](const std::string& method) {
        Json o = {{"description", method + " " + r->kind},
                  {"operationId", method + r->kind + version},
                  {"produces", {"application/json"}},
                  {"consumes",
                   method == "patch" ? Json(patchTypes(*r)) : Json::array({"application/json", "application/yaml"})},
                  {"parameters", Json::array()},
                  {"responses", {{"200", {{"description", "OK"}}}}},
                  {"x-kubernetes-action", actionOf(method)},
                  {"x-kubernetes-group-version-kind", gvk(*r, version, r->kind)}};
        if (method != "get" && method != "delete")
          for (const auto& p : kWriteParameters)
            o["parameters"].push_back(
                {{"name", p.name}, {"in", "query"}, {"type", "string"}, {"description", p.description}});
        return o;
      });
    }
  for (auto& schema : definitions) toSwagger(schema);
  return {{"swagger", "2.0"},
          {"info", {{"title", "Elastic GPU standalone"}, {"version", "v1"}}},
          {"paths", std::move(paths)},
          {"definitions", std::move(definitions)}};
}

Json v3Document(const ResourceTable& table, const std::string& group, const std::string& version) {
  const std::string refs = "#/components/schemas/";
  Json schemas = commonSchemas(), paths = Json::object();
  for (const auto& r : table.all()) {
    if (r->group != group || !r->serves(version)) continue;
    define(schemas, *r, version, refs);
    addPaths(paths, *r, version, [&](const std::string& method) {
      const Json content = {{"schema", {{"$ref", refs + definitionName(*r, version, r->kind)}}}};
      Json o = {{"description", method + " " + r->kind},
                {"operationId", method + r->kind + version},
                {"responses", {{"200", {{"description", "OK"}, {"content", {{"application/json", content}}}}}}},
                {"x-kubernetes-action", actionOf(method)},
                {"x-kubernetes-group-version-kind", gvk(*r, version, r->kind)}};
      if (method != "get" && method != "delete") {
        o["parameters"] = Json::array();
        for (const auto& p : kWriteParameters)
          o["parameters"].push_back(
              {{"name", p.name}, {"in", "query"}, {"description", p.description}, {"schema", {{"type", "string"}}}});
        Json types = Json::object();
        const auto accepted =
            method == "patch" ? patchTypes(*r) : std::vector<std::string>{"application/json", "application/yaml"};
        for (const auto& type : accepted)
          types[type] = method == "patch" ? Json{{"schema", {{"type", "object"}}}} : content;
        o["requestBody"] = {{"content", std::move(types)}};
      }
      return o;
    });
  }
  return {{"openapi", "3.0.0"},
          {"info", {{"title", "Elastic GPU standalone"}, {"version", "v1"}}},
          {"paths", std::move(paths)},
          {"components", {{"schemas", std::move(schemas)}}}};
}

}  // namespace

OpenApi::OpenApi(const ResourceTable& table) {
  const Json v2 = v2Document(table);
  v2Json_ = v2.dump();
  v2Proto_ = encodeSwagger(v2);
  Json index = Json::object();
  for (const auto& r : table.all())
    for (const auto& version : r->versions) {
      const std::string key = (r->group.empty() ? "api/" : "apis/" + r->group + "/") + version;
      if (v3_.contains(key)) continue;
      auto& text = v3_[key] = v3Document(table, r->group, version).dump();
      // The hash in the URL makes clients cache a document until it changes.
      index[key] = {
          {"serverRelativeURL", "/openapi/v3/" + key + "?hash=" + std::to_string(std::hash<std::string>{}(text))}};
    }
  v3Index_ = Json{{"paths", index}}.dump();
}

OpenApiAnswer OpenApi::answer(std::string_view path, std::string_view accept) const {
  constexpr std::string_view kJson = "application/json";
  if (path == "/openapi/v2") {
    const bool proto = accept.find("protobuf") != std::string_view::npos;
    return {proto ? v2Proto_ : v2Json_, proto ? kProtoType : kJson};
  }
  if (path == "/openapi/v3") return {v3Index_, kJson};
  if (path.substr(0, 12) == "/openapi/v3/")
    if (auto it = v3_.find(path.substr(12)); it != v3_.end()) return {it->second, kJson};
  return {};
}

}  // namespace egpu::apiserver
