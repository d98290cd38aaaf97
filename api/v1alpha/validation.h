// The rules that the CRDs state in CEL, once more in C++: for the embedded API server and for early errors.
// One table of cases (tests/crd/cases.yaml) holds both to the same answers.
#pragma once

#include <string>
#include <vector>

#include "api/v1alpha/types.h"

namespace egpu::v1alpha {

/// One broken rule: the field's path from the object's root ("spec.resources.requests[x/gpu-core]") and what would be
/// valid.
struct FieldError {
  std::string field;
  std::string message;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;

/// Rules on the object alone.
FieldErrors validate(const ElasticGPU& object);
FieldErrors validate(const ElasticGPUClaim& object);
FieldErrors validate(const ElasticGPUClaimTemplate& object);
FieldErrors validate(const ElasticGPUClass& object);
FieldErrors validate(const ElasticGPUQuota& object);
/// Rules on a transition; includes the rules on the new object.
FieldErrors validateUpdate(const ElasticGPU& before, const ElasticGPU& after);
FieldErrors validateUpdate(const ElasticGPUClaim& before, const ElasticGPUClaim& after);
FieldErrors validateUpdate(const ElasticGPUClaimTemplate& before, const ElasticGPUClaimTemplate& after);
FieldErrors validateUpdate(const ElasticGPUClass& before, const ElasticGPUClass& after);
/// Everything of a quota may change.
inline FieldErrors validateUpdate(const ElasticGPUQuota&, const ElasticGPUQuota& after) { return validate(after); }

bool isDnsLabel(std::string_view text);      ///< RFC 1123 label, 1–63 characters
bool isDnsSubdomain(std::string_view text);  ///< RFC 1123 subdomain, 1–253 characters

/// The value of a label that stands for this name: the name itself, or, as a label takes 63 characters and a name 253,
/// its beginning and eight hexadecimal digits made of all of it.
std::string labelValueOf(std::string_view name);

}  // namespace egpu::v1alpha
