// JSON as YAML for people: what `-o yaml` prints and a kubeconfig is written in.
#pragma once

#include <string>
#include <string_view>

namespace egpu::codec {

/// Block style as kubectl has it, fields in their order. A text stands bare only if it would be read back as that text,
/// so that yamlToJson() gives the same again. What is no JSON is returned as it is.
std::string jsonToYaml(std::string_view json);

}  // namespace egpu::codec
