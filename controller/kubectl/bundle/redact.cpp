#include "controller/kubectl/bundle/redact.h"

#include <re2/re2.h>

#include <array>
#include <utility>

#include "api/v1alpha/remote.h"

namespace egpu::kubectl {

namespace {

/// Annotations of these domains contain no secrets: ours, and those that Kubernetes itself writes.
bool isKnownAnnotation(const std::string& key) {
  const auto domain = key.substr(0, key.find('/'));
  static const char* const kDomains[] = {"elasticgpu.io", "resource.kubernetes.io", "scheduling.k8s.io"};
  if (key == "kubernetes.io/config.source" || key == "deployment.kubernetes.io/revision") return true;
  for (const std::string known : kDomains)
    if (domain == known || domain.ends_with("." + known)) return true;
  return false;
}

/// True if a field of this name may hold a secret, whatever the object.
bool isTellingName(const std::string& name) {
  static const RE2 telling("(?i)(passw|secret|token|credential|api[-_.]?key|private[-_.]?key|access[-_.]?key|auth)");
  return RE2::PartialMatch(name, telling);
}

void redactEnvironment(Json& variables) {
  if (!variables.is_array()) return;
  for (auto& variable : variables)
    if (variable.is_object() && variable.contains("value") && textAt(variable, {"name"}) != "NVIDIA_VISIBLE_DEVICES")
      variable["value"] = kRemoved;
}

void redactContainer(Json& container) {
  for (const char* field : {"command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
    if (container.contains(field)) container[field] = kRemoved;
  if (container.contains("env")) redactEnvironment(container["env"]);
}

void redactAnnotations(Json& annotations) {
  if (!annotations.is_object()) return;
  for (auto& [key, value] : annotations.items())
    if (!isKnownAnnotation(key)) value = kRemoved;
}

void walk(Json& value) {
  if (value.is_string()) {
    value = redactedText(value.get<std::string>());
  } else if (value.is_array()) {
    for (auto& each : value) walk(each);
  } else if (value.is_object()) {
    value.erase("managedFields");
    for (auto& [key, child] : value.items()) {
      if (key == "annotations") redactAnnotations(child);
      if ((key == "containers" || key == "initContainers" || key == "ephemeralContainers") && child.is_array())
        for (auto& container : child)
          if (container.is_object()) redactContainer(container);
      if (key == "remote" && !textAt(child, {"endpoint"}).empty())
        child["endpoint"] = v1alpha::withoutSecrets(textAt(child, {"endpoint"}));
      if (key == "parameters" && child.is_object())
        for (auto& [name, parameter] : child.items())
          if (isTellingName(name)) parameter = kRemoved;
      walk(child);
    }
  }
}

}  // namespace

Json redacted(Json object) {
  walk(object);
  return object;
}

std::string redactedText(const std::string& text) {
  struct Rule {
    RE2 pattern;
    const char* replacement;
  };
  static const std::array<Rule, 7> rules = {{
      {RE2("(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)"), "<removed>"},
      {RE2("eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}(\\.[A-Za-z0-9_-]*)?"), "<removed>"},
      {RE2("(?i)\\b(bearer|basic)\\s+[A-Za-z0-9._~+/=-]{8,}"), "\\1 <removed>"},
      {RE2("([a-z][a-z0-9+.-]*://)[^/\\s\"'@]+@"), "\\1<removed>@"},
      {RE2("(?i)((?:passw(?:or)?d|secret|token|api[-_]?key|access[-_]?key|credentials?)[\"']?\\s*[=:]\\s*)"
           "(\"[^\"]*\"|'[^']*'|[^\\s,;&\"'}]+)"),
       "\\1<removed>"},
      {RE2("\\b(AKIA|ASIA)[A-Z0-9]{16}\\b"), "<removed>"},
      {RE2("\\b(gh[pousr]_|hf_|sk-)[A-Za-z0-9_-]{16,}"), "<removed>"},
  }};
  std::string out = text;
  for (const auto& rule : rules) RE2::GlobalReplace(&out, rule.pattern, rule.replacement);
  return out;
}

}  // namespace egpu::kubectl
