// What a YAML scalar means in JSON, after the YAML 1.1 rules of the Go library that kubectl uses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace egpu::codec {

/// tag: "?" plain, "!" quoted, or what stands there in full. JSON text of the scalar, or nothing and why.
std::optional<std::string> scalarToJson(std::string_view tag, std::string_view text, std::string& why);

bool isUtf8(std::string_view text);

}  // namespace egpu::codec
