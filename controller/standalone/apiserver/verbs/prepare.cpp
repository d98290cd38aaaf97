#include "controller/standalone/apiserver/verbs/prepare.h"

#include <algorithm>
#include <set>

#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/standalone/apiserver/kinds/builtin_kinds.h"
#include "controller/standalone/apiserver/kinds/rules.h"
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/protobuf_body.h"

namespace egpu::apiserver {
namespace {

constexpr std::size_t kMaxObjectBytes =
    std::size_t{1536} * 1024;  // the limit of etcd, so that objects accepted here are also accepted by a real cluster

// Checks that the identifying fields of metadata are strings. Call before other code reads them.
void requireStrings(const Json& meta) {
  for (const char* name : {"name", "generateName", "namespace", "uid", "resourceVersion", "deletionTimestamp"}) {
    auto it = meta.find(name);
    if (it != meta.end() && !it->is_string() && !it->is_null())
      throw badRequest(std::string("json: cannot unmarshal ") + it->type_name() +
                       " into Go struct field ObjectMeta.metadata." + name + " of type string");
  }
}

void dropNulls(Json& meta) {
  for (auto it = meta.begin(); it != meta.end();) it = it->is_null() ? meta.erase(it) : std::next(it);
}

bool hasGeneration(const Resource& r) { return r.custom || r.plural == "pods"; }

// True if the objects differ only in apiVersion, metadata and status, so that the desired state has not changed.
bool sameDesired(const Json& a, const Json& b, bool hasStatus) {
  auto counts = [&](const std::string& key) {
    return key != "metadata" && key != "apiVersion" && !(hasStatus && key == "status");
  };
  for (auto it = a.begin(); it != a.end(); ++it)
    if (counts(it.key())) {
      auto other = b.find(it.key());
      if (other == b.end() || *other != *it) return false;
    }
  for (auto it = b.begin(); it != b.end(); ++it)
    if (counts(it.key()) && !a.contains(it.key())) return false;
  return true;
}

void takeFrom(Json& to, const Json& from, const char* field) {
  auto it = from.find(field);
  if (it != from.end())
    to[field] = *it;
  else
    to.erase(field);
}

std::vector<FieldError> finalizerErrors(const Json& before, const Json& after) {
  std::set<std::string> old;
  if (auto f = before.find("finalizers"); f != before.end() && f->is_array())
    for (const Json& x : *f)
      if (x.is_string()) old.insert(x.get<std::string>());
  std::string added;
  if (auto f = after.find("finalizers"); f != after.end() && f->is_array())
    for (const Json& x : *f)
      if (x.is_string() && !old.count(x.get<std::string>()))
        added += (added.empty() ? "\"" : ", \"") + x.get<std::string>() + "\"";
  if (added.empty()) return {};
  return {forbiddenField(
      "metadata.finalizers",
      "no new finalizers can be added if the object is being deleted, found new finalizers []string{" + added + "}")};
}

// Returns the object's metadata after checking its strings and removing nulls.
Json& metadataOf(Json& object) {
  Json& meta = object["metadata"];
  if (meta.is_null()) meta = Json::object();
  if (!meta.is_object()) throw badRequest("metadata is not an object");
  requireStrings(meta);
  dropNulls(meta);
  return meta;
}

// Checks that the result of a PUT or PATCH is still the object that the URL names.
void checkPath(const RequestInfo& call, const Object& old, Json& fresh) {
  const Resource& r = *call.resource;
  if (!fresh.is_object()) throw badRequest("the result is not a JSON object");
  if (fresh.value("kind", Json()) != Json(r.kind)) throw badRequest("the kind of an object can't be changed");
  if (auto v = fresh.find("apiVersion");
      v == fresh.end() || !v->is_string() ||
      (*v != Json(r.apiVersion(call.version)) && *v != Json(r.apiVersion(r.storageVersion))))
    throw badRequest("the apiVersion of an object can't be changed to one that is not served here");
  metadataOf(fresh);
  if (std::string n = metaString(fresh, "name"); n != old.key.name)
    throw badRequest("the name of the object (" + n + ") does not match the name on the URL (" + old.key.name + ")");
  if (std::string ns = metaString(fresh, "namespace"); !ns.empty() && ns != old.key.ns)
    throw badRequest("the namespace of the object (" + ns + ") does not match the namespace on the URL (" + old.key.ns +
                     ")");
}

// Checks uid, resourceVersion and deletionTimestamp of `fresh` against the stored object.
void checkIdentity(const Resource& r, const Object& old, const Json& fresh, bool replaces) {
  const std::string& name = old.key.name;
  // In a PUT, a different uid is a failed precondition. In a PATCH, it is a change of an immutable field.
  const std::string uid = metaString(fresh, "uid");
  const bool otherUid = !uid.empty() && uid != old.uid;
  if (otherUid && replaces)
    throw conflict(r, name, "Precondition failed: UID in precondition: " + uid + ", UID in object meta: " + old.uid);
  const std::string version = metaString(fresh, "resourceVersion");
  if (version.empty()) {
    if (replaces && (r.custom || r.plural == "leases"))
      throw invalid(r, name, {invalidField("metadata.resourceVersion", 0, "must be specified for an update")});
  } else if (version != std::to_string(old.version)) {
    throw modified(r, name);
  }
  if (otherUid) throw invalid(r, name, {invalidField("metadata.uid", uid, "field is immutable")});
  if (std::string t = metaString(fresh, "deletionTimestamp");
      !t.empty() && t != metaString(old.body, "deletionTimestamp"))
    throw invalid(r, name, {invalidField("metadata.deletionTimestamp", t, "field is immutable")});
}

// Restores the fields that this write may not change: spec or status, and the metadata that the server owns.
void restoreOwned(const RequestInfo& call, const Json& old, Json& fresh) {
  const Resource& r = *call.resource;
  if (call.subresource == "status") {
    Json mixed = old;
    takeFrom(mixed, fresh, "status");
    if (!r.custom) {
      // As on real servers, a status write of a built-in kind may also change labels and annotations.
      takeFrom(mixed["metadata"], fresh["metadata"], "labels");
      takeFrom(mixed["metadata"], fresh["metadata"], "annotations");
    }
    fresh = std::move(mixed);
  } else if (r.hasStatus) {
    takeFrom(fresh, old, "status");
  }
  Json& meta = fresh["metadata"];
  for (const char* owned : {"uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
                            "resourceVersion", "namespace", "generateName"})
    takeFrom(meta, old["metadata"], owned);
  meta.erase("managedFields");
  meta.erase("selfLink");
  for (const char* list : {"finalizers", "ownerReferences", "labels", "annotations"})
    if (auto it = meta.find(list); it != meta.end() && it->empty() && !it->is_null()) meta.erase(it);
}

}  // namespace

Json decodeBody(std::string_view text, std::string_view contentType, std::vector<std::string>* duplicates) {
  const std::string type = base::lowered(base::trimmed(contentType.substr(0, contentType.find(';'))));
  std::string converted;
  if (type == "application/yaml" || type == "text/yaml") {
    auto json = codec::yamlToJson(text);
    if (!json) throw badRequest("error decoding the body as YAML: " + json.status().message());
    converted = std::move(*json);
    text = converted;
  } else if (!type.empty() && type != "application/json" && type != "*/*") {
    if (type == kProtobuf) {
      if (auto object = decodeProtobufBody(text)) return *object;
      throw unsupportedMediaType(
          "the body is protobuf (application/vnd.kubernetes.protobuf), which this embedded API server reads for "
          "namespaces and DeleteOptions only: have the client send JSON, with client-go by "
          "rest.Config{ContentConfig: rest.ContentConfig{ContentType: \"application/json\"}}");
    }
    throw unsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml");
  }
  std::vector<std::set<std::string>> keys;
  Json::parser_callback_t watchKeys = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() && parsed.is_string() &&
        !keys.back().insert(parsed.get<std::string>()).second && duplicates->size() < 32)
      duplicates->push_back(parsed.get<std::string>());
    return true;
  };
  Json out;
  try {
    out = duplicates ? Json::parse(text, watchKeys) : Json::parse(text);
  } catch (const Json::exception& e) {
    std::string why = e.what();
    if (const auto end = why.find("] "); why.front() == '[' && end != std::string::npos)
      why.erase(0, end + 2);  // remove the library's name of the error
    if (why.size() > 300) why.resize(300);
    for (char& c : why)
      if (static_cast<unsigned char>(c) >= 0x80 || static_cast<unsigned char>(c) < 0x20) c = '?';
    throw badRequest("the object provided is not valid JSON: " + why);
  }
  if (!nestsWithin(out)) throw badRequest("the object provided nests too deeply");
  return out;
}

