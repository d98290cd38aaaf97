// A gang, as the annotations of its members say it, or a PodGroup: claims of one namespace that are decided together, all or none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

struct Gang {
  static constexpr std::size_t kLeast = 2, kMost = 1024;  ///< members
  std::string name;
  std::size_t size = 0;   ///< claims, exactly; of a PodGroup pods, at least, whatever each of them claims
  std::string topology;   ///< a node label; empty = anywhere
  bool podGroup = false;  ///< it is a PodGroup's
  /// For people: "gang train", "PodGroup train".
  std::string text() const { return (podGroup ? "PodGroup " : "gang ") + name; }
  bool operator==(const Gang&) const = default;
};

/// As the annotations say it themselves. Nothing: they don't, or gangMistake() says what is wrong.
std::optional<Gang> gangOf(const core::StringMap& annotations);
/// As the PodGroup says it. Nothing: its pods are scheduled each by itself, or one is enough wherever it goes.
std::optional<Gang> gangOf(const core::PodGroup& group);
/// The first mistake, by the annotation, or nothing: a name of up to 63 characters as a label's value, a size of 2 … 1024
/// without sign or leading zero, a label's key; size and topology only with a name; instead of all of these a PodGroup's name.
std::optional<FieldError> gangMistake(const core::StringMap& annotations);

}  // namespace egpu::v1alpha
