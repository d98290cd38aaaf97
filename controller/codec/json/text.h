// Writes JSON text without a JSON library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::codec {

bool isUtf8(std::string_view text);

/// Writes one JSON value piece by piece. Bytes that are not UTF-8 become U+FFFD, so that the output is always valid
/// JSON. Asserts some kinds of misuse in debug builds, such as a key outside an object. Not thread-safe.
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
  JsonText& raw(std::string_view json);  ///< writes text that is already JSON
  /// Moves the text out.
  std::string take() { return std::move(out_); }

 private:
  void comma();
  std::string out_;
  std::vector<bool> first_;
  bool afterKey_ = false;
};

}  // namespace egpu::codec