base::Result<std::unique_ptr<Preparation>> Preparation::create(const ResourceTable& table,
                                                               std::vector<Admission> admission, base::Clock& clock,
                                                               base::Random& random) {
  std::unique_ptr<Preparation> p(new Preparation(std::move(admission), clock, random));
  for (const auto& r : table.all()) {
    if (r->compiled) {
      p->schemas_.emplace(r.get(), r->compiled);
      continue;
    }
    auto schema = Schema::compileObject(r->schema);
    if (!schema) return base::Status(schema.status().code(), r->qualified() + ": " + schema.status().message());
    p->schemas_.emplace(r.get(), std::move(*schema));
  }
  return p;
}

Preparation::Preparation(std::vector<Admission> admission, base::Clock& clock, base::Random& random)
    : admission_(std::move(admission)), clock_(clock), random_(random) {}

Json Preparation::readObject(const RequestInfo& call, Warnings& warnings) const {
  const Resource& r = *call.resource;
  std::vector<std::string> duplicates;
  const bool cares = call.param("fieldValidation") != "Ignore";
  Json object = decodeBody(call.request->body, call.request->header("content-type"), cares ? &duplicates : nullptr);
  if (!object.is_object()) throw badRequest("the object provided is not a JSON object");
  // Typed clients omit kind and apiVersion, or one of them, because the path contains both.
  auto text = [&](const char* key, const std::string& otherwise) {
    auto& value = object[key];
    if (value.is_null() || value == "") value = otherwise;
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const std::string kind = text("kind", r.kind), version = text("apiVersion", r.apiVersion(call.version));
  if (version != r.apiVersion(call.version))
    throw badRequest("the API version in the data (" + version + ") does not match the expected API version (" +
                     r.apiVersion(call.version) + ")");
  if (kind != r.kind)
    throw badRequest("the kind in the data (" + kind + ") does not match the expected kind (" + r.kind + ")");
  std::string twice;
  for (const auto& d : duplicates) twice += (twice.empty() ? "duplicate field \"" : ", duplicate field \"") + d + "\"";
  if (!twice.empty()) {
    if (call.param("fieldValidation") == "Strict")
      throw badRequest(kind + " in version \"" + call.version + "\" cannot be handled as a " + kind +
                       ": strict decoding error: " + twice);
    warnings.push_back(twice);
  }
  return object;
}

void Preparation::prune(const RequestInfo& call, Json& object, Warnings& warnings) const {
  const Resource& r = *call.resource;
  std::vector<std::string> unknown = schemas_.at(&r)->prune(object);
  std::string_view mode = call.param("fieldValidation");
  if (mode != "" && mode != "Strict" && mode != "Warn" && mode != "Ignore")
    throw badRequest("invalid fieldValidation \"" + std::string(mode) +
                     "\": supported values are Ignore, Warn and Strict");
  if (unknown.empty() || mode == "Ignore") return;
  std::string all;
  for (const auto& u : unknown) all += (all.empty() ? "unknown field \"" : ", unknown field \"") + u + "\"";
  if (mode == "Strict")
    throw badRequest(r.kind + " in version \"" + call.version + "\" cannot be handled as a " + r.kind +
                     ": strict decoding error: " + all);
  for (const auto& u : unknown) warnings.push_back("unknown field \"" + u + "\"");
}

void Preparation::admit(const RequestInfo& call, const char* operation, Json& object, const Json* old) const {
  if (admission_.empty()) return;
  const Resource& r = *call.resource;
  std::string text = object.dump();
  const std::string before = text;
  const std::string oldText = old ? old->dump() : std::string();
  for (const auto& hook : admission_) {
    base::Status status = hook(r.qualified(), operation, text, oldText);
    if (!status.ok()) throw fromStatus(status, r, metaString(object, "name"));
  }
  if (text == before) return;
  Json edited = Json::parse(text, nullptr, false);
  if (edited.is_discarded() || !edited.is_object() || !edited.contains("metadata") || !edited["metadata"].is_object())
    throw ApiError{500, "InternalError", "Internal error occurred: admission made an object that can't be read",
                   nullptr, 0};
  object = std::move(edited);
  const Schema& schema = *schemas_.at(&r);
  schema.prune(object);
  schema.applyDefaults(object, !r.custom);
  if (old == nullptr) fillBuiltin(r, object);  // sets fields that depend on the edits, such as a gate's condition
}

void Preparation::validate(const Resource& resource, const Json& object, const Json* old) const {
  std::vector<FieldError> errors = validateMeta(resource, object);
  for (auto& e : schemas_.at(&resource)->validate(object)) errors.push_back(std::move(e));
  // Validate rules after the schema, because they rely on the types of the fields.
  if (errors.empty()) errors = validateBuiltin(resource, object, old);
  // As on a real server, the project's rules are also evaluated if values are invalid, but not after other errors, such
  // as a wrong type.
  if (std::all_of(errors.begin(), errors.end(), [](const auto& e) { return e.reason == "FieldValueInvalid"; }))
    for (auto& e : validateRules(resource, object, old)) errors.push_back(std::move(e));
  if (!errors.empty()) throw invalid(resource, metaString(object, "name"), errors);
}

Json Preparation::forCreate(const RequestInfo& call, Json object, Warnings& warnings) const {
  const Resource& r = *call.resource;
  if (call.request->body.size() > kMaxObjectBytes) throw tooLargeBody("the object is larger than 1.5 MiB");
  object["apiVersion"] = r.apiVersion(r.storageVersion);
  Json& meta = metadataOf(object);
  if (!metaString(object, "resourceVersion").empty())
    throw badRequest("resourceVersion should not be set on objects to be created");
  for (const char* owned : {"managedFields", "selfLink", "uid", "creationTimestamp", "generation", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "resourceVersion"})
    meta.erase(owned);
  const std::string ns = metaString(object, "namespace");
  if (r.namespaced) {
    if (ns.empty())
      meta["namespace"] = call.key.ns;
    else if (ns != call.key.ns)
      throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  } else if (!ns.empty()) {
    throw badRequest("namespace is not allowed on this type");
  }
  if (metaString(object, "name").empty()) {
    std::string base = metaString(object, "generateName");
    if (!base.empty()) {
      if (base.size() > 58) base.resize(58);
      meta["name"] = base + random_.suffix(5);
    }
  }
  // A node is created with its status. Objects of other kinds get a status only through /status.
  if (r.hasStatus && r.plural != "nodes") object.erase("status");
  prune(call, object, warnings);
  const Schema& schema = *schemas_.at(&r);
  schema.applyDefaults(object, !r.custom);
  fillBuiltin(r, object);
  admit(call, "CREATE", object, nullptr);
  Json& finished = object["metadata"];
  if (metaString(object, "name").empty())
    throw invalid(r, "", {requiredField("metadata.name", "name or generateName is required")});
  finished["uid"] = random_.uuid();
  finished["creationTimestamp"] = base::rfc3339(clock_.wall());
  if (hasGeneration(r)) finished["generation"] = 1;
  validate(r, object, nullptr);
  return object;
}

Json Preparation::forUpdate(const RequestInfo& call, const Object& old, Json fresh, bool replaces,
                            Warnings& warnings) const {
  const Resource& r = *call.resource;
  checkPath(call, old, fresh);
  checkIdentity(r, old, fresh, replaces);
  fresh["apiVersion"] = r.apiVersion(r.storageVersion);
  restoreOwned(call, old.body, fresh);
  prune(call, fresh, warnings);
  const Schema& schema = *schemas_.at(&r);
  schema.applyDefaults(fresh, !r.custom);
  // Status writes also need admission: they may change annotations (see restoreOwned()) that admission does not allow
  // to change.
  if (call.subresource.empty() || call.subresource == "status") admit(call, "UPDATE", fresh, &old.body);
  if (fresh == old.body) return fresh;
  const Json& oldMeta = old.body["metadata"];
  if (isDeleting(old.body)) {
    auto errors = finalizerErrors(oldMeta, fresh["metadata"]);
    if (!errors.empty()) throw invalid(r, old.key.name, errors);
  }
  if (hasGeneration(r) && !sameDesired(old.body, fresh, r.hasStatus))
    fresh["metadata"]["generation"] = oldMeta.value("generation", int64_t{0}) + 1;
  validate(r, fresh, &old.body);
  if (old.text.size() + call.request->body.size() > kMaxObjectBytes && fresh.dump().size() > kMaxObjectBytes)
    throw tooLargeBody("the object would be larger than 1.5 MiB");
  return fresh;
}

}  // namespace egpu::apiserver
