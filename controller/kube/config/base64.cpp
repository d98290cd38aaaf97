#include "controller/kube/config/base64.h"

#include <cstddef>
#include <cstdint>

namespace egpu::kube {

namespace {
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}

std::optional<std::string> decodeBase64(std::string_view text, std::string& why) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  std::size_t symbols = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    ++symbols;
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding > 0) {
      why = padding > 0 ? "not base64: data after '='" : "not base64";
      return std::nullopt;
    }
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xffffffU;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 0xffU);
    }
  }
  if (symbols % 4 != 0 || padding > 2) {
    why = "not base64: wrong length";
    return std::nullopt;
  }
  return out;
}

std::string encodeBase64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kAlphabet[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

}  // namespace egpu::kube
