// YAML from whoever may ask: read no further than it is worth.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::codec {

/// As yamlDocuments(yaml) of codec.h, but with aliases written out they take at most so many bytes together; more is
/// Code::invalid.
base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml, std::size_t bytes);

}  // namespace egpu::codec
