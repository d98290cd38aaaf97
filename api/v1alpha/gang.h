// A gang, as the annotations of its members say it: claims of one namespace that are decided together, all or none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/core/meta.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

struct Gang {
  static constexpr std::size_t kLeast = 2, kMost = 256;  ///< members
  std::string name;
  std::size_t size = 0;
  std::string topology;  ///< a node label; empty = anywhere
  bool operator==(const Gang&) const = default;
};

/// Nothing: it is of none, or gangMistake() says what is wrong.
std::optional<Gang> gangOf(const core::StringMap& annotations);
/// The first mistake, by the annotation, or nothing: a name of up to 63 characters as a label's value, a size of 2 … 256
/// without sign or leading zero, a label's key; size and topology only with a name.
std::optional<FieldError> gangMistake(const core::StringMap& annotations);

}  // namespace egpu::v1alpha
