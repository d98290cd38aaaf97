// The validation rules of the CRDs (CEL), repeated in C++ for the embedded API server and for early errors. The cases
// in tests/crd/cases.yaml verify that both agree.
#pragma once

#include <string>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

/// A violated rule: the field's path from the object's root ("spec.resources.requests[x/gpu-core]") and a message with
/// the valid values.
struct FieldError {
  std::string field;
  std::string message;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;

/// Validates an object by itself.
FieldErrors validate(const ElasticGPU& object);
FieldErrors validate(const ElasticGPUClaim& object);
FieldErrors validate(const ElasticGPUClaimTemplate& object);
FieldErrors validate(const ElasticGPUClass& object);
FieldErrors validate(const ElasticGPUQuota& object);
/// Validates an update; includes the rules on the new object.
FieldErrors validateUpdate(const ElasticGPU& before, const ElasticGPU& after);
FieldErrors validateUpdate(const ElasticGPUClaim& before, const ElasticGPUClaim& after);
FieldErrors validateUpdate(const ElasticGPUClaimTemplate& before, const ElasticGPUClaimTemplate& after);
FieldErrors validateUpdate(const ElasticGPUClass& before, const ElasticGPUClass& after);
/// All fields of a quota are mutable.
inline FieldErrors validateUpdate(const ElasticGPUQuota&, const ElasticGPUQuota& after) { return validate(after); }

bool isDnsLabel(std::string_view text);      ///< RFC 1123 label, 1–63 characters
bool isDnsSubdomain(std::string_view text);  ///< RFC 1123 subdomain, 1–253 characters

/// Returns a label value for a name of up to 253 characters. Above a label's 63 characters, the name is truncated, and
/// eight hexadecimal digits of its hash are appended.
std::string labelValueOf(std::string_view name);

}  // namespace egpu::v1alpha
