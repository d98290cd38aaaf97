#include "controller/codec/review.h"

#include <nlohmann/json.hpp>

#include "controller/codec/json/text.h"

namespace egpu::codec {

namespace {

using Json = nlohmann::json;

std::string textOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool flagOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

std::vector<std::string> textsOf(const Json& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return out;
  for (const auto& each : value)
    if (each.is_string()) out.push_back(each.get<std::string>());
  return out;
}

/// Returns the status of a review. Fails if it is missing, because then no review took place.
base::Result<Json> statusOf(std::string_view json) {
  const auto root = Json::parse(json, nullptr, false);
  if (!root.is_object() || !root.contains("status") || !root["status"].is_object())
    return base::Status(base::Code::malformed, "a review without a status");
  return root["status"];
}

void write(JsonText& j, std::string_view key, const std::vector<std::string>& values) {
  j.key(key).beginArray();
  for (const auto& each : values) j.value(each);
  j.endArray();
}

}  // namespace

std::string encodeTokenReview(std::string_view token) {
  JsonText j;
  j.beginObject().key("apiVersion").value("authentication.k8s.io/v1").key("kind").value("TokenReview");
  j.key("spec").beginObject().key("token").value(token).endObject();
  return j.endObject().take();
}

base::Result<TokenVerdict> decodeTokenReview(std::string_view json) {
  const auto status = statusOf(json);
  if (!status) return status.status();
  TokenVerdict verdict;
  verdict.authenticated = flagOf(*status, "authenticated");
  verdict.error = textOf(*status, "error");
  const auto user = status->find("user");
  if (user == status->end() || !user->is_object()) return verdict;
  verdict.user.username = textOf(*user, "username");
  verdict.user.uid = textOf(*user, "uid");
  if (user->contains("groups")) verdict.user.groups = textsOf((*user)["groups"]);
  if (const auto extra = user->find("extra"); extra != user->end() && extra->is_object())
    for (const auto& [key, values] : extra->items()) verdict.user.extra.emplace_back(key, textsOf(values));
  return verdict;
}

std::string encodeAccessReview(const Identity& user, std::string_view verb, std::string_view group,
                               std::string_view resource, std::string_view space) {
  JsonText j;
  j.beginObject().key("apiVersion").value("authorization.k8s.io/v1").key("kind").value("SubjectAccessReview");
  j.key("spec").beginObject();
  j.key("user").value(user.username);
  if (!user.uid.empty()) j.key("uid").value(user.uid);
  write(j, "groups", user.groups);
  j.key("extra").beginObject();
  for (const auto& [key, values] : user.extra) write(j, key, values);
  j.endObject();
  j.key("resourceAttributes").beginObject();
  if (!space.empty()) j.key("namespace").value(space);
  j.key("verb").value(verb).key("group").value(group).key("resource").value(resource).endObject();
  return j.endObject().endObject().take();
}

base::Result<AccessVerdict> decodeAccessReview(std::string_view json) {
  const auto status = statusOf(json);
  if (!status) return status.status();
  return AccessVerdict{flagOf(*status, "allowed") && !flagOf(*status, "denied"), textOf(*status, "reason")};
}

}  // namespace egpu::codec
