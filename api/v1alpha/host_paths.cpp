#include "api/v1alpha/host_paths.h"

#include <algorithm>

namespace egpu::v1alpha {

namespace {
constexpr std::size_t kMaxPatterns = 64, kMaxPathLength = 4095;
}  // namespace

bool isCleanPath(std::string_view path) {
  if (path.size() < 2 || path.size() > kMaxPathLength || path.front() != '/' || path.back() == '/') return false;
  for (std::size_t at = 1; at <= path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    const auto part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

namespace {

bool hasControls(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto from = text.find_first_not_of(blanks);
  return from == std::string_view::npos ? std::string_view()
                                        : text.substr(from, text.find_last_not_of(blanks) + 1 - from);
}

bool isCdiPattern(std::string_view pattern) {
  const auto slash = pattern.find('/'), equals = pattern.find('=');
  return slash != std::string_view::npos && slash > 0 && equals != std::string_view::npos && equals > slash + 1 &&
         equals + 1 < pattern.size();
}

bool isPattern(std::string_view pattern) {
  if (hasControls(pattern)) return false;
  if (isCdiPattern(pattern) && pattern.front() != '/') return true;
  if (!pattern.empty() && (pattern.back() == '*' || pattern.back() == '/')) pattern.remove_suffix(1);
  while (!pattern.empty() && pattern.back() == '/') pattern.remove_suffix(1);  // "/opt/*"
  return isCleanPath(pattern) && pattern.find('*') == std::string_view::npos;
}

}  // namespace

std::optional<std::vector<std::string>> parseHostPaths(std::string_view text, std::string* wrong) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    std::string pattern(trimmed(text.substr(at, end - at)));
    at = end + 1;
    if (pattern.empty() && text.find(',') == std::string_view::npos) return out;
    if (!isPattern(pattern) || out.size() >= kMaxPatterns) {
      if (wrong != nullptr) *wrong = std::move(pattern);
      return std::nullopt;
    }
    out.push_back(std::move(pattern));
  }
  return out;
}

}  // namespace egpu::v1alpha
