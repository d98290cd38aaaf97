// What the rules of several kinds share. For validation*.cpp only.
#pragma once

#include <optional>
#include <string_view>

#include "api/v1alpha/quantity.h"

namespace egpu::v1alpha::rules {

/// Labels of lower-case letters, digits and inner hyphens, joined by dots; of any length.
bool isDottedName(std::string_view text);

/// An exponent of three digits or more. The CRDs' rules refuse it, because Kubernetes' parser would compute with all
/// those digits.
bool hasHugeExponent(std::string_view text);

/// A quantity as the rules take it.
std::optional<Quantity> quantityOf(std::string_view text);

}  // namespace egpu::v1alpha::rules
