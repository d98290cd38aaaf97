#include "api/v1alpha/gang.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "api/v1alpha/keys.h"

namespace egpu::v1alpha {
namespace {

std::string_view valueOf(const core::StringMap& annotations, std::string_view key) {
  const auto it = annotations.find(std::string(key));
  return it == annotations.end() ? std::string_view() : std::string_view(it->second);
}

FieldError mistake(std::string_view key, std::string message) {
  return {"metadata.annotations[" + std::string(key) + "]", std::move(message)};
}

/// Returns the size, or 0 if the text is not a valid one.
std::size_t sizeOf(std::string_view text) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool whole = !text.empty() && error == std::errc() && end == text.data() + text.size() && text.front() != '0';
  return whole && size >= Gang::kMin && size <= Gang::kMax ? size : 0;
}

/// True for a valid label value or name part of a label key.
bool isLabelName(std::string_view text) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= 63 && plain(text.front()) && plain(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

bool isLabelKey(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return isLabelName(text);
  return isDnsSubdomain(text.substr(0, slash)) && isLabelName(text.substr(slash + 1));
}

}  // namespace

std::optional<FieldError> gangMistake(const core::StringMap& annotations) {
  const auto has = [&](std::string_view key) { return annotations.contains(std::string(key)); };
  if (has(keys::kGangPodGroupAnnotation)) {
    if (has(keys::kGangAnnotation))
      return mistake(keys::kGangPodGroupAnnotation,
                     "conflicts with " + std::string(keys::kGangAnnotation) + ": remove one of the two");
    if (!isDnsSubdomain(valueOf(annotations, keys::kGangPodGroupAnnotation)))
      return mistake(keys::kGangPodGroupAnnotation, "must be the name of a PodGroup");
  }
  if (!has(keys::kGangAnnotation)) {
    for (const auto key : {keys::kGangSizeAnnotation, keys::kGangTopologyAnnotation})
      if (has(key)) return mistake(key, "is valid only together with " + std::string(keys::kGangAnnotation));
    return std::nullopt;
  }
  if (!isLabelName(valueOf(annotations, keys::kGangAnnotation)))
    return mistake(keys::kGangAnnotation,
                   "must be a name of 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends");
  if (!has(keys::kGangSizeAnnotation) || sizeOf(valueOf(annotations, keys::kGangSizeAnnotation)) == 0)
    return mistake(keys::kGangSizeAnnotation, "must be the number of claims in the gang: " +
                                                  std::to_string(Gang::kMin) + " to " + std::to_string(Gang::kMax));
  if (has(keys::kGangTopologyAnnotation) && !isLabelKey(valueOf(annotations, keys::kGangTopologyAnnotation)))
    return mistake(keys::kGangTopologyAnnotation, "must be the key of a node label, as topology.kubernetes.io/zone");
  return std::nullopt;
}

std::optional<Gang> gangOf(const core::PodGroup& group) {
  if (group.minCount < 1 || (group.minCount == 1 && group.topology.empty())) return std::nullopt;
  return Gang{group.metadata.name, static_cast<std::size_t>(group.minCount), group.topology, true};
}

std::optional<Gang> gangOf(const core::StringMap& annotations) {
  if (!annotations.contains(std::string(keys::kGangAnnotation)) || gangMistake(annotations)) return std::nullopt;
  return Gang{std::string(valueOf(annotations, keys::kGangAnnotation)),
              sizeOf(valueOf(annotations, keys::kGangSizeAnnotation)),
              std::string(valueOf(annotations, keys::kGangTopologyAnnotation))};
}

}  // namespace egpu::v1alpha
