#include "api/v1alpha/quantity.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace egpu::v1alpha {

namespace {

constexpr int64_t kMax = INT64_MAX;
constexpr __int128 kMaxNano = static_cast<__int128>(kMax) * kNano;

/// Factor of a suffix: 10^decimal · 2^binary.
struct Scale {
  int64_t decimal = 0;
  int binary = 0;
};

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Returns the suffix's factor, or nullopt for an unknown suffix.
std::optional<Scale> scaleOf(std::string_view suffix) {
  if (suffix.empty()) return Scale{};
  struct KnownSuffix {
    std::string_view text;
    Scale scale;
  };
  static constexpr std::array<KnownSuffix, 15> known{{{"n", {-9, 0}},
                                                      {"u", {-6, 0}},
                                                      {"m", {-3, 0}},
                                                      {"k", {3, 0}},
                                                      {"M", {6, 0}},
                                                      {"G", {9, 0}},
                                                      {"T", {12, 0}},
                                                      {"P", {15, 0}},
                                                      {"E", {18, 0}},
                                                      {"Ki", {0, 10}},
                                                      {"Mi", {0, 20}},
                                                      {"Gi", {0, 30}},
                                                      {"Ti", {0, 40}},
                                                      {"Pi", {0, 50}},
                                                      {"Ei", {0, 60}}}};
  for (const auto& [text, scale] : known)
    if (text == suffix) return scale;
  // Otherwise e or E must begin an exponent.
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  std::size_t at = 1;
  const bool negative = suffix[at] == '-';
  if (suffix[at] == '-' || suffix[at] == '+') ++at;
  if (at == suffix.size()) return std::nullopt;
  int64_t exponent = 0;
  constexpr int64_t enough = 1'000'000'000;  // with larger exponents, every value is 0, one nano or the cap
  for (; at < suffix.size(); ++at) {
    if (!isDigit(suffix[at])) return std::nullopt;
    exponent = exponent * 10 + (suffix[at] - '0');
    if (exponent > enough) exponent = enough;
  }
  return Scale{negative ? -exponent : exponent, 0};
}

/// Returns a suggestion such as "GB is no suffix: G or Gi", or an empty string. Kubernetes' suffixes have no B and are
/// case-sensitive.
std::string meantBy(std::string_view suffix) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  auto rest = suffix;
  if (rest.size() > 1 && upper(rest.back()) == 'B') rest.remove_suffix(1);
  const bool binary = rest.size() == 2 && upper(rest[1]) == 'I';
  const auto at = rest.empty() ? std::string_view::npos : std::string_view("KMGTPE").find(upper(rest[0]));
  if (at == std::string_view::npos || (rest.size() != 1 && !binary)) return {};
  const auto with = std::string(1, upper(rest[0])) + "i";
  const auto without = upper(rest[0]) == 'K' ? std::string("k") : std::string(1, upper(rest[0]));
  return std::string(suffix) + " is no suffix: " + (binary ? with : without + " or " + with);
}

}  // namespace

namespace {

/// Returns the value in units of `nanosPerUnit` nanos if it is a whole number that fits int64.
std::optional<int64_t> exactlyIn(__int128 nanosPerUnit, __int128 nano) {
  if (nano % nanosPerUnit != 0) return std::nullopt;
  const __int128 whole = nano / nanosPerUnit;
  if (whole > kMax || whole < INT64_MIN) return std::nullopt;
  return static_cast<int64_t>(whole);
}

}  // namespace

std::optional<int64_t> Quantity::asInteger() const { return exactlyIn(kNano, nano); }
std::optional<int64_t> Quantity::asMilli() const { return exactlyIn(kNano / 1000, nano); }

int64_t Quantity::ceil() const {
  __int128 whole = nano / kNano;
  if (nano > 0 && nano % kNano != 0) ++whole;
  if (whole > kMax) return kMax;
  if (whole < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(whole);
}

namespace {

/// The parts of a quantity's text; the views are into it.
struct Spelling {
  bool negative = false;
  bool point = false;
  std::string_view whole, fraction;  ///< digits before and after the point
  std::string_view suffix;           ///< the rest of the text
};

Spelling takeApart(std::string_view text) {
  Spelling out;
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && isDigit(text[at])) ++at;
    return text.substr(from, at - from);
  };
  out.negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') ++at;
  out.whole = digits();
  out.point = at < text.size() && text[at] == '.';
  if (out.point) {
    ++at;
    out.fraction = digits();
  }
  out.suffix = text.substr(at);
  return out;
}

/// Uses the limits of Kubernetes' fast parsing path. Beyond them, Kubernetes regards no quantity as an integer.
bool isWrittenWhole(const Spelling& spelling, const Scale& scale) {
  const auto& [negative, point, whole, fraction, suffix] = spelling;
  const std::size_t significant = whole.size() - std::min(whole.find_first_not_of('0'), whole.size());
  const auto length = static_cast<int64_t>(std::max<std::size_t>(significant, 1) + fraction.size());
  const int64_t digits = scale.binary == 0 ? 18 - length : fraction.empty() ? 14 - length - scale.binary * 3 / 10 : -1;
  return digits >= 0 && scale.decimal >= static_cast<int64_t>(fraction.size());
}

