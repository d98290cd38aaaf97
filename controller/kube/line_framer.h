// Cuts a byte stream into lines, whatever its chunks: a watch is newline-delimited JSON cut at any byte, inside UTF-8
// too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace egpu::kube {

/// Not thread-safe. Bytes are searched once: only a line that spans chunks is copied.
class LineFramer {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;  ///< one watch event, bytes

  explicit LineFramer(std::size_t maxLine = kMaxLine) : maxLine_(maxLine) {}

  /// Calls `line` (std::string_view → bool, false = stop) for every line that `chunk` completes, without its "\n" or
  /// "\r\n"; empty lines are skipped. False if `line` stopped or a line exceeds the cap (see overflowed()); feed
  /// nothing after that.
  template <class F>
  bool feed(std::string_view chunk, F&& line) {
    while (!chunk.empty()) {
      const std::size_t end = chunk.find('\n');
      const std::string_view piece = chunk.substr(0, end);
      if (tail_.size() + piece.size() > maxLine_) {
        overflowed_ = true;
        return false;
      }
      if (end == std::string_view::npos) {
        tail_.append(piece);
        return true;
      }
      chunk.remove_prefix(end + 1);
      bool more = true;
      if (tail_.empty()) {
        more = emit(piece, line);
      } else {
        tail_.append(piece);
        more = emit(tail_, line);
        tail_.clear();
      }
      if (!more) return false;
    }
    return true;
  }
  /// A line longer than the cap was met.
  bool overflowed() const { return overflowed_; }
  /// Bytes of the unfinished line. At the end of a stream they are a cut-off event: drop them with the framer.
  std::size_t pending() const { return tail_.size(); }

 private:
  template <class F>
  static bool emit(std::string_view text, F& line) {
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    return text.empty() || line(text);
  }

  const std::size_t maxLine_;
  std::string tail_;
  bool overflowed_ = false;
};

}  // namespace egpu::kube
