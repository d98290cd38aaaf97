#include "api/v1alpha/pod_amounts.h"

#include <array>
#include <utility>

#include "api/v1alpha/keys.h"

namespace egpu::v1alpha {

namespace {

constexpr std::string_view kStem = "egpu-amounts";
constexpr std::string_view kClassPart = "class-";
constexpr std::size_t kLongestValue = 24;
constexpr std::size_t kLongestName = 253;

/// An annotation, and how its part of the name begins.
struct Part {
  std::string_view annotation, begin;
};
constexpr std::array kParts = {Part{keys::kGpu, "gpu-"}, Part{keys::kGpuCore, "core-"},
                               Part{keys::kGpuMemory, "memory-"}};

/// What does not stand for itself in a name, and the letter for it after a hyphen.
constexpr std::string_view kEscaped = "EPTGMK.+-";
constexpr std::string_view kEscapes = "eptgmk012";

bool standsForItself(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

std::string annotation(std::string_view what) { return std::string(keys::kAmountAnnotationPrefix).append(what); }

std::optional<std::string> spell(std::string_view value) {
  if (value.empty() || value.size() > kLongestValue) return std::nullopt;
  std::string name;
  for (const char c : value) {
    const auto escape = kEscaped.find(c);
    if (standsForItself(c))
      name += c;
    else if (escape != std::string_view::npos)
      name.append("-").append(1, kEscapes[escape]);
    else
      return std::nullopt;
  }
  return name;
}

std::optional<std::string> read(std::string_view part) {
  std::string value;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '-') {
      value += part[i];
      continue;
    }
    const auto escape = ++i < part.size() ? kEscapes.find(part[i]) : std::string_view::npos;
    if (escape == std::string_view::npos) return std::nullopt;
    value += kEscaped[escape];
  }
  return value;
}

/// The name of these amounts; empty if it can't be spelled.
std::string nameOf(const ElasticGPUClaimSpec& spec) {
  std::string name(kStem);
  for (const auto& part : kParts) {
    const auto amount = spec.requests.find(std::string(keys::kGroup).append("/").append(part.annotation));
    if (amount == spec.requests.end()) continue;
    const auto value = spell(amount->second);
    if (!value) return {};
    name.append(".").append(part.begin).append(*value);
  }
  if (!spec.className.empty()) name.append(".").append(kClassPart).append(spec.className);
  const bool good = !spec.requests.empty() && (spec.className.empty() || isDnsSubdomain(spec.className));
  return good && name.size() <= kLongestName ? name : std::string();
}

/// As the annotations say it; mistakes and all.
ElasticGPUClaimSpec specOf(const StringMap& annotations) {
  ElasticGPUClaimSpec spec;
  for (const auto& part : kParts)
    if (const auto it = annotations.find(annotation(part.annotation)); it != annotations.end())
      spec.requests[std::string(keys::kGroup).append("/").append(part.annotation)] = it->second;
  if (const auto it = annotations.find(annotation("class")); it != annotations.end()) spec.className = it->second;
  return spec;
}

/// The first annotation of ours that is none of those that are known, or empty; any: there is one of ours.
std::string unknown(const StringMap& annotations, bool* any) {
  for (auto it = annotations.lower_bound(std::string(keys::kAmountAnnotationPrefix));
       it != annotations.end() && it->first.starts_with(keys::kAmountAnnotationPrefix); ++it) {
    *any = true;
    const auto what = std::string_view(it->first).substr(keys::kAmountAnnotationPrefix.size());
    bool known = what == "class";
    for (const auto& part : kParts) known = known || what == part.annotation;
    if (!known) return it->first;
  }
  return {};
}

void replace(std::string& words, std::string_view from, std::string_view to) {
  for (auto at = words.find(from); at != std::string::npos; at = words.find(from, at + to.size()))
    words.replace(at, from.size(), to);
}

}  // namespace

