#include "controller/codec/json/text.h"

#include <cassert>
#include <charconv>
#include <cmath>

#include "controller/base/text.h"

namespace egpu::codec {

bool isUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = base::utf8SequenceLength(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

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
  base::appendQuoted(out_, name);
  out_ += ':';
  afterKey_ = true;
  return *this;
}
JsonText& JsonText::value(std::string_view text) {
  comma();
  base::appendQuoted(out_, text);
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
  if (!std::isfinite(number)) return null();  // JSON can't represent infinity and NaN
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
