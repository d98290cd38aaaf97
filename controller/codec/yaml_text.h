// YAML beyond codec.h: JSON as YAML, bodies of strangers, and what a scalar means.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

/// JSON as YAML for people, what `-o yaml` prints and a kubeconfig is written in: block style as kubectl has it, fields
/// in their order. A text stands bare only if it would be read back as that text, so that yamlToJson() gives the same
/// again. What is no JSON is returned as it is.
std::string jsonToYaml(std::string_view json);

/// As yamlDocuments(yaml) of codec.h, but with aliases written out they take at most so many bytes together; more is
/// Code::invalid.
base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml, std::size_t bytes);

/// What a scalar means in JSON, after the YAML 1.1 rules of the Go library that kubectl uses. tag: "?" plain, "!"
/// quoted, or what stands there in full. JSON text of the scalar, or nothing and why.
std::optional<std::string> scalarToJson(std::string_view tag, std::string_view text, std::string& why);

}  // namespace egpu::codec