std::string amountsTemplate(const StringMap& annotations) {
  bool any = false;
  const bool known = unknown(annotations, &any).empty();
  if (!any) return {};
  const auto spec = specOf(annotations);
  // An empty class is not the default class: it is a mistake.
  const bool noClass = annotations.contains(annotation("class")) && spec.className.empty();
  auto name = known && !noClass ? nameOf(spec) : std::string();
  return name.empty() ? std::string(kUnreadableAmounts) : name;
}

bool namesAmounts(std::string_view templateName) {
  return templateName.starts_with(kStem) && templateName.substr(kStem.size()).starts_with('.');
}

std::optional<ElasticGPUClaimSpec> amountsOf(std::string_view templateName) {
  if (!namesAmounts(templateName)) return std::nullopt;
  ElasticGPUClaimSpec spec;
  auto rest = templateName.substr(kStem.size());
  for (const auto& part : kParts) {
    if (!rest.starts_with('.') || !rest.substr(1).starts_with(part.begin)) continue;
    rest.remove_prefix(1 + part.begin.size());
    const auto end = std::min(rest.find('.'), rest.size());
    auto value = read(rest.substr(0, end));
    if (!value) return std::nullopt;
    spec.requests[std::string(keys::kGroup).append("/").append(part.annotation)] = *std::move(value);
    rest.remove_prefix(end);
  }
  if (rest.starts_with('.') && rest.substr(1).starts_with(kClassPart))
    spec.className = rest.substr(1 + kClassPart.size());
  return nameOf(spec) == templateName ? std::optional(std::move(spec)) : std::nullopt;
}

std::optional<FieldError> amountsMistake(const StringMap& annotations) {
  bool any = false;
  const auto field = [](std::string_view key) { return "metadata.annotations[" + std::string(key) + "]"; };
  if (const auto other = unknown(annotations, &any); !other.empty())
    return FieldError{field(other), "unknown; known are class, gpu, gpu-core and gpu-memory"};
  if (!any) return std::nullopt;
  const auto classKey = annotation("class");
  if (const auto it = annotations.find(classKey); it != annotations.end() && !isDnsSubdomain(it->second))
    return FieldError{field(classKey), "\"" + it->second + "\" is not the name of an ElasticGPUClass"};
  ElasticGPUClaim claim;
  claim.spec = specOf(annotations);
  if (claim.spec.requests.empty())
    return FieldError{field(annotation("gpu-core")), "missing: say how much, by gpu, gpu-core or gpu-memory"};
  if (const auto errors = validate(claim); !errors.empty())
    return FieldError{inAnnotations(errors.front().field), inAnnotations(errors.front().message)};
  for (const auto& part : kParts)
    if (const auto it = annotations.find(annotation(part.annotation)); it != annotations.end() && !spell(it->second))
      return FieldError{field(it->first), "at most " + std::to_string(kLongestValue) + " characters"};
  if (nameOf(claim.spec).empty())
    return FieldError{field(classKey), "too long: with the amounts it makes a name of more than " +
                                           std::to_string(kLongestName) + " characters"};
  return std::nullopt;
}

std::optional<FieldError> amountsMistake(std::string_view templateName) {
  auto spec = amountsOf(templateName);
  if (!spec)
    return FieldError{"spec.resourceClaims",
                      "\"" + std::string(templateName) +
                          "\" spells no amounts; write egpu-amounts with .gpu-<n>, .core-<percent>, .memory-<n>-gi and "
                          ".class-<class>, in this order"};
  ElasticGPUClaim claim;
  claim.spec = *std::move(spec);
  const auto errors = validate(claim);
  return errors.empty() ? std::nullopt : std::optional(errors.front());
}

std::string inAnnotations(std::string words) {
  replace(words, "spec.resources.requests[elasticgpu.io/", "metadata.annotations[egpu.elasticgpu.io/");
  replace(words, "spec.egpuClassName", "metadata.annotations[egpu.elasticgpu.io/class]");
  return words;
}

}  // namespace egpu::v1alpha
