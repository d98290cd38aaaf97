#include "tests/crd/case_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <regex>
#include <stdexcept>

#include "controller/base/text.h"

namespace egpu::testing {
namespace {

bool isNull(const YAML::Node& node) { return !node.IsDefined() || node.IsNull(); }

/// RFC 7386. Works on copies: YAML::Node is a reference.
YAML::Node merge(const YAML::Node& target, const YAML::Node& patch) {
  if (!patch.IsMap()) return YAML::Clone(patch);
  YAML::Node merged(YAML::NodeType::Map);
  if (target.IsDefined() && target.IsMap())
    for (const auto& entry : target)
      if (!patch[entry.first.Scalar()].IsDefined()) merged[entry.first.Scalar()] = YAML::Clone(entry.second);
  for (const auto& entry : patch) {
    if (isNull(entry.second)) continue;
    const auto& key = entry.first.Scalar();
    merged[key] = merge(target.IsDefined() && target.IsMap() ? target[key] : YAML::Node(), entry.second);
  }
  return merged;
}

std::string toJson(const YAML::Node& node) {
  if (isNull(node)) return "null";
  std::string out;
  if (node.IsMap()) {
    for (const auto& entry : node)
      out += (out.empty() ? "" : ",") + base::quoted(entry.first.Scalar()) + ":" + toJson(entry.second);
    return "{" + out + "}";
  }
  if (node.IsSequence()) {
    for (const auto& item : node) out += (out.empty() ? "" : ",") + toJson(item);
    return "[" + out + "]";
  }
  static const std::regex number("-?(0|[1-9][0-9]*)([.][0-9]+)?");
  const auto& text = node.Scalar();
  const bool plain = node.Tag() != "!";  // the tag "!" marks a quoted scalar
  if (plain && (text == "true" || text == "false" || std::regex_match(text, number))) return text;
  return base::quoted(text);
}

Case read(const YAML::Node& node, const YAML::Node& bases) {
  Case out;
  out.name = node["name"].Scalar();
  out.operation = node["operation"].Scalar();
  const YAML::Node base = bases[node["base"].Scalar()];
  if (!base.IsDefined()) throw std::runtime_error("cases.yaml: " + out.name + ": unknown base");
  YAML::Node standing = node["start"].IsDefined() ? merge(base, node["start"]) : YAML::Clone(base);
  for (const auto& step : node["history"]) standing.reset(merge(standing, step));
  if (out.operation != "create") out.before = toJson(standing);
  const YAML::Node after = node["change"].IsDefined() ? merge(standing, node["change"]) : standing;
  out.after = toJson(after);
  out.kind = base["kind"].Scalar();
  const YAML::Node reject = node["reject"];
  out.accept = !reject.IsDefined();
  if (!out.accept) {
    out.rule = node["stage"].Scalar() == "rule";
    out.field = reject["field"].Scalar();
    if (reject["contains"].IsDefined()) out.contains = reject["contains"].Scalar();
  }
  return out;
}

}  // namespace

std::vector<Case> readCases() {
  const YAML::Node table = YAML::LoadFile(EGPU_SOURCE_DIR "/tests/crd/cases.yaml");
  std::vector<Case> cases;
  for (const auto& node : table["cases"]) cases.push_back(read(node, table["bases"]));
  if (cases.empty()) throw std::runtime_error("cases.yaml: no cases");
  return cases;
}

bool isAtOrBelow(const std::string& field, const std::string& expected) {
  auto dotted = [](std::string text) {
    std::replace(text.begin(), text.end(), '[', '.');
    text.erase(std::remove(text.begin(), text.end(), ']'), text.end());
    return text + ".";
  };
  return dotted(field).rfind(dotted(expected), 0) == 0;
}

}  // namespace egpu::testing
