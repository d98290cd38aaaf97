// Amounts that a pod requests by the annotations
// egpu.elasticgpu.io/{class,gpu,gpu-core,gpu-memory,tflops,model,isolation,priority}. They stand for a
// ResourceClaimTemplate whose name encodes them. So an admission policy can compute the name, and every reader can
// verify the template by its name:
//   egpu-amounts[.gpu-<value>][.core-<value>][.memory-<value>][.tflops-<value>][.model-<value>][.isolation-<value>]
//               [.priority-<name of a PriorityClass>][.class-<name of a class>]
// In a value, digits and lower-case letters stand for themselves, "-a" … "-z" for capital letters, "-0" for '.', "-1"
// for '+', "-2" for '-', "-3" for ' ', "-4" for '_', "-5" for '/', "-6" for '|', "-7" for '(' and "-8" for ')'.
// Different amounts have different names. The name of the class is not encoded. `model` can list models separated by
// '|'. manifests/admission/mutating/amounts.yaml implements the same encoding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/v1alpha/types.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

/// Returns the name of the template for a pod's annotations. Empty if the pod has none of these annotations;
/// kUnreadableAmounts if they cannot be encoded or request no amounts. A template of that name is never created. Pure.
std::string amountsTemplate(const StringMap& annotations);
inline constexpr std::string_view kUnreadableAmounts = "egpu-amounts.unreadable";

/// True if the name has the form of an encoded name, even if it does not decode. Such names are reserved for these
/// templates.
bool namesAmounts(std::string_view templateName);

/// Returns the claim spec that the name encodes, with request keys elasticgpu.io/…; values are not validated. nullopt
/// if the name differs from the encoding that amountsTemplate() produces.
std::optional<ElasticGPUClaimSpec> amountsOf(std::string_view templateName);

/// Returns the first mistake in a pod's annotations, or nullopt. Checks that need other objects (class, cards) are not
/// made.
std::optional<FieldError> validateAmounts(const StringMap& annotations);
/// Returns the first mistake in an encoded name, for pods that reference the template directly. The field is the
/// request's.
std::optional<FieldError> validateAmounts(std::string_view templateName);

/// Translates a message about a claim's spec into terms of the annotations that it was made from.
std::string inAnnotations(std::string words);

}  // namespace egpu::v1alpha
