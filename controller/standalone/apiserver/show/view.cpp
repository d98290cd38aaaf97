#include "controller/standalone/apiserver/show/view.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "controller/standalone/apiserver/show/status_json.h"

namespace egpu::apiserver {
namespace {

TableOptions tableOptions(const Presentation& as, base::Clock& clock, bool columns) {
  TableOptions o;
  o.version = as.tableVersion;
  o.include = as.include;
  o.columns = columns;
  o.now = std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
  return o;
}

Json metadataOnly(const Presentation& as, const Object& object) {
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/" + as.tableVersion},
          {"metadata", object.body["metadata"]}};
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t end = std::min(text.find(by, from), text.size());
    std::string_view part = text.substr(from, end - from);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    out.push_back(part);
    from = end + 1;
  }
  return out;
}

}  // namespace

Presentation presentationOf(const RequestInfo& call) {
  Presentation p;
  std::string_view accept = call.request->header("accept");
  if (accept.empty()) return p;
  if (auto version = tableVersion(accept)) {
    p.form = ObjectForm::table;
    p.tableVersion = *version;
    auto include = parseIncludeObject(call.param("includeObject"));
    if (!include)
      throw badRequest("unrecognized includeObject value: \"" + std::string(call.param("includeObject")) + "\"");
    p.include = *include;
    return p;
  }
  // As on real servers, the first supported alternative decides.
  for (std::string_view alternative : split(accept, ',')) {
    auto parts = split(alternative, ';');
    if (parts[0] != "application/json" && parts[0] != "*/*" && parts[0] != "application/*") continue;
    std::string_view as, v;
    for (std::string_view parameter : parts) {
      if (parameter.substr(0, 3) == "as=") as = parameter.substr(3);
      if (parameter.substr(0, 2) == "v=") v = parameter.substr(2);
    }
    if (as.empty()) return p;
    if ((as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") && (v == "v1" || v == "v1beta1")) {
      p.form = ObjectForm::metadata;
      p.tableVersion = v;
      return p;
    }
  }
  throw notAcceptable();
}

std::string render(const RequestInfo& call, const Presentation& as, const Object& object, base::Clock& clock,
                   bool columns) {
  switch (as.form) {
    case ObjectForm::plain:
      break;
    case ObjectForm::metadata:
      return metadataOnly(as, object).dump();
    case ObjectForm::table: {
      Json body = bodyAs(object, *call.resource, call.version);
      return tableText(*call.resource, {&body}, Json{{"resourceVersion", std::to_string(object.version)}},
                       tableOptions(as, clock, columns));
    }
  }
  return textAs(object, *call.resource, call.version);
}

std::string renderList(const RequestInfo& call, const Presentation& as, const std::vector<ObjectPtr>& items,
                       const Json& listMeta, base::Clock& clock) {
  const Resource& r = *call.resource;
  if (as.form == ObjectForm::table) {
    std::vector<Json> converted;
    std::vector<const Json*> bodies;
    // Versions differ in apiVersion only, which rows contain with complete objects only.
    if (call.version != r.storageVersion && as.include == IncludeObject::object) {
      converted.reserve(items.size());
      for (const auto& i : items) converted.push_back(bodyAs(*i, r, call.version));
      for (const auto& b : converted) bodies.push_back(&b);
    } else {
      for (const auto& i : items) bodies.push_back(&i->body);
    }
    return tableText(r, bodies, listMeta, tableOptions(as, clock, true));
  }
  std::string out;
  std::size_t size = 200;
  for (const auto& i : items) size += i->text.size() + 2;
  out.reserve(size);
  const bool metadata = as.form == ObjectForm::metadata;
  out += "{\"kind\":\"" + (metadata ? std::string("PartialObjectMetadataList") : r.listKind) + "\",\"apiVersion\":\"" +
         (metadata ? "meta.k8s.io/" + as.tableVersion : r.apiVersion(call.version)) +
         "\",\"metadata\":" + listMeta.dump() + ",\"items\":[";
  bool first = true;
  for (const auto& i : items) {
    if (!first) out += ',';
    first = false;
    out += metadata ? metadataOnly(as, *i).dump() : textAs(*i, r, call.version);
  }
  out += "]}";
  return out;
}

}  // namespace egpu::apiserver
