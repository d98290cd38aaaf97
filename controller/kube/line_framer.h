// Splits a byte stream into lines, independent of its chunks: a watch is newline-delimited JSON, and chunks may end at
// any byte, even inside a UTF-8 character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace egpu::kube {

/// Not thread-safe. Searches each byte once, and copies only lines that span chunks.
class LineFramer {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;  ///< one watch event, bytes

  explicit LineFramer(std::size_t maxLine = kMaxLine) : maxLine_(maxLine) {}

  /// Calls `line` (std::string_view → bool, false = stop) for every line that `chunk` completes, without its "\n" or
  /// "\r\n"; skips empty lines. Returns false if `line` stopped or a line exceeds the limit (see overflowed()); do not
  /// feed more after that.
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
  /// True if a line exceeded the limit.
  bool overflowed() const { return overflowed_; }
  /// Returns the bytes of the unfinished line. At the end of a stream they are a truncated event: drop them with the
  /// framer.
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
