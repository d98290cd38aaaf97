// The verbs delete and deletecollection, and pods/eviction.
#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/rest.h"

namespace egpu::apiserver {
namespace {

// Reads DeleteOptions from the body `text` and from the query.
DeleteOptions deleteOptions(const RequestInfo& call, const std::string& text) {
  DeleteOptions o;
  o.dryRun = call.dryRun();
  std::string policy(call.param("propagationPolicy"));
  const bool orphanParam = call.flag("orphanDependents");
  if (text.find_first_not_of(" \t\r\n") != std::string::npos) {
    Json body = decodeBody(text, call.request->header("content-type"), nullptr);
    if (!body.is_object()) throw badRequest("DeleteOptions: not a JSON object");
    if (auto kind = body.find("kind"); kind != body.end() && *kind != "DeleteOptions")
      throw badRequest("the kind in the data does not match the expected kind (DeleteOptions)");
    auto textOf = [](const Json& from, const char* key) -> std::string {
      auto it = from.find(key);
      if (it == from.end() || it->is_null()) return {};
      if (!it->is_string()) throw badRequest(std::string("DeleteOptions.") + key + " must be a string");
      return it->get<std::string>();
    };
    if (auto p = body.find("preconditions"); p != body.end() && !p->is_null()) {
      if (!p->is_object()) throw badRequest("DeleteOptions.preconditions must be an object");
      o.uid = textOf(*p, "uid");
      o.resourceVersion = textOf(*p, "resourceVersion");
    }
    if (std::string p = textOf(body, "propagationPolicy"); !p.empty()) policy = p;
    if (auto orphan = body.find("orphanDependents"); orphan != body.end() && orphan->is_boolean())
      o.orphan = orphan->get<bool>();
    if (auto dry = body.find("dryRun"); dry != body.end() && dry->is_array())
      for (const Json& d : *dry) {
        if (d != "All") throw badRequest("invalid dryRun: the only supported value is All");
        o.dryRun = true;
      }
  }
  if (!policy.empty() && policy != "Orphan" && policy != "Background" && policy != "Foreground")
    throw ApiError{422, "Invalid",
                   "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"" + policy +
                       "\": supported values: \"Background\", \"Foreground\", \"Orphan\"",
                   nullptr, 0};
  if (policy.empty())
    o.orphan = o.orphan || orphanParam;
  else
    o.orphan = policy == "Orphan";
  return o;
}

}  // namespace

http::Response Rest::remove(const RequestInfo& call) {
  presentationOf(call);
  const Resource& r = *call.resource;
  if (priorities_) priorities_->admitDelete(call);
  auto outcome = deletion_.remove(r, call.key, deleteOptions(call, call.request->body));
  // As on real servers, the answer is the object if it still exists (finalizers) or is a pod, otherwise a Status.
  if (!outcome.gone || (r.group.empty() && r.plural == "pods")) return answer(call, *outcome.object, 200, {});
  http::Response response;
  response.body = successStatus(&r, call.key.name, outcome.object->uid).dump();
  return response;
}

http::Response Rest::evict(const RequestInfo& call) {
  const Json body = decodeBody(call.request->body, call.request->header("content-type"), nullptr);
  if (!body.is_object()) throw badRequest("the object provided is not a JSON object");
  if (const auto name = metaString(body, "name"); !name.empty() && name != call.key.name)
    throw badRequest("name in URL does not match name in Eviction object");
  const auto options = body.find("deleteOptions");
  const bool given = options != body.end() && options->is_object();
  (void)deletion_.remove(*call.resource, call.key, deleteOptions(call, given ? options->dump() : std::string()));
  http::Response response;
  response.status = 201;
  response.body = successStatus(nullptr, {}, {}).dump();
  return response;
}

http::Response Rest::removeCollection(const RequestInfo& call) {
  const Presentation as = presentationOf(call);
  const Resource& r = *call.resource;
  if (r.group.empty() && r.plural == "namespaces") throw methodNotAllowed();
  const Selector selector = selectorOf(call);
  const DeleteOptions options = deleteOptions(call, call.request->body);
  uint64_t version = 0;
  std::vector<ObjectPtr> removed;
  for (const auto& object : store_.list(r, call.key.ns, version)) {
    if (!selector.empty() && !selector.matches(object->body)) continue;
    DeleteOptions one = options;
    one.uid = object->uid;  // do not delete a new object with the same name
    try {
      removed.push_back(deletion_.remove(r, object->key, one).object);
    } catch (const ApiError& e) {
      if (e.code != 404 && e.code != 409) throw;
    }
  }
  http::Response response;
  response.contentType = as.contentType;
  response.body = renderList(call, as, removed, Json{{"resourceVersion", std::to_string(store_.version())}}, clock_);
  return response;
}

}  // namespace egpu::apiserver
