// Structured logs: a message and key=value pairs. spdlog stays behind log.cpp because it costs seconds per including
// file.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace egpu::base::log {

enum class Level { debug, info, warn, error, off };

/// A key and its value as text.
struct Field {
  std::string_view key;
  std::string value;
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Field(std::string_view k, N v) : key(k), value(std::to_string(v)) {}
};
using Fields = std::initializer_list<Field>;

/// level: below it nothing is written. json: one JSON object a line, else logfmt. To standard error. Call once from
/// main.
void configure(Level level, bool json);
/// "debug" | "info" | "warn" | "error" | "off"; false if unknown.
bool parseLevel(std::string_view text, Level& out);
bool enabled(Level level);
void write(Level level, std::string_view message, Fields fields);

inline void debug(std::string_view m, Fields f = {}) {
  if (enabled(Level::debug)) write(Level::debug, m, f);
}
inline void info(std::string_view m, Fields f = {}) { write(Level::info, m, f); }
inline void warn(std::string_view m, Fields f = {}) { write(Level::warn, m, f); }
inline void error(std::string_view m, Fields f = {}) { write(Level::error, m, f); }

}  // namespace egpu::base::log
