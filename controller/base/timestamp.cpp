#include "controller/base/timestamp.h"

#include <cstddef>
#include <cstdint>

namespace egpu::base {

std::optional<Timestamp> parseRfc3339(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&](std::size_t n, int& out) {
    out = 0;
    for (const std::size_t end = at + n; at < end; ++at) {
      if (at >= text.size() || text[at] < '0' || text[at] > '9') return false;
      out = out * 10 + (text[at] - '0');
    }
    return true;
  };
  const auto one = [&](std::string_view any) {
    if (at >= text.size() || any.find(text[at]) == std::string_view::npos) return false;
    ++at;
    return true;
  };
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!digits(4, year) || !one("-") || !digits(2, month) || !one("-") || !digits(2, day) || !one("Tt") ||
      !digits(2, hour) || !one(":") || !digits(2, minute) || !one(":") || !digits(2, second))
    return std::nullopt;
  std::chrono::microseconds fraction{0};
  if (one(".")) {
    int64_t unit = 100'000;
    const std::size_t begin = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, unit /= 10)
      fraction += std::chrono::microseconds(unit * (text[at] - '0'));
    if (at == begin) return std::nullopt;
  }
  std::chrono::minutes offset{0};
  if (!one("Zz")) {
    const bool west = at < text.size() && text[at] == '-';
    int hours = 0, minutes = 0;
    if (!one("+-") || !digits(2, hours) || !one(":") || !digits(2, minutes) || hours > 23 || minutes > 59)
      return std::nullopt;
    offset = std::chrono::minutes((west ? -1 : 1) * (hours * 60 + minutes));
  }
  const auto date = std::chrono::year(year) / month / day;
  if (at != text.size() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + fraction - offset;
}

int64_t unixSeconds(Timestamp at) {
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
}

int64_t unixSeconds(std::string_view rfc3339) {
  const auto at = parseRfc3339(rfc3339);
  return at ? unixSeconds(*at) : 0;
}

}  // namespace egpu::base
