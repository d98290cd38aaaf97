#include "controller/standalone/apiserver/show/status_json.h"

#include <utility>

#include "controller/base/text.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

Json detailsOf(const Resource& resource, std::string_view name) {
  Json d = {{"kind", resource.plural}};
  if (!name.empty()) d["name"] = name;
  if (!resource.group.empty()) d["group"] = resource.group;
  return d;
}

// Returns the causes of an Invalid error, which kubectl shows instead of the message. If the message begins with a
// field ("spec.x: …"), this is the field of the cause.
Json causesOf(const std::string& message, const char* otherwise) {
  const size_t colon = message.find(": ");
  const bool named = colon != std::string::npos && colon > 0 && message.find(' ') == colon + 1;
  return Json::array({{{"reason", "FieldValueInvalid"},
                       {"field", named ? message.substr(0, colon) : std::string(otherwise)},
                       {"message", named ? message.substr(colon + 2) : message}}});
}

}  // namespace

ApiError badRequest(std::string message) { return {400, "BadRequest", std::move(message), nullptr, 0}; }

ApiError pathNotFound(std::string_view what) {
  std::string message = "the server could not find the requested resource";
  if (!what.empty()) message += ": " + std::string(what);
  return {404, "NotFound", std::move(message), Json::object(), 0};
}

ApiError methodNotAllowed() {
  return {405, "MethodNotAllowed", "the server does not allow this method on the requested resource", Json::object(),
          0};
}

ApiError notAcceptable() {
  return {406, "NotAcceptable", "only the following media types are accepted: application/json", nullptr, 0};
}

ApiError unsupportedMediaType(std::string message) {
  return {415, "UnsupportedMediaType", std::move(message), nullptr, 0};
}

ApiError tooLargeBody(std::string message) { return {413, "RequestEntityTooLarge", std::move(message), nullptr, 0}; }

ApiError notFound(const Resource& resource, std::string_view name) {
  return {404, "NotFound", resource.qualified() + " " + base::quoted(name) + " not found", detailsOf(resource, name),
          0};
}

ApiError alreadyExists(const Resource& resource, std::string_view name) {
  return {409, "AlreadyExists", resource.qualified() + " " + base::quoted(name) + " already exists",
          detailsOf(resource, name), 0};
}

ApiError conflict(const Resource& resource, std::string_view name, std::string_view why) {
  return {
      409, "Conflict",
      "Operation cannot be fulfilled on " + resource.qualified() + " " + base::quoted(name) + ": " + std::string(why),
      detailsOf(resource, name), 0};
}

ApiError modified(const Resource& resource, std::string_view name) {
  return conflict(resource, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

ApiError forbidden(const Resource& resource, std::string_view name, std::string_view why) {
  return {403, "Forbidden", resource.qualified() + " " + base::quoted(name) + " is forbidden: " + std::string(why),
          detailsOf(resource, name), 0};
}

ApiError invalid(const Resource& resource, std::string_view name, const std::vector<FieldError>& errors) {
  const std::string kind = resource.group.empty() ? resource.kind : resource.kind + "." + resource.group;
  Json details = {{"kind", resource.kind}, {"causes", Json::array()}};
  if (!name.empty()) details["name"] = name;
  if (!resource.group.empty()) details["group"] = resource.group;
  for (const auto& e : errors)
    details["causes"].push_back({{"reason", e.reason}, {"message", e.message}, {"field", e.field}});
  return {422, "Invalid", kind + " " + base::quoted(name) + " is invalid: " + joinErrors(errors), std::move(details),
          0};
}

ApiError expired(std::string message) { return {410, "Expired", std::move(message), nullptr, 0}; }

ApiError versionTooLarge(uint64_t asked, uint64_t current) {
  Json cause = {{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}};
  return {504, "Timeout",
          "Too large resource version: " + std::to_string(asked) + ", current: " + std::to_string(current),
          Json{{"causes", Json::array({cause})}, {"retryAfterSeconds", 1}}, 1};
}

ApiError fromStatus(const base::Status& status, const Resource& resource, std::string_view name) {
  using base::Code;
  if (status.http != 0 && status.reason == "Invalid")
    return {status.http, status.reason, status.message(), Json{{"causes", causesOf(status.message(), "patch")}}, 0};
  if (status.http != 0 && !status.reason.empty())
    return {status.http, status.reason, status.message(), detailsOf(resource, name), 0};
  switch (status.code()) {
    case Code::invalid: {
      Json details = {{"kind", resource.kind}, {"name", name}, {"causes", causesOf(status.message(), "object")}};
      if (!resource.group.empty()) details["group"] = resource.group;
      return {422, "Invalid",
              (resource.group.empty() ? resource.kind : resource.kind + "." + resource.group) + " " +
                  base::quoted(name) + " is invalid: " + status.message(),
              std::move(details), 0};
    }
    case Code::forbidden:
      return forbidden(resource, name, status.message());
    case Code::notFound:
      return {404, "NotFound", status.message(), detailsOf(resource, name), 0};
    case Code::conflict:
      return conflict(resource, name, status.message());
    case Code::alreadyExists:
      return alreadyExists(resource, name);
    case Code::malformed:
      return badRequest(status.message());
    case Code::unavailable:
      return {503, "ServiceUnavailable", status.message(), nullptr, 1};
    default:
      return {500, "InternalError", "Internal error occurred: " + status.message(), nullptr, 0};
  }
}

nlohmann::json toJson(const ApiError& error) {
  Json j = {{"kind", "Status"},       {"apiVersion", "v1"},       {"metadata", Json::object()}, {"status", "Failure"},
            {"reason", error.reason}, {"message", error.message}, {"code", error.code}};
  if (!error.details.is_null()) j["details"] = error.details;
  return j;
}

http::Response toResponse(const ApiError& error) {
  http::Response r;
  r.status = error.code;
  r.body = toJson(error).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (error.retryAfterSeconds > 0) r.headers.emplace_back("Retry-After", std::to_string(error.retryAfterSeconds));
  return r;
}

nlohmann::json successStatus(const Resource* resource, std::string_view name, std::string_view uid) {
  Json j = {{"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", Json::object()}, {"status", "Success"}};
  if (resource) {
    j["details"] = detailsOf(*resource, name);
    if (!uid.empty()) j["details"]["uid"] = uid;
  }
  return j;
}

}  // namespace egpu::apiserver
