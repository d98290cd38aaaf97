// Turns what a plugin's process prints into bounded log lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "controller/base/log.h"

namespace egpu::plugin {

/// Cuts a stream into lines of at most 2 KiB and logs at most 100 lines in a second; "<0>"…"<3>" at a line's start is
/// its level. One thread at a time.
class OutputLog {
 public:
  explicit OutputLog(std::string plugin) : plugin_(std::move(plugin)) {}
  void append(std::string_view bytes, std::chrono::steady_clock::time_point now);
  /// The last lines, for the message that says why the process ended; at most 500 bytes.
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
