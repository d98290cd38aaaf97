// A writer of JSON text for modules that answer JSON without a JSON library (allocation map, logs of decisions).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::codec {

bool isUtf8(std::string_view text);

/// Text that is not UTF-8 is written with U+FFFD in its place, so that the output is JSON whatever comes in.
/// Streams one JSON value. Misuse (a value without a key in an object) asserts in debug builds. Not thread-safe.
class JsonText {
 public:
  JsonText& beginObject();
  JsonText& endObject();
  JsonText& beginArray();
  JsonText& endArray();
  JsonText& key(std::string_view name);
  JsonText& value(std::string_view text);
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  JsonText& value(int64_t number);
  JsonText& value(int number) { return value(static_cast<int64_t>(number)); }
  JsonText& value(double number);
  JsonText& value(bool flag);
  JsonText& null();
  JsonText& raw(std::string_view json);  ///< already JSON
  /// The text so far; moved out.
  std::string take() { return std::move(out_); }

 private:
  void comma();
  std::string out_;
  std::vector<bool> first_;
  bool afterKey_ = false;
};

}  // namespace egpu::codec
