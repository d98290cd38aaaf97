// A gang: claims of one namespace that are decided together, all or none. Annotations of its members or a PodGroup
// describe it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/core/objects.h"
#include "api/v1alpha/validation.h"

namespace egpu::v1alpha {

struct Gang {
  static constexpr std::size_t kMin = 2, kMax = 1024;  ///< members
  std::string name;
  std::size_t size = 0;   ///< exact number of claims; for a PodGroup the minimum number of pods
  std::string topology;   ///< node label; empty = anywhere
  bool podGroup = false;  ///< described by a PodGroup
  /// Name for messages: "gang train", "PodGroup train".
  std::string text() const { return (podGroup ? "PodGroup " : "gang ") + name; }
  bool operator==(const Gang&) const = default;
};

/// Returns the described gang. nullopt if there is none or gangMistake() reports a mistake.
std::optional<Gang> gangOf(const core::StringMap& annotations);
/// Returns the gang of a PodGroup. nullopt if its pods are scheduled independently: no minimum count, or a minimum of 1
/// without a topology.
std::optional<Gang> gangOf(const core::PodGroup& group);
/// Returns the first mistake with its annotation, or nullopt. Valid: a name of at most 63 characters, as a label value;
/// a size of 2 … 1024 without sign or leading zero; a label key as topology. Size and topology need a name. The name of
/// a PodGroup replaces all of these.
std::optional<FieldError> gangMistake(const core::StringMap& annotations);

}  // namespace egpu::v1alpha
