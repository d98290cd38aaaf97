// Formats ages as kubectl prints them.
#include <chrono>
#include <string>

#include "controller/base/timestamp.h"
#include "controller/standalone/apiserver/show/table.h"

namespace egpu::apiserver {

std::string humanDuration(int64_t seconds) {
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  auto two = [](int64_t a, const char* unitA, int64_t b, const char* unitB) {
    return std::to_string(a) + unitA + (b ? std::to_string(b) + unitB : "");
  };
  if (seconds < 120) return std::to_string(seconds) + "s";
  const int64_t minutes = seconds / 60;
  if (minutes < 10) return two(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return std::to_string(minutes) + "m";
  const int64_t hours = minutes / 60;
  if (hours < 8) return two(hours, "h", minutes % 60, "m");
  if (hours < 48) return std::to_string(hours) + "h";
  const int64_t days = hours / 24;
  if (hours < 192) return two(days, "d", hours % 24, "h");
  if (days < 730) return std::to_string(days) + "d";
  const int64_t years = days / 365;
  if (days < 2920) return two(years, "y", days % 365, "d");
  return std::to_string(years) + "y";
}

std::optional<std::string> ageSince(std::string_view timestamp, int64_t now) {
  const auto then = base::parseRfc3339(timestamp);
  if (!then) return std::nullopt;
  return humanDuration(now - std::chrono::floor<std::chrono::seconds>(*then).time_since_epoch().count());
}

}  // namespace egpu::apiserver
