#include "controller/kubectl/check/expected.h"

#include <set>

#include "controller/codec/codec.h"

namespace egpu::kubectl {

namespace {

std::vector<Json> readAll() {
  std::vector<Json> all;
  for (const auto text : manifestTexts())
    if (const auto documents = codec::yamlDocuments(text))
      for (const auto& document : *documents) all.push_back(Json::parse(document));
  return all;
}

void collect(const Json& schema, std::set<std::string>& rules) {
  if (schema.is_array()) {
    for (const auto& each : schema) collect(each, rules);
  } else if (schema.is_object()) {
    for (const auto& rule : at(schema, {"x-kubernetes-validations"})) rules.insert(textAt(rule, {"rule"}));
    for (const auto& [key, value] : schema.items())
      if (key != "x-kubernetes-validations") collect(value, rules);
  }
}

}  // namespace

std::vector<Json> expectedObjects(const std::string& kind) {
  static const std::vector<Json> all = readAll();
  std::vector<Json> found;
  for (const auto& each : all)
    if (textAt(each, {"kind"}) == kind) found.push_back(each);
  return found;
}

std::vector<std::string> celRules(const Json& crd) {
  std::set<std::string> rules;
  for (const auto& version : at(crd, {"spec", "versions"})) collect(at(version, {"schema"}), rules);
  return {rules.begin(), rules.end()};
}

}  // namespace egpu::kubectl
