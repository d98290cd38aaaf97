// The verbs create, update and patch, and pods/binding.
#include <utility>

#include "controller/standalone/apiserver/show/status_json.h"
#include "controller/standalone/apiserver/verbs/patch.h"
#include "controller/standalone/apiserver/verbs/rest.h"

namespace egpu::apiserver {
namespace {

// True if an update changes nothing. Preparation::forUpdate() has set the old resourceVersion in the new body.
bool sameBut(const Json& a, const Json& b) { return a == b; }

std::string warningHeader(const std::string& text) {
  std::string out = "299 - \"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

Rest::Rest(Store& store, const Preparation& preparation, const PriorityAdmission* priorities, Deletion& deletion,
           base::Clock& clock, base::Random& random, std::chrono::milliseconds bookmarkInterval)
    : store_(store),
      preparation_(preparation),
      priorities_(priorities),
      deletion_(deletion),
      clock_(clock),
      random_(random),
      bookmarkInterval_(bookmarkInterval) {}

http::Response Rest::serve(const RequestInfo& call) {
  const std::string& method = call.request->method;
  const bool collection = call.key.name.empty();
  if (!call.subresource.empty() && call.subresource != "status") {
    if (call.subresource == "binding" && method == "POST") return bind(call);
    if (call.subresource == "eviction" && method == "POST") return evict(call);
    throw methodNotAllowed();
  }
  if (collection) {
    if (method == "GET") return list(call);
    if (call.resource->namespaced && call.key.ns.empty()) throw methodNotAllowed();
    if (method == "POST") return create(call);
    if (method == "DELETE") return removeCollection(call);
    throw methodNotAllowed();
  }
  if (call.resource->namespaced && call.key.ns.empty()) throw pathNotFound();
  if (method == "GET") return call.flag("watch") ? watch(call) : get(call);
  if (method == "PUT") return replace(call);
  if (method == "PATCH") return patch(call);
  if (method == "DELETE" && call.subresource.empty()) return remove(call);
  throw methodNotAllowed();
}

http::Response Rest::answer(const RequestInfo& call, const Object& object, int status, const Warnings& warnings) {
  const Presentation as = presentationOf(call);
  http::Response r;
  r.status = status;
  r.contentType = as.contentType;
  r.body = render(call, as, object, clock_);
  for (const auto& w : warnings) r.headers.emplace_back("Warning", warningHeader(w));
  return r;
}

http::Response Rest::answerDry(const RequestInfo& call, const Json& body, const std::string& version, int status,
                               const Warnings& warnings) {
  Object object;
  object.body = body;
  if (version.empty())
    object.body["metadata"].erase("resourceVersion");
  else
    object.body["metadata"]["resourceVersion"] = version;
  object.text = object.body.dump();
  return answer(call, object, status, warnings);
}

http::Response Rest::create(const RequestInfo& call) {
  presentationOf(call);  // refuse an unsupported Accept header before writing the object
  const Resource& r = *call.resource;
  const bool dry = call.dryRun();
  Warnings warnings;
  const Json sent = preparation_.readObject(call, warnings);
  const bool generated = metaString(sent, "name").empty();
  for (int attempt = 0;; ++attempt) {
    Warnings more = warnings;
    Json wanted = sent;
    if (priorities_) priorities_->admit(call, wanted, nullptr);
    Json body = preparation_.forCreate(call, std::move(wanted), more);
    const Key key{call.key.ns, metaString(body, "name")};
    if (dry) {
      if (store_.get(r, key)) throw alreadyExists(r, key.name);
      return answerDry(call, body, {}, 201, more);
    }
    auto done = store_.commit(Write{Change::create, &r, key, nullptr, std::move(body)});
    if (done) {
      http::Response response = answer(call, **done, 201, more);
      deletion_.owned(r, *done);
      return response;
    }
    switch (done.status().code()) {
      case base::Code::alreadyExists:
        if (generated && attempt < 8) continue;  // try another suffix
        throw alreadyExists(r, key.name);
      case base::Code::forbidden: {
        ApiError e = forbidden(
            r, key.name, "unable to create new content in namespace " + key.ns + " because it is being terminated");
        e.details["causes"] = Json::array({{{"reason", "NamespaceTerminating"},
                                            {"message", "namespace " + key.ns + " is being terminated"},
                                            {"field", "metadata.namespace"}}});
        throw e;
      }
      case base::Code::notFound:
        throw ApiError{404, "NotFound", done.status().message(), Json{{"name", key.ns}, {"kind", "namespaces"}}, 0};
      default:
        throw fromStatus(done.status(), r, key.name);
    }
  }
}

ObjectPtr Rest::put(const RequestInfo& call, const ObjectPtr& old, Json body) {
  const Resource& r = *call.resource;
  const bool lastFinalizer = isDeleting(body) && !hasFinalizers(body) && !(r.group.empty() && r.plural == "namespaces");
  Write write{lastFinalizer ? Change::remove : Change::update, &r, old->key, old, std::move(body)};
  auto done = store_.commit(std::move(write));
  if (!done) {
    if (done.status().code() == base::Code::conflict) return nullptr;
    throw fromStatus(done.status(), r, old->key.name);
  }
  if (lastFinalizer)
    deletion_.removed(r, *done);
  else
    deletion_.owned(r, *done);
  return *done;
}

http::Response Rest::replace(const RequestInfo& call) {
  presentationOf(call);
  const Resource& r = *call.resource;
  Warnings warnings;
  const Json sent = preparation_.readObject(call, warnings);
  const bool dry = call.dryRun();
  for (;;) {
    ObjectPtr old = store_.get(r, call.key);
    if (!old) throw notFound(r, call.key.name);
    Warnings more = warnings;
    Json wanted = sent;
    if (priorities_) priorities_->admit(call, wanted, old.get());
    Json body = preparation_.forUpdate(call, *old, std::move(wanted), true, more);
    if (dry) return answerDry(call, body, std::to_string(old->version), 200, more);
    if (sameBut(body, old->body)) return answer(call, *old, 200, more);
    if (ObjectPtr done = put(call, old, std::move(body))) return answer(call, *done, 200, more);
  }
}

http::Response Rest::patch(const RequestInfo& call) {
  presentationOf(call);
  const Resource& r = *call.resource;
  const std::string_view type = call.request->header("content-type");
  const bool dry = call.dryRun();
  for (;;) {
    ObjectPtr old = store_.get(r, call.key);
    // Report an unsupported patch type even if the object does not exist.
    auto fresh = applyPatch(r, type, old ? bodyAs(*old, r, call.version) : Json::object(), call.request->body);
    if (!old && (fresh || fresh.status().http != 415)) throw notFound(r, call.key.name);
    if (!fresh) throw fromStatus(fresh.status(), r, call.key.name);
    Warnings warnings;
    if (priorities_) priorities_->admit(call, *fresh, old.get());
    Json body = preparation_.forUpdate(call, *old, std::move(*fresh), false, warnings);
    if (dry) return answerDry(call, body, std::to_string(old->version), 200, warnings);
    if (sameBut(body, old->body)) return answer(call, *old, 200, warnings);
    if (ObjectPtr done = put(call, old, std::move(body))) return answer(call, *done, 200, warnings);
  }
}

// Handles pods/binding: sets spec.nodeName of a pod that has none.
http::Response Rest::bind(const RequestInfo& call) {
  const Resource& r = *call.resource;
  Json binding = decodeBody(call.request->body, call.request->header("content-type"), nullptr);
  auto target = binding.is_object() ? binding.find("target") : binding.end();
  auto targetText = [&](const char* key) {
    if (target == binding.end() || !target->is_object()) return std::string();
    auto it = target->find(key);
    return it != target->end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (!binding.is_object()) throw badRequest("the object provided is not a JSON object");
  const std::string node = targetText("name"), kind = targetText("kind");
  if (node.empty()) throw invalid(r, call.key.name, {requiredField("target.name")});
  if (!kind.empty() && kind != "Node")
    throw invalid(r, call.key.name, {notSupportedField("target.kind", kind, {"Node", "<empty>"})});
  for (;;) {
    ObjectPtr old = store_.get(r, call.key);
    if (!old) throw notFound(r, call.key.name);
    if (std::string uid = metaString(binding, "uid"); !uid.empty() && uid != old->uid)
      throw conflict(r, call.key.name,
                     "Precondition failed: UID in precondition: " + uid + ", UID in object meta: " + old->uid);
    if (isDeleting(old->body))
      throw conflict(r, call.key.name, "pod " + call.key.name + " is being deleted, cannot be assigned to a host");
    const Json& spec = old->body["spec"];
    if (auto n = spec.find("nodeName"); n != spec.end() && n->is_string() && !n->get<std::string>().empty())
      throw conflict(r, call.key.name,
                     "pod " + call.key.name + " is already assigned to node \"" + n->get<std::string>() + "\"");
    if (auto g = spec.find("schedulingGates"); g != spec.end() && g->is_array() && !g->empty())
      throw conflict(r, call.key.name, "pod " + call.key.name + " has non-empty .spec.schedulingGates");
    Json body = old->body;
    body["spec"]["nodeName"] = node;
    Json condition = {{"type", "PodScheduled"},
                      {"status", "True"},
                      {"lastProbeTime", nullptr},
                      {"lastTransitionTime", base::rfc3339(clock_.wall())}};
    Json& status = body["status"];
    if (!status.is_object()) status = Json::object();
    Json conditions = Json::array();
    for (const Json& c : status.value("conditions", Json::array()))
      if (!c.is_object() || c.value("type", "") != "PodScheduled") conditions.push_back(c);
    conditions.push_back(std::move(condition));
    status["conditions"] = std::move(conditions);
    if (call.dryRun() || put(call, old, std::move(body))) {
      http::Response response;
      response.status = 201;
      response.body = successStatus(nullptr, {}, {}).dump();
      return response;
    }
  }
}

}  // namespace egpu::apiserver
