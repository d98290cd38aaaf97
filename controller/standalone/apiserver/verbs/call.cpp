#include "controller/standalone/apiserver/verbs/call.h"

#include <algorithm>
#include <charconv>

#include "controller/standalone/apiserver/kinds/unserved.h"
#include "controller/standalone/apiserver/show/status_json.h"

namespace egpu::apiserver {
namespace {

std::vector<std::string> segments(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    if (path.front() != '/') throw pathNotFound();
    path.remove_prefix(1);
    std::size_t end = std::min(path.find('/'), path.size());
    out.push_back(http::percentDecode(path.substr(0, end)));
    path.remove_prefix(end);
  }
  if (!out.empty() && out.back().empty()) out.pop_back();  // a trailing slash
  for (const auto& s : out)
    if (s.empty() || s == "." || s == ".." || s.find('/') != std::string::npos) throw pathNotFound();
  return out;
}

}  // namespace

std::string_view RequestInfo::param(std::string_view name) const {
  for (const auto& [k, v] : query)
    if (k == name) return v;
  return {};
}

bool RequestInfo::flag(std::string_view name) const {
  std::string_view v = param(name);
  if (v == "true" || v == "1" || v == "True" || v == "TRUE" || v == "t") return true;
  if (v.empty() || v == "false" || v == "0" || v == "False" || v == "FALSE" || v == "f") return false;
  throw badRequest("invalid value \"" + std::string(v) + "\" for " + std::string(name) + ": must be true or false");
}

std::optional<int64_t> RequestInfo::number(std::string_view name) const {
  std::string_view v = param(name);
  if (v.empty()) return std::nullopt;
  int64_t n = 0;
  auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
  if (error != std::errc() || end != v.data() + v.size() || n < 0)
    throw badRequest("invalid value \"" + std::string(v) + "\" for " + std::string(name) +
                     ": must be an integer, not negative");
  return n;
}

bool RequestInfo::dryRun() const {
  std::string_view v = param("dryRun");
  if (v.empty()) return false;
  if (v == "All") return true;
  throw badRequest("invalid dryRun \"" + std::string(v) + "\": the only supported value is All");
}

RequestInfo requestInfoOf(const ResourceTable& table, const http::Request& request) {
  std::vector<std::string> s = segments(request.path);
  std::size_t at = 0;
  std::string group, version;
  if (s.size() >= 2 && s[0] == "api") {
    version = s[1];
    at = 2;
  } else if (s.size() >= 3 && s[0] == "apis") {
    group = s[1];
    version = s[2];
    at = 3;
  } else {
    throw pathNotFound();
  }
  RequestInfo call;
  call.request = &request;
  call.version = version;
  call.query = http::parseQuery(request.query);
  auto rest = [&](std::size_t i) -> const std::string& { return s[at + i]; };
  std::size_t n = s.size() - at;
  // /namespaces/NS/PLURAL… names PLURAL. /namespaces, /namespaces/NS and /namespaces/NS/status name namespaces.
  if (n >= 3 && rest(0) == "namespaces" &&
      !(group.empty() && n == 3 && (rest(2) == "status" || rest(2) == "finalize"))) {
    call.resource = table.find(group, version, rest(2));
    if (!call.resource) throw pathNotFound(whyNotServed(table, group, version, rest(2)));
    if (!call.resource->namespaced) throw pathNotFound(call.resource->qualified() + " are in no namespace");
    call.key.ns = rest(1);
    at += 3;
    n -= 3;
  } else if (n >= 1) {
    call.resource = table.find(group, version, rest(0));
    if (!call.resource) throw pathNotFound(whyNotServed(table, group, version, rest(0)));
    at += 1;
    n -= 1;
    if (n > 0 && call.resource->namespaced)
      throw pathNotFound(call.resource->qualified() + " are in namespaces, the path names none");
  } else {
    throw pathNotFound();
  }
  if (n >= 1) call.key.name = rest(0);
  if (n >= 2) {
    call.subresource = rest(1);
    const auto& subs = call.resource->subresources;
    bool known = (call.subresource == "status" && call.resource->hasStatus) ||
                 (call.subresource != "status" && std::find(subs.begin(), subs.end(), call.subresource) != subs.end());
    if (!known || n > 2) throw pathNotFound(call.resource->plural + "/" + call.subresource + " is not served here");
  }
  return call;
}

std::string textAs(const Object& object, const Resource& resource, std::string_view version) {
  if (version == resource.storageVersion) return object.text;
  // "apiVersion" is the first key, because keys are sorted, so it can be replaced without parsing.
  const std::string stored = "{\"apiVersion\":\"" + resource.apiVersion(resource.storageVersion) + "\"";
  if (object.text.compare(0, stored.size(), stored) == 0)
    return "{\"apiVersion\":\"" + resource.apiVersion(version) + "\"" + object.text.substr(stored.size());
  return bodyAs(object, resource, version).dump();
}

Json bodyAs(const Object& object, const Resource& resource, std::string_view version) {
  Json body = object.body;
  body["apiVersion"] = resource.apiVersion(version);
  return body;
}

std::string metaString(const Json& object, const char* name) {
  auto meta = object.find("metadata");
  if (meta == object.end() || !meta->is_object()) return {};
  auto it = meta->find(name);
  return it != meta->end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool isDeleting(const Json& object) { return !metaString(object, "deletionTimestamp").empty(); }

bool hasFinalizers(const Json& object) {
  auto meta = object.find("metadata");
  if (meta == object.end() || !meta->is_object()) return false;
  auto it = meta->find("finalizers");
  return it != meta->end() && it->is_array() && !it->empty();
}

}  // namespace egpu::apiserver
