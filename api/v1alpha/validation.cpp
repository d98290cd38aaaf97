#include "api/v1alpha/validation.h"

#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation_rules.h"

namespace egpu::v1alpha {

namespace {

bool isLowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// True for a valid label of a name, of any length.
bool isLabel(std::string_view text) {
  if (text.empty() || !isLowerAlnum(text.front()) || !isLowerAlnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return isLowerAlnum(c) || c == '-'; });
}

}  // namespace

bool isDnsLabel(std::string_view text) { return text.size() <= 63 && isLabel(text); }

bool isDnsSubdomain(std::string_view text) { return text.size() <= 253 && rules::isDottedName(text); }

namespace rules {

bool isDottedName(std::string_view text) {
  for (;;) {
    const std::size_t dot = text.find('.');
    if (!isLabel(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool isMigResource(std::string_view resource) {
  if (!resource.starts_with(keys::kMigPrefix)) return false;
  const auto profile = resource.substr(keys::kMigPrefix.size());
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !profile.empty() && plain(profile.front()) && plain(profile.back()) &&
         std::all_of(profile.begin(), profile.end(), [&](char c) { return plain(c) || c == '-' || c == '.'; });
}

bool hasHugeExponent(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != 'e' && text[i] != 'E') continue;
    std::size_t at = i + 1;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    std::size_t digits = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at, ++digits;
    if (digits >= 3) return true;
  }
  return false;
}

std::optional<Quantity> quantityOf(std::string_view text) {
  return hasHugeExponent(text) ? std::nullopt : parseQuantity(text);
}

}  // namespace rules

FieldErrors validate(const ElasticGPUClass& object) {
  FieldErrors errors;
  if (!isDnsSubdomain(object.provisioner))
    errors.push_back(
        {"provisioner", "must be a DNS subdomain in lower case, such as gpushare.provisioner.elasticgpu.io"});
  if (object.reclaimPolicy != "Retain" && object.reclaimPolicy != "Delete")
    errors.push_back({"reclaimPolicy", "must be Retain or Delete"});
  if (object.bindingMode != "Immediate" && object.bindingMode != "WaitForFirstConsumer")
    errors.push_back({"egpuBindingMode", "must be Immediate or WaitForFirstConsumer"});
  if (object.allowedNamespaces) {
    const auto& expressions = object.allowedNamespaces->matchExpressions;
    for (std::size_t i = 0; i < expressions.size(); ++i)
      if ((expressions[i].op == "In" || expressions[i].op == "NotIn") == expressions[i].values.empty())
        errors.push_back({"allowedNamespaces.matchExpressions[" + std::to_string(i) + "].values",
                          "In and NotIn require values; Exists and DoesNotExist do not allow them"});
  }
  for (std::size_t i = 0; i < object.tolerations.size(); ++i) {
    const auto& toleration = object.tolerations[i];
    const auto field = "tolerations[" + std::to_string(i) + "]";
    if (toleration.key.empty() && toleration.op != "Exists")
      errors.push_back({field + ".operator", "must be Exists if key is empty"});
    if (toleration.op == "Exists" && !toleration.value.empty())
      errors.push_back({field + ".value", "must be empty if operator is Exists"});
  }
  return errors;
}

FieldErrors validateUpdate(const ElasticGPUClass& before, const ElasticGPUClass& after) {
  FieldErrors errors = validate(after);
  const auto immutable = [&](bool same, std::string_view field, std::string_view verb) {
    if (!same)
      errors.push_back(
          {std::string(field), std::string(field) + " " + std::string(verb) + " immutable; create another class"});
  };
  immutable(before.provisioner == after.provisioner, "provisioner", "is");
  immutable(before.parameters == after.parameters, "parameters", "are");
  immutable(before.reclaimPolicy == after.reclaimPolicy, "reclaimPolicy", "is");
  immutable(before.bindingMode == after.bindingMode, "egpuBindingMode", "is");
  return errors;
}

std::string labelValueOf(std::string_view name) {
  constexpr std::size_t kMaxLength = 63, kDigits = 8;
  if (name.size() <= kMaxLength) return std::string(name);
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  std::string value(name.substr(0, kMaxLength - kDigits - 1));
  value += '-';
  for (int shift = 28; shift >= 0; shift -= 4) value += "0123456789abcdef"[(hash >> shift) & 15U];
  return value;
}

}  // namespace egpu::v1alpha
