#include "controller/codec/json_text.h"

#include <cassert>
#include <charconv>
#include <cmath>

namespace egpu::codec {

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

namespace {

void appendQuoted(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  std::size_t from = 0;  // start of what needs no escape
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    const std::size_t length = c >= 0x80 ? utf8SequenceLength(text, i) : 0;
    // C1 controls: allowed, and obeyed by some of the terminals that show such a text.
    const bool control = length == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length > 0 && !control) {
      i += length;
      continue;
    }
    out.append(text, from, i - from);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
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
        if (control) {
          const auto code = static_cast<unsigned char>(text[++i]);
          out += "\\u00";
          out += hex[code >> 4];
          out += hex[code & 0xf];
        } else if (c >= 0x80) {
          out += "\xEF\xBF\xBD";  // not UTF-8: the text stays readable and the JSON valid
        } else {
          out += "\\u00";
          out += hex[c >> 4];
          out += hex[c & 0xf];
        }
    }
    from = ++i;
  }
  out.append(text, from);
  out += '"';
}

}  // namespace

void JsonText::comma() {
  if (afterKey_) {
    afterKey_ = false;
    return;
  }
  if (first_.empty()) return;
  if (first_.back()) {
    first_.back() = false;
  } else {
    out_ += ',';
  }
}

JsonText& JsonText::beginObject() {
  comma();
  out_ += '{';
  first_.push_back(true);
  return *this;
}
JsonText& JsonText::endObject() {
  assert(!first_.empty() && !afterKey_);
  first_.pop_back();
  out_ += '}';
  return *this;
}
JsonText& JsonText::beginArray() {
  comma();
  out_ += '[';
  first_.push_back(true);
  return *this;
}
JsonText& JsonText::endArray() {
  assert(!first_.empty() && !afterKey_);
  first_.pop_back();
  out_ += ']';
  return *this;
}
JsonText& JsonText::key(std::string_view name) {
  assert(!first_.empty() && !afterKey_);
  comma();
  appendQuoted(out_, name);
  out_ += ':';
  afterKey_ = true;
  return *this;
}
JsonText& JsonText::value(std::string_view text) {
  comma();
  appendQuoted(out_, text);
  return *this;
}
JsonText& JsonText::value(int64_t number) {
  comma();
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out_.append(digits, end);
  return *this;
}
JsonText& JsonText::value(double number) {
  if (!std::isfinite(number)) return null();  // JSON has no other word for it
  comma();
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out_.append(digits, end);
  return *this;
}
JsonText& JsonText::value(bool flag) {
  comma();
  out_ += flag ? "true" : "false";
  return *this;
}
JsonText& JsonText::null() {
  comma();
  out_ += "null";
  return *this;
}
JsonText& JsonText::raw(std::string_view json) {
  comma();
  out_ += json;
  return *this;
}

}  // namespace egpu::codec
