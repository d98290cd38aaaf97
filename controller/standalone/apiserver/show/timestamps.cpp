// RFC 3339 times and the short ages that kubectl prints.
#include <array>
#include <string>

#include "controller/standalone/apiserver/show/table.h"

namespace egpu::apiserver {
namespace {

// Days since 1970-01-01 in the proleptic Gregorian calendar; months counted from March, so that the leap day comes
// last.
int64_t daysFromCivil(int64_t year, int month, int day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t yearOfEra = year - era * 400;
  const int64_t dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear;
  return era * 146097 + dayOfEra - 719468;
}

class Digits {
 public:
  explicit Digits(std::string_view text) : rest_(text) {}
  bool failed = false;

  int number(size_t digits) {
    if (rest_.size() < digits) return failed = true, 0;
    int value = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') return failed = true, 0;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return value;
  }
  bool take(std::string_view any) {
    if (rest_.empty() || any.find(rest_.front()) == std::string_view::npos) return false;
    last = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view any) { failed = !take(any) || failed; }
  bool skipDigits() {
    const size_t before = rest_.size();
    while (take("0123456789")) {
    }
    return rest_.size() < before;
  }
  bool atEnd() const { return rest_.empty(); }
  char last = 0;

 private:
  std::string_view rest_;
};

}  // namespace

std::optional<int64_t> parseTimestamp(std::string_view text) {
  Digits d(text);
  const int year = d.number(4);
  d.expect("-");
  const int month = d.number(2);
  d.expect("-");
  const int day = d.number(2);
  d.expect("Tt");
  const int hour = d.number(2);
  d.expect(":");
  const int minute = d.number(2);
  d.expect(":");
  const int second = d.number(2);
  if (d.take(".") && !d.skipDigits()) return std::nullopt;
  int64_t offset = 0;
  if (!d.take("Zz")) {
    d.expect("+-");
    const int sign = d.last == '-' ? -1 : 1;
    const int hours = d.number(2);
    d.expect(":");
    const int minutes = d.number(2);
    if (hours > 23 || minutes > 59) return std::nullopt;
    offset = sign * (int64_t{3600} * hours + int64_t{60} * minutes);
  }
  if (d.failed || !d.atEnd()) return std::nullopt;
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month < 1 || month > 12 || day < 1 || day > kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0))
    return std::nullopt;
  if (hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return daysFromCivil(year, month, day) * 86400 + int64_t{3600} * hour + int64_t{60} * minute + second - offset;
}

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

}  // namespace egpu::apiserver
