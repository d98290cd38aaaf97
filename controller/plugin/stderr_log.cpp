#include "controller/plugin/stderr_log.h"

#include <algorithm>

namespace egpu::plugin {
namespace {

constexpr std::size_t kMaxLine = 2048;
constexpr std::size_t kLinesPerSecond = 100;
constexpr std::size_t kTailLines = 3;
constexpr std::size_t kTailBytes = 500;

}  // namespace

void OutputLog::append(std::string_view bytes, std::chrono::steady_clock::time_point now) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    // The rest of a long line is dropped, not wrapped, so that a plugin can't fill the log.
    if (partial_.size() < kMaxLine) partial_.append(part.substr(0, kMaxLine - partial_.size()));
    if (end == std::string_view::npos) return;
    if (!partial_.empty()) line(partial_, now);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void OutputLog::line(std::string_view text, std::chrono::steady_clock::time_point now) {
  auto level = base::log::Level::info;
  if (text.size() > 3 && text[0] == '<' && text[2] == '>' && text[1] >= '0' && text[1] <= '3') {
    level = static_cast<base::log::Level>(text[1] - '0');
    text.remove_prefix(3);
  }
  tail_.emplace_back(text);
  if (tail_.size() > kTailLines) tail_.pop_front();
  if (now - window_ >= std::chrono::seconds(1)) {
    if (suppressed_ > 0) base::log::warn("plugin output suppressed", {{"plugin", plugin_}, {"lines", suppressed_}});
    window_ = now;
    inWindow_ = suppressed_ = 0;
  }
  if (++inWindow_ > kLinesPerSecond) {
    ++suppressed_;
    return;
  }
  if (base::log::enabled(level)) base::log::write(level, text, {{"plugin", plugin_}});
}

std::string OutputLog::tail() const {
  std::string out;
  for (const auto& l : tail_) out += (out.empty() ? "" : " | ") + l;
  if (out.size() > kTailBytes) out = "…" + out.substr(out.size() - kTailBytes);
  return out;
}

}  // namespace egpu::plugin
