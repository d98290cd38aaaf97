#include "controller/codec/claim_spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "controller/codec/codec.h"
#include "controller/codec/field_texts.h"
#include "controller/codec/fields_v1alpha.h"

namespace egpu::codec {

namespace {

using base::Code;
using base::Status;
using Json = nlohmann::json;

Json specOf(const v1alpha::ElasticGPUClaimSpec& spec) {
  v1alpha::ElasticGPUClaim claim;
  claim.spec = spec;
  return Json::parse(encode(claim), nullptr, false).value("spec", Json::object());
}

/// Returns the path of a field in `given` that decoding has dropped, because `read` lacks it; empty = none.
std::string lost(const Json& given, const Json& read, const std::string& path) {
  for (const auto& [key, value] : given.items()) {
    if (value.empty() || value == "") continue;  // null, [], {} and "" are equal to an absent field
    auto here = path.empty() ? key : path + "." + key;
    const auto known = read.find(key);
    if (known == read.end()) return here;
    if (value.is_array() && known->is_array())
      for (std::size_t i = 0; i < std::min(value.size(), known->size()); ++i)
        if (value[i].is_object())
          if (auto deeper = lost(value[i], (*known)[i], here + "[" + std::to_string(i) + "]"); !deeper.empty())
            return deeper;
    if (!value.is_object()) continue;
    if (auto deeper = lost(value, *known, here); !deeper.empty()) return deeper;
  }
  return {};
}

}  // namespace

base::Result<v1alpha::ElasticGPUClaimSpec> decodeClaimSpec(std::string_view json) {
  const Json given = Json::parse(json, nullptr, false);
  if (!given.is_object()) return Status(Code::invalid, "must be an object, the spec of an ElasticGPUClaim");
  const auto claim = decode<v1alpha::ElasticGPUClaim>(Json({{"spec", given}}).dump());
  if (!claim) return Status(Code::invalid, claim.status().message());
  if (const auto field = lost(given, specOf(claim->spec), {}); !field.empty())
    return Status(Code::invalid, field + ": the spec of an ElasticGPUClaim has no such field");
  return claim->spec;
}

std::vector<std::string> claimSpecFields() { return internal::namesOf<v1alpha::ElasticGPUClaimSpec>(); }

std::vector<std::string> alternativeFields() { return internal::namesOf<v1alpha::ClaimAlternative>(); }

std::string encodeClaimSpec(const v1alpha::ElasticGPUClaimSpec& spec) { return specOf(spec).dump(); }

}  // namespace egpu::codec
