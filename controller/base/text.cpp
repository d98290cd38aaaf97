#include "controller/base/text.h"

#include <algorithm>
#include <string_view>

namespace egpu::base {

namespace {
constexpr std::string_view kGap = " … ";
bool inside(unsigned char byte) { return (byte & 0xC0) == 0x80; }  // a byte of a UTF-8 sequence other than the first

void appendEscaped(std::string& out, char c) {
  static constexpr char hex[] = "0123456789abcdef";
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[c & 0xf];
  }
}
}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto from = text.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::size_t utf8SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto follows = [&](std::size_t i) { return at + i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (lead == 0xED && byte(1) > 0x9F) return 0;  // a surrogate
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

std::string quoted(std::string_view text) {
  std::string out;
  appendQuoted(out, text);
  return out;
}

void appendQuoted(std::string& out, std::string_view text) {
  out += '"';
  std::size_t from = 0;  // start of the text that needs no escape and is not yet copied
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    const std::size_t length = utf8SequenceLength(text, i);
    // JSON allows unescaped C1 controls, but some terminals act on them.
    const bool c1 = length == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length > 1 && !c1) {
      i += length;
      continue;
    }
    out.append(text, from, i - from);
    if (length == 0)
      out += "\xEF\xBF\xBD";  // U+FFFD for a byte that is not UTF-8, so that the JSON is valid
    else
      appendEscaped(out, text[i + length - 1]);  // a C1 character's code is its second byte
    i += std::max<std::size_t>(length, 1);
    from = i;
  }
  out.append(text, from);
  out += '"';
}

std::string shortened(std::string text, std::size_t max) {
  if (text.size() <= max) return text;
  const auto space = max - kGap.size();
  auto head = space - space / 4;
  auto tail = text.size() - space / 4;
  while (head > 0 && inside(static_cast<unsigned char>(text[head]))) --head;
  while (tail < text.size() && inside(static_cast<unsigned char>(text[tail]))) ++tail;
  return text.substr(0, head).append(kGap).append(text, tail);
}

}  // namespace egpu::base
