// Converts the output of a plugin's process to bounded log lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "controller/base/log.h"

namespace egpu::plugin {

/// Splits a stream into lines of at most 2 KiB and logs at most 100 lines per second. A prefix "<0>"…"<3>" sets the
/// level of a line. Not thread-safe.
class OutputLog {
 public:
  explicit OutputLog(std::string plugin) : plugin_(std::move(plugin)) {}
  void append(std::string_view bytes, std::chrono::steady_clock::time_point now);
  /// Returns the last lines, at most 500 bytes, for the message with the reason of the process's end.
  std::string tail() const;
  void clearTail() { tail_.clear(); }

 private:
  void line(std::string_view text, std::chrono::steady_clock::time_point now);

  const std::string plugin_;
  std::string partial_;
  std::deque<std::string> tail_;
  std::chrono::steady_clock::time_point window_{};
  std::size_t inWindow_ = 0;
  std::size_t suppressed_ = 0;
};

}  // namespace egpu::plugin
