#include <algorithm>

#include "api/v1alpha/validation.h"
#include "controller/codec/codec.h"
#include "tests/fuzz/targets.h"

namespace egpu::testing {

namespace {

/// Length of the longest string token in JSON text, in characters, escapes as written.
std::size_t longestString(const std::string& json) {
  std::size_t longest = 0, start = 0;
  bool inside = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (inside && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      if (inside) longest = std::max(longest, i - start);
      start = i;
      inside = !inside;
    }
  }
  return longest;
}

template <class T>
base::Result<T> roundTrip(const std::string& json) {
  auto object = codec::decode<T>(json);
  if (!object) {
    promise(object.status().code() == base::Code::malformed, "what is no object is malformed");
    return object;
  }
  const std::string text = codec::encode(*object);
  const auto again = codec::decode<T>(text);
  promise(again.ok(), "what encode writes decodes");
  promise(codec::encode(*again) == text, "encode after decode is the same text");
  const auto fromYaml = codec::yamlToJson(text);
  // YAML limits keys to 1,024 characters, JSON does not.
  promise(fromYaml.ok() || longestString(text) > 1000, "JSON with keys of a length that YAML takes is YAML");
  return object;
}

template <class T>
void validated(const std::string& json) {
  const auto object = roundTrip<T>(json);
  if (!object) return;
  for (const auto& error : v1alpha::validate(*object))
    promise(!error.field.empty() && !error.message.empty(), "a complaint names its field and says what is valid");
  if (!v1alpha::validate(*object).empty()) return;
  promise(v1alpha::validateUpdate(*object, *object).empty(), "what is valid may be written again");
}

}  // namespace

void fuzzObject(std::string_view bytes) {
  const auto documents = codec::yamlDocuments(bytes);
  if (!documents) {
    promise(documents.status().code() == base::Code::invalid, "what is no YAML is invalid");
    return;
  }
  for (const auto& json : *documents) {
    validated<v1alpha::ElasticGPU>(json);
    validated<v1alpha::ElasticGPUClaim>(json);
    validated<v1alpha::ElasticGPUClass>(json);
    validated<v1alpha::ElasticGPUClaimTemplate>(json);
    validated<v1alpha::ElasticGPUQuota>(json);
    (void)roundTrip<core::Node>(json);
    (void)roundTrip<core::Pod>(json);
    (void)roundTrip<core::ResourceClaim>(json);
    (void)roundTrip<core::ResourceClaimTemplate>(json);
    (void)roundTrip<core::Event>(json);
    (void)roundTrip<core::Lease>(json);
  }
}

}  // namespace egpu::testing
