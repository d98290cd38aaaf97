#include "api/v1alpha/pod_amounts.h"

#include <array>
#include <utility>

#include "api/v1alpha/keys.h"

namespace egpu::v1alpha {

namespace {

constexpr std::string_view kStem = "egpu-amounts";
constexpr std::string_view kClassPart = "class-";
constexpr std::size_t kMaxName = 253;

/// Characters allowed in an amount. Other parts (kParts) can contain every character that kEscaped has, besides
/// letters and digits in lower case.
constexpr std::string_view kAmountCharacters = "0123456789abcdefghijklmnopqrstuvwxyzEPTGMK.+-";
/// Characters that need an escape in a name; kEscapes has the character that follows the hyphen for each.
constexpr std::string_view kEscaped = "ABCDEFGHIJKLMNOPQRSTUVWXYZ.+- _/|()";
constexpr std::string_view kEscapes = "abcdefghijklmnopqrstuvwxyz012345678";
static_assert(kEscaped.size() == kEscapes.size());

/// Annotation of MIG instances: their number, 'x' and the profile, as in 2x1g.10gb.
constexpr std::string_view kMig = "mig";

/// An annotation, and the prefix of its part of the name.
struct Part {
  std::string_view annotation, begin;
  bool isAmount;
  std::size_t maxValue() const { return isAmount ? 24 : 100; }
};
constexpr std::array kParts = {
    Part{keys::kGpu, "gpu-", true},
    Part{keys::kGpuCore, "core-", true},
    Part{keys::kGpuMemory, "memory-", true},
    Part{keys::kTflops, "tflops-", true},
    Part{kMig, "mig-", true},
    Part{"model", "model-", false},
    Part{"isolation", "isolation-", false},
    Part{"priority", "priority-", false},
};

bool standsForItself(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

std::string annotation(std::string_view what) { return std::string(keys::kAmountAnnotationPrefix).append(what); }

std::string requestKey(std::string_view what) { return std::string(keys::kGroup).append("/").append(what); }

std::string joined(const std::vector<std::string>& models) {
  std::string text;
  for (std::size_t i = 0; i < models.size(); ++i) text.append(i == 0 ? "" : "|").append(models[i]);
  return text;
}

/// True for a number, 'x' and a profile.
bool namesInstances(const std::string& value) {
  const auto [number, profile] = splitInstances(value);
  return !number.empty() && !profile.empty();
}

std::optional<std::string> instancesOf(const ElasticGPUClaimSpec& spec) {
  const std::string prefix = requestKey(keys::kMigPrefix);
  const auto request = spec.requests.lower_bound(prefix);
  if (request == spec.requests.end() || !request->first.starts_with(prefix)) return std::nullopt;
  return request->second + "x" + request->first.substr(prefix.size());
}

/// Returns the value of a part in the spec, or nullopt.
std::optional<std::string> valueOf(const Part& part, const ElasticGPUClaimSpec& spec) {
  if (part.annotation == kMig) return instancesOf(spec);
  if (part.isAmount) {
    const auto amount = spec.requests.find(requestKey(part.annotation));
    return amount == spec.requests.end() ? std::nullopt : std::optional(amount->second);
  }
  auto value = part.annotation == "model"       ? joined(spec.models)
               : part.annotation == "isolation" ? spec.isolation
                                                : spec.priorityClassName;
  return value.empty() ? std::nullopt : std::optional(std::move(value));
}

void setValue(const Part& part, const std::string& value, ElasticGPUClaimSpec& spec) {
  if (part.annotation == kMig) {
    const auto [number, profile] = splitInstances(value);
    if (namesInstances(value)) spec.requests[requestKey(keys::kMigPrefix) + profile] = number;
  } else if (part.isAmount) {
    spec.requests[requestKey(part.annotation)] = value;
  }
  if (part.annotation == "isolation") spec.isolation = value;
  if (part.annotation == "priority") spec.priorityClassName = value;
  if (part.annotation != "model") return;
  spec.models.clear();
  for (std::size_t at = 0; at <= value.size();) {
    const auto end = std::min(value.find('|', at), value.size());
    spec.models.push_back(value.substr(at, end - at));
    at = end + 1;
  }
}

std::optional<std::string> spell(const Part& part, std::string_view value) {
  if (value.empty() || value.size() > part.maxValue()) return std::nullopt;
  if (part.isAmount && value.find_first_not_of(kAmountCharacters) != std::string_view::npos) return std::nullopt;
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

/// Returns the name that encodes these amounts; empty if they cannot be encoded.
std::string nameOf(const ElasticGPUClaimSpec& spec) {
  std::string name(kStem);
  for (const auto& part : kParts) {
    const auto value = valueOf(part, spec);
    if (!value) continue;
    const auto spelled = spell(part, *value);
    if (!spelled) return {};
    name.append(".").append(part.begin).append(*spelled);
  }
  if (!spec.className.empty()) name.append(".").append(kClassPart).append(spec.className);
  const bool good = !spec.requests.empty() && (spec.className.empty() || isDnsSubdomain(spec.className));
  return good && name.size() <= kMaxName ? name : std::string();
}

/// Converts the annotations to a spec without validation.
ElasticGPUClaimSpec specOf(const StringMap& annotations) {
  ElasticGPUClaimSpec spec;
  for (const auto& part : kParts)
    if (const auto it = annotations.find(annotation(part.annotation)); it != annotations.end())
      setValue(part, it->second, spec);
  if (const auto it = annotations.find(annotation("class")); it != annotations.end()) spec.className = it->second;
  return spec;
}

/// Returns the first annotation with an empty value, which is a mistake and does not mean the default. Amounts are
/// excluded: they are validated as quantities.
std::string emptyOne(const StringMap& annotations) {
  const auto isEmpty = [&](std::string_view what) {
    const auto it = annotations.find(annotation(what));
    return it != annotations.end() && it->second.empty();
  };
  for (const auto& part : kParts)
    if (!part.isAmount && isEmpty(part.annotation)) return annotation(part.annotation);
  return isEmpty("class") ? annotation("class") : std::string();
}

/// Returns the first unknown annotation with our prefix, or an empty string. Sets *any if there is an annotation with
/// our prefix.
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
  auto name = known && emptyOne(annotations).empty() ? nameOf(spec) : std::string();
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
    setValue(part, *value, spec);
    rest.remove_prefix(end);
  }
  if (rest.starts_with('.') && rest.substr(1).starts_with(kClassPart))
    spec.className = rest.substr(1 + kClassPart.size());
  return nameOf(spec) == templateName ? std::optional(std::move(spec)) : std::nullopt;
}

std::optional<FieldError> validateAmounts(const StringMap& annotations) {
  bool any = false;
  const auto field = [](std::string_view key) { return "metadata.annotations[" + std::string(key) + "]"; };
  if (const auto other = unknown(annotations, &any); !other.empty())
    return FieldError{
        field(other),
        "unknown; known are class, gpu, gpu-core, gpu-memory, tflops, mig, model, isolation and priority"};
  if (!any) return std::nullopt;
  if (const auto it = annotations.find(annotation(kMig));
      it != annotations.end() && (!namesInstances(it->second) || it->second.find('+') != std::string::npos))
    return FieldError{field(it->first), "must be a number, x and a MIG profile, such as 2x1g.10gb, with '.' for '+'"};
  if (const auto none = emptyOne(annotations); none != annotation("class") && !none.empty())
    return FieldError{field(none), "is empty: give a value, or leave the annotation out"};
  const auto classKey = annotation("class");
  if (const auto it = annotations.find(classKey); it != annotations.end() && !isDnsSubdomain(it->second))
    return FieldError{field(classKey), "\"" + it->second + "\" is not the name of an ElasticGPUClass"};
  ElasticGPUClaim claim;
  claim.spec = specOf(annotations);
  if (claim.spec.requests.empty())
    return FieldError{field(annotation("gpu-core")), "missing: request gpu, gpu-core, gpu-memory, tflops or mig"};
  if (const auto errors = validate(claim); !errors.empty())
    return FieldError{inAnnotations(errors.front().field), inAnnotations(errors.front().message)};
  for (const auto& part : kParts)
    if (const auto it = annotations.find(annotation(part.annotation));
        it != annotations.end() && !spell(part, it->second))
      return FieldError{field(it->first), it->second.size() > part.maxValue()
                                              ? "at most " + std::to_string(part.maxValue()) + " characters"
                                              : "letters, digits and \" ._/|()+-\" only"};
  if (nameOf(claim.spec).empty())
    return FieldError{field(classKey), "too long: with the amounts, the template's name exceeds " +
                                           std::to_string(kMaxName) + " characters"};
  return std::nullopt;
}

std::optional<FieldError> validateAmounts(std::string_view templateName) {
  auto spec = amountsOf(templateName);
  if (!spec)
    return FieldError{
        "spec.resourceClaims",
        "\"" + std::string(templateName) +
            "\" contains no valid amounts; use egpu-amounts with .gpu-<n>, .core-<percent>, .memory-<n>-gi, "
            ".tflops-<n>, .mig-<n>x<profile>, .model-<model>, .isolation-<isolation>, .priority-<class> and "
            ".class-<class>, "
            "in this order"};
  ElasticGPUClaim claim;
  claim.spec = *std::move(spec);
  const auto errors = validate(claim);
  return errors.empty() ? std::nullopt : std::optional(errors.front());
}

std::string inAnnotations(std::string words) {
  replace(words, "spec.resources.requests[elasticgpu.io/", "metadata.annotations[egpu.elasticgpu.io/");
  replace(words, "spec.egpuClassName", "metadata.annotations[egpu.elasticgpu.io/class]");
  replace(words, "spec.models", "metadata.annotations[egpu.elasticgpu.io/model]");
  replace(words, "spec.isolation", "metadata.annotations[egpu.elasticgpu.io/isolation]");
  replace(words, "spec.priorityClassName", "metadata.annotations[egpu.elasticgpu.io/priority]");
  return words;
}

}  // namespace egpu::v1alpha
