#include "controller/standalone/apiserver/kinds/rules.h"

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/codec/codec.h"

namespace egpu::apiserver {
namespace {

// Returns the value at a path such as "spec.requests[a/b].c", or null. Only for messages.
const Json* valueAt(const Json& object, const std::string& field) {
  const Json* at = &object;
  std::size_t i = 0;
  while (i < field.size()) {
    std::string step;
    if (field[i] == '[') {
      std::size_t close = field.find(']', i);
      if (close == std::string::npos) return nullptr;
      step = field.substr(i + 1, close - i - 1);
      i = close + 1;
    } else {
      std::size_t end = field.find_first_of(".[", i);
      if (end == std::string::npos) end = field.size();
      step = field.substr(i, end - i);
      i = end;
    }
    if (i < field.size() && field[i] == '.') ++i;
    if (at->is_array()) {
      std::size_t n = 0;
      for (char c : step) {
        if (c < '0' || c > '9' || n > at->size()) return nullptr;
        n = n * 10 + static_cast<std::size_t>(c - '0');
      }
      if (n >= at->size()) return nullptr;
      at = &(*at)[n];
    } else if (at->is_object()) {
      auto it = at->find(step);
      if (it == at->end()) return nullptr;
      at = &*it;
    } else {
      return nullptr;
    }
  }
  return at;
}

template <class T>
std::vector<FieldError> judge(const Json& object, const Json* old) {
  std::vector<FieldError> out;
  auto now = codec::decode<T>(object.dump());
  if (!now) return {invalidField("", object.value("kind", ""), now.status().message())};
  v1alpha::FieldErrors found;
  if (old) {
    auto before = codec::decode<T>(old->dump());
    if (!before) return {invalidField("", object.value("kind", ""), before.status().message())};
    found = v1alpha::validateUpdate(*before, *now);
  } else {
    found = v1alpha::validate(*now);
  }
  for (const auto& e : found) {
    const Json* value = valueAt(object, e.field);
    if (value && !value->is_structured() && !value->is_null())
      out.push_back(invalidField(e.field, *value, e.message));
    else
      out.push_back({"FieldValueInvalid", e.field, "Invalid value: " + e.message});
  }
  return out;
}

}  // namespace

std::vector<FieldError> validateRules(const Resource& resource, const Json& object, const Json* old) {
  if (resource.group != v1alpha::keys::kGroup) return {};
  if (resource.kind == "ElasticGPU") return judge<v1alpha::ElasticGPU>(object, old);
  if (resource.kind == "ElasticGPUClaim") return judge<v1alpha::ElasticGPUClaim>(object, old);
  if (resource.kind == "ElasticGPUClaimTemplate") return judge<v1alpha::ElasticGPUClaimTemplate>(object, old);
  if (resource.kind == "ElasticGPUClass") return judge<v1alpha::ElasticGPUClass>(object, old);
  if (resource.kind == "ElasticGPUQuota") return judge<v1alpha::ElasticGPUQuota>(object, old);
  return {};
}

}  // namespace egpu::apiserver
