// Rules shared by several kinds. For validation*.cpp only.
#pragma once

#include <optional>
#include <string_view>

#include "api/v1alpha/quantity.h"

namespace egpu::v1alpha::rules {

/// True for labels of lower-case letters, digits and inner hyphens, joined by dots, of any length.
bool isDottedName(std::string_view text);

/// True for "mig-" and a profile: lower-case letters, digits, '-' and '.'.
bool isMigResource(std::string_view resource);

/// True for an exponent of three digits or more. The CRDs' rules reject it, because Kubernetes' parser would compute
/// with all those digits.
bool hasHugeExponent(std::string_view text);

/// Parses a quantity; nullopt also for exponents that the rules reject.
std::optional<Quantity> quantityOf(std::string_view text);

}  // namespace egpu::v1alpha::rules
