#include "controller/base/printable.h"

#include <cstddef>

namespace egpu::base {
namespace {

/// Returns the length in bytes of the control character at text[at], or 0 if none begins there.
std::size_t controlAt(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return 1;
  if (byte != 0xc2 || at + 1 >= text.size()) return 0;
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return next >= 0x80 && next <= 0x9f ? 2 : 0;
}

}  // namespace

bool hasControls(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (controlAt(text, i) != 0) return true;
  return false;
}

std::string printable(std::string_view text, char spared) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = controlAt(text, i);
    if (length == 0 || (spared != 0 && text[i] == spared)) {
      out += text[i++];
      continue;
    }
    const auto code = static_cast<unsigned char>(text[i + length - 1]);  // a C1 character's code is its second byte
    out += "\\x";
    out += hex[code >> 4];
    out += hex[code & 0xf];
    i += length;
  }
  return out;
}

}  // namespace egpu::base
