// Amounts that a pod asks for by its annotations egpu.elasticgpu.io/{class,gpu,gpu-core,gpu-memory,tflops,model,isolation,
// priority}. They stand for a ResourceClaimTemplate whose name spells them, so that an admission policy can name it and
// every reader knows from the name alone what it must contain:
//   egpu-amounts[.gpu-<value>][.core-<value>][.memory-<value>][.tflops-<value>][.model-<value>][.isolation-<value>]
//               [.priority-<name of a PriorityClass>][.class-<name of a class>]
// In a value, digits and small letters stand for themselves, "-a" … "-z" for capital letters, "-0" for '.', "-1" for
// '+', "-2" for '-', "-3" for ' ', "-4" for '_', "-5" for '/', "-6" for '|', "-7" for '(' and "-8" for ')': different
// amounts never have the same name. The name of the class stands as it is. `model` may name several models, separated by
// '|'. manifests/admission/mutating/amounts.yaml spells the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/v1alpha/types.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

/// Of a pod's annotations: the template that they stand for; empty: none of them is ours. What can't be spelled, or says
/// no amounts, stands for kUnreadableAmounts, which is never made. Pure.
std::string amountsTemplate(const StringMap& annotations);
inline constexpr std::string_view kUnreadableAmounts = "egpu-amounts.unreadable";

/// Whether the name is one that amounts spell, or kUnreadableAmounts, or looks like one: nobody else's template is called so.
bool namesAmounts(std::string_view templateName);

/// The claim's spec that the name spells, with request keys elasticgpu.io/…; its values are not judged. Nothing: the
/// name is not exactly as amountsTemplate() writes it.
std::optional<ElasticGPUClaimSpec> amountsOf(std::string_view templateName);

/// The first mistake in a pod's annotations, by the annotation, or nothing. What needs other objects (class, cards) is
/// not looked at.
std::optional<FieldError> amountsMistake(const StringMap& annotations);
/// The same of what a name spells, for pods that name it by themselves. The field is the request's.
std::optional<FieldError> amountsMistake(std::string_view templateName);

/// Words about a claim's spec, in terms of the annotations that it was made of.
std::string inAnnotations(std::string words);

}  // namespace egpu::v1alpha
