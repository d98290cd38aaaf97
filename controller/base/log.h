// Structured logging: a message with key=value pairs. Only log.cpp includes spdlog, because each include of it adds
// seconds of compile time.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace egpu::base::log {

enum class Level { debug, info, warn, error, off };

/// Key and value of a log entry, both as text.
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

/// Sets the minimum log level and the format: one JSON object per line if `json`, otherwise logfmt. Logs go to standard
/// error. Call once from main.
void configure(Level level, bool json);
/// Parses "debug", "info", "warn", "error" or "off". Returns false for any other text and leaves `out` unchanged.
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
