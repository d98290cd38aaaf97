// YAML functions besides those in codec.h: JSON as YAML, a size limit for untrusted bodies, and the value of a scalar.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

/// Converts JSON to YAML for people, as for `-o yaml` and kubeconfigs: block style as in kubectl, fields in their
/// order. A string has no quotes only if it would be read as the same string, so that yamlToJson() returns the same
/// value. Text that is not JSON is returned unchanged.
std::string jsonToYaml(std::string_view json);

/// Like yamlDocuments(yaml) in codec.h, but fails with Code::invalid if all documents together have more than `bytes`
/// bytes after aliases are expanded.
base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml, std::size_t bytes);

/// Returns a YAML scalar as JSON text, by the YAML 1.1 rules of the Go library that kubectl uses. tag: "?" = plain, "!"
/// = quoted, otherwise the complete tag. Returns nullopt and sets `why` if the scalar has no JSON value.
std::optional<std::string> scalarToJson(std::string_view tag, std::string_view text, std::string& why);

}  // namespace egpu::codec