/// Doubles a decimal number digit by digit, because it can exceed every machine word.
void doubleDigits(std::string& digits) {
  int carry = 0;
  for (std::size_t k = digits.size(); k-- > 0;) {
    const int twice = (digits[k] - '0') * 2 + carry;
    digits[k] = static_cast<char>('0' + twice % 10);
    carry = twice / 10;
  }
  if (carry != 0) digits.insert(digits.begin(), static_cast<char>('0' + carry));
}

/// Returns digits · 10^exponent · 2^binary, rounded up. Results above kMaxNano are returned as kMaxNano + 1. `digits`
/// has no leading zeros.
__int128 magnitudeOf(std::string digits, int64_t exponent, int binary) {
  // 28 digits of nanos hold the cap. Values that are certainly above or below need no arithmetic.
  const int64_t places = static_cast<int64_t>(digits.size()) + exponent;
  if (places > 28) return kMaxNano + 1;
  if (places + binary / 3 + 1 < 0) return 1;

  for (int i = 0; i < binary; ++i) doubleDigits(digits);
  bool remainder = false;
  while (exponent < 0 && !digits.empty()) {
    remainder = remainder || digits.back() != '0';
    digits.pop_back();
    ++exponent;
  }
  if (exponent < 0) exponent = 0;  // no digits are left
  if (static_cast<int64_t>(digits.size()) + exponent > 28) return kMaxNano + 1;
  __int128 magnitude = 0;
  for (const char c : digits) magnitude = magnitude * 10 + (c - '0');
  for (int64_t i = 0; i < exponent && magnitude != 0; ++i) magnitude *= 10;
  return remainder ? magnitude + 1 : magnitude;  // finer than a nano: rounded away from zero
}

}  // namespace

std::optional<Quantity> parseQuantity(std::string_view text, std::string* error) {
  const auto refuse = [&](std::string_view why) -> std::optional<Quantity> {
    if (error) *error = why;
    return std::nullopt;
  };
  if (text.empty())
    return refuse("empty; a quantity is a number and an optional suffix, such as 4, 500m, 1.5Gi or 1e3");
  const Spelling spelling = takeApart(text);
  const auto& [negative, point, whole, fraction, suffix] = spelling;
  const auto scale = scaleOf(suffix);
  if (!scale) {
    if (auto meant = meantBy(suffix); !meant.empty()) return refuse(meant);
    return refuse("suffix \"" + std::string(suffix) +
                  "\" is none of n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent such as e3");
  }
  // Kubernetes' fast parsing path reads a number without digits as 0, its exact path rejects it.
  if (whole.empty() && fraction.empty() && (scale->binary > 40 || scale->decimal < -9)) return refuse("has no digits");

  Quantity out;
  out.form = !suffix.empty() ? QuantityForm::suffixed : point ? QuantityForm::bareDecimal : QuantityForm::bareInteger;
  out.writtenWhole = isWrittenWhole(spelling, *scale);
  std::string digits(whole);
  digits += fraction;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty()) return out;
  const int64_t exponent = scale->decimal - static_cast<int64_t>(fraction.size()) + 9;  // exponent in nanos
  __int128 magnitude = magnitudeOf(std::move(digits), exponent, scale->binary);
  if (magnitude > kMaxNano) {
    magnitude = kMaxNano;
    out.writtenWhole = false;
  }
  out.nano = negative ? -magnitude : magnitude;
  return out;
}

std::string formatBytes(int64_t bytes) {
  static constexpr std::array<std::string_view, 7> suffixes{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::size_t step = 0;
  while (bytes != 0 && bytes % 1024 == 0 && step + 1 < suffixes.size()) {
    bytes /= 1024;
    ++step;
  }
  return std::to_string(bytes) + std::string(suffixes[step]);
}

std::string readableBytes(int64_t bytes) {
  std::string exact = formatBytes(bytes);
  constexpr std::size_t kShort = 4;
  if (exact.find_first_not_of("0123456789") <= kShort || bytes < 10'000) return exact;
  static constexpr std::array<std::string_view, 7> suffixes{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::size_t step = 0;
  int64_t unit = 1;
  while (step + 1 < suffixes.size() && bytes / 1024 >= unit) {
    unit *= 1024;
    ++step;
  }
  const int64_t tenths = static_cast<int64_t>((static_cast<__int128>(bytes) * 10 + unit / 2) / unit);
  std::string out = std::to_string(tenths / 10);
  if (tenths % 10 != 0) out += "." + std::to_string(tenths % 10);
  return out + std::string(suffixes[step]);
}

std::string formatMilliCards(int64_t milli) {
  const bool negative = milli < 0;
  const uint64_t amount = negative ? ~static_cast<uint64_t>(milli) + 1 : static_cast<uint64_t>(milli);
  std::string out = negative ? "-" : "";
  out += std::to_string(amount / 10);
  if (amount % 10 != 0) out += "." + std::to_string(amount % 10);
  return out + "%";
}

std::string formatThousandths(int64_t milli) {
  std::string text = std::to_string(milli / 1000);
  if (milli % 1000 == 0) return text;
  if (milli < 0 && milli > -1000) text = "-0";
  std::string fraction = std::to_string(1000 + std::abs(milli % 1000)).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

}  // namespace egpu::v1alpha
