// Request targets: percent-encoded path segments and query parameters.
#pragma once

#include <string>
#include <string_view>

namespace egpu::kube {

/// Escapes all characters except RFC 3986's unreserved ones.
inline std::string percentEncode(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') || u == '-' ||
                       u == '.' || u == '_' || u == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += hex[u >> 4];
      out += hex[u & 15];
    }
  }
  return out;
}

/// Appends "?name=value" or "&name=value"; ignores an empty value.
inline void addQuery(std::string& target, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  target += target.find('?') == std::string::npos ? '?' : '&';
  target += name;
  target += '=';
  target += percentEncode(value);
}

}  // namespace egpu::kube
