#include "api/v1alpha/quantity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace egpu::v1alpha {
namespace {

std::string decimal(__int128 number) {
  const bool negative = number < 0;
  std::string out;
  do {
    const int digit = static_cast<int>(number % 10);
    out += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    number /= 10;
  } while (number != 0);
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

struct QuantityRow {
  const char* text;
  const char* nano;  // nullptr: refused
  bool whole = true;
};

// Every row matches k8s.io/apimachinery, except for values beyond the cap.
TEST(Quantity, table) {
  const QuantityRow rows[] = {
      {"0", "0"},
      {"4", "4000000000"},
      {"+1", "1000000000"},
      {"-1", "-1000000000"},
      {"007", "7000000000"},
      {".5", "500000000", false},
      {"5.", "5000000000"},
      {"0.5", "500000000", false},
      {"10.0", "10000000000", false},
      {"1.5k", "1500000000000", true},
      {"500m", "500000000", false},
      {"1000m", "1000000000", false},
      {"1n", "1", false},
      {"1u", "1000", false},
      {"0.1n", "1", false},
      {"-0.1n", "-1", false},
      {"1.0000000001", "1000000001", false},
      {"1e-30", "1", false},
      {"1k", "1000000000000"},
      {"1M", "1000000000000000"},
      {"1G", "1000000000000000000"},
      {"1T", "1000000000000000000000"},
      {"1P", "1000000000000000000000000"},
      {"1E", "1000000000000000000000000000"},
      {"1E3", "1000000000000"},
      {"1e3", "1000000000000"},
      {"1E+3", "1000000000000"},
      {"1E-3", "1000000", false},
      {"1.5e1", "15000000000"},
      {"1Ki", "1024000000000"},
      {"1.5Gi", "1610612736000000000", false},
      {"4Gi", "4294967296000000000"},
      {"1Ei", "1152921504606846976000000000", false},
      {"8Ei", "9223372036854775807000000000", false},
      {"-8Ei", "-9223372036854775807000000000", false},
      {"9223372036854775807", "9223372036854775807000000000", false},
      {"9223372036854775808", "9223372036854775807000000000", false},
      {"1e999", "9223372036854775807000000000", false},
      {"-1e999", "-9223372036854775807000000000", false},
      {"0e999", "0"},
      {"0.000000000000000000000000000000Ei", "0", false},
      // Numbers without digits, which Kubernetes accepts as 0.
      {"+", "0"},
      {".", "0"},
      {"Ki", "0"},
      {"m", "0", false},
      {"E", "0"},
      {"Ei", nullptr},
      {"e-12", nullptr},
      {"", nullptr},
      {" ", nullptr},
      {" 1", nullptr},
      {"1 ", nullptr},
      {"1 Gi", nullptr},
      {"4GiB", nullptr},
      {"4gi", nullptr},
      {"4K", nullptr},
      {"4ki", nullptr},
      {"1e", nullptr},
      {"1e+", nullptr},
      {"1e1.5", nullptr},
      {"1E3Ki", nullptr},
      {"1.2.3", nullptr},
      {"1,5", nullptr},
      {"0x10", nullptr},
      {"--1", nullptr},
      {"+-1", nullptr},
      {"NaN", nullptr},
      {"inf", nullptr},
      {"1_000", nullptr},
      {"1é", nullptr},
  };
  for (const QuantityRow& row : rows) {
    std::string error;
    const auto got = parseQuantity(row.text, &error);
    ASSERT_EQ(got.has_value(), row.nano != nullptr) << '"' << row.text << '"';
    if (!got) {
      EXPECT_FALSE(error.empty()) << row.text;
      continue;
    }
    EXPECT_EQ(decimal(got->nano), row.nano) << row.text;
    EXPECT_EQ(got->writtenWhole, row.whole) << row.text;
  }
}

TEST(Quantity, refusesATextWithAZeroByte) {
  EXPECT_FALSE(parseQuantity(std::string_view("1\0", 2)));
  EXPECT_FALSE(parseQuantity(std::string_view("\0", 1)));
}

TEST(Quantity, formReportsHowItWasWritten) {
  EXPECT_EQ(parseQuantity("4")->form, QuantityForm::bareInteger);
  EXPECT_EQ(parseQuantity("-4")->form, QuantityForm::bareInteger);
  EXPECT_EQ(parseQuantity("4.0")->form, QuantityForm::bareDecimal);
  EXPECT_EQ(parseQuantity("4.")->form, QuantityForm::bareDecimal);
  EXPECT_EQ(parseQuantity("4e0")->form, QuantityForm::suffixed);
  EXPECT_EQ(parseQuantity("4Gi")->form, QuantityForm::suffixed);
  EXPECT_EQ(parseQuantity("4n")->form, QuantityForm::suffixed);
}

TEST(Quantity, integersAndCeilings) {
  EXPECT_EQ(parseQuantity("4Gi")->asInteger(), int64_t{4} << 30);
  EXPECT_EQ(parseQuantity("1000m")->asInteger(), 1);
  EXPECT_EQ(parseQuantity("1.5")->asInteger(), std::nullopt);
  EXPECT_EQ(parseQuantity("8Ei")->asInteger(), INT64_MAX);
  EXPECT_EQ(parseQuantity("1n")->ceil(), 1);
  EXPECT_EQ(parseQuantity("1.5")->ceil(), 2);
  EXPECT_EQ(parseQuantity("-1.5")->ceil(), -1);
  EXPECT_EQ(parseQuantity("-1")->ceil(), -1);
  EXPECT_EQ(parseQuantity("1e30")->ceil(), INT64_MAX);
  EXPECT_TRUE(parseQuantity("-1n")->negative());
  EXPECT_FALSE(parseQuantity("-0")->negative());
  EXPECT_EQ((Quantity{static_cast<__int128>(INT64_MAX) * 1'000'000'000 + 1}.ceil()), INT64_MAX);
}

TEST(Quantity, textOfAMillionDigitsIsReadOnce) {
  const std::string zeros(1'000'000, '0');
  EXPECT_EQ(decimal(parseQuantity(zeros + "7")->nano), "7000000000");
  EXPECT_EQ(decimal(parseQuantity("0." + zeros + "7")->nano), "1");
  EXPECT_EQ(parseQuantity("7" + zeros)->ceil(), INT64_MAX);
}

// ---- the slow reference: unbounded integers as vectors of decimal digits, nothing shared with the parser ----

using Digits = std::vector<int>;  // least significant first

Digits times(const Digits& a, int b) {
  Digits out;
  int carry = 0;
  for (const int d : a) {
    carry += d * b;
    out.push_back(carry % 10);
    carry /= 10;
  }
  for (; carry != 0; carry /= 10) out.push_back(carry % 10);
  return out;
}

/// Converts digits · factor^power, with the digits of `fraction` behind the point, to nanos: rounded up, capped.
std::string reference(bool negative, const std::string& whole, const std::string& fraction, int factor, int power) {
  Digits value;
  for (const char c : whole + fraction) value.insert(value.begin(), c - '0');
  auto point = static_cast<int>(fraction.size());
  for (int i = 0; i < power; ++i) value = times(value, factor);
  if (power < 0) point += factor == 10 ? -power : 0;
  for (; point < 9; ++point) value.insert(value.begin(), 0);
  bool up = false;
  for (; point > 9; --point) {
    if (value.empty()) break;
    up = up || value.front() != 0;
    value.erase(value.begin());
  }
  if (up) {
    std::size_t i = 0;
    for (;; ++i) {
      if (i == value.size()) value.push_back(0);
      if (++value[i] < 10) break;
      value[i] = 0;
    }
  }
  while (!value.empty() && value.back() == 0) value.pop_back();
  std::string out;
  for (const int d : value) out.insert(out.begin(), static_cast<char>('0' + d));
  const std::string cap = "9223372036854775807000000000";
  if (out.size() > cap.size() || (out.size() == cap.size() && out > cap)) out = cap;
  if (out.empty()) return "0";
  return (negative ? "-" : "") + out;
}

TEST(QuantityProperty, agreesWithUnboundedArithmetic) {
  struct Suffix {
    const char* text;
    int factor, power;
  };
  const Suffix suffixes[] = {{"", 10, 0},       {"n", 10, -9}, {"u", 10, -6},     {"m", 10, -3},    {"k", 10, 3},
                             {"M", 10, 6},      {"G", 10, 9},  {"T", 10, 12},     {"P", 10, 15},    {"E", 10, 18},
                             {"Ki", 2, 10},     {"Mi", 2, 20}, {"Gi", 2, 30},     {"Ti", 2, 40},    {"Pi", 2, 50},
                             {"Ei", 2, 60},     {"e3", 10, 3}, {"E-3", 10, -3},   {"e+12", 10, 12}, {"E19", 10, 19},
                             {"e-14", 10, -14}, {"e0", 10, 0}, {"E00021", 10, 21}};
  std::mt19937_64 random(20260102);
  const auto digits = [&](std::size_t max) {
    std::string out;
    for (std::size_t n = random() % (max + 1); n > 0; --n)
      out += random() % 3 == 0 ? '0' : static_cast<char>('0' + random() % 10);
    return out;
  };
  int capped = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string whole = digits(random() % 4 == 0 ? 30 : 6);
    const std::string fraction = digits(random() % 2 == 0 ? 0 : 20);
    if (whole.empty() && fraction.empty()) whole = "0";
    const Suffix& suffix = suffixes[random() % std::size(suffixes)];
    const auto sign = random() % 4;
    const bool point = !fraction.empty() || random() % 8 == 0;
    const std::string text = std::string(sign == 0   ? "-"
                                         : sign == 1 ? "+"
                                                     : "") +
                             whole + (point ? "." : "") + fraction + suffix.text;
    const auto got = parseQuantity(text);
    ASSERT_TRUE(got) << text;
    const std::string want = reference(sign == 0, whole, fraction, suffix.factor, suffix.power);
    ASSERT_EQ(decimal(got->nano), want) << text;
    capped += want.find("9223372036854775807000000000") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(capped, 100);
}

TEST(QuantityProperty, anythingElseIsRefused) {
  // Any accepted text must consist of a number and a known suffix. A scan that shares no code with the parser checks
  // that.
  const auto spelled = [](std::string_view s) {
    if (s.empty()) return false;
    if (s[0] == '+' || s[0] == '-') s.remove_prefix(1);
    const auto digits = [&] {
      while (!s.empty() && s[0] >= '0' && s[0] <= '9') s.remove_prefix(1);
    };
    digits();
    if (!s.empty() && s[0] == '.') s.remove_prefix(1), digits();
    for (const char* known : {"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
      if (s == known) return true;
    if (s[0] != 'e' && s[0] != 'E') return false;
    s.remove_prefix(1);
    if (!s.empty() && (s[0] == '+' || s[0] == '-')) s.remove_prefix(1);
    if (s.empty()) return false;
    digits();
    return s.empty();
  };
  std::mt19937_64 random(7);
  constexpr std::string_view alphabet = "0123456789.+-eEiKMGTPnumk x";
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 6; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const std::size_t suffix = std::min(text.find_first_not_of("0123456789.+-"), text.size());
    if (text.find_first_of("0123456789") >= suffix) continue;  // numbers without digits are in the table
    const auto got = parseQuantity(text);
    ASSERT_EQ(got.has_value(), spelled(text)) << '"' << text << '"';
    accepted += got ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(ReadableBytes, ExactWhileShortElseRounded) {
  EXPECT_EQ(readableBytes(0), "0");
  EXPECT_EQ(readableBytes(1000), "1000");
  EXPECT_EQ(readableBytes(9999), "9999");
  EXPECT_EQ(readableBytes(10001), "9.8Ki");
  EXPECT_EQ(readableBytes(int64_t{1638} << 20), "1638Mi");
  EXPECT_EQ(readableBytes(16711156712), "15.6Gi");
  EXPECT_EQ(readableBytes((int64_t{16} << 30) - 1), "16Gi");
  EXPECT_EQ(readableBytes(INT64_MAX), "8Ei");
  EXPECT_EQ(readableBytes(-1024), "-1Ki");
}

TEST(FormatBytes, shortestExactForm) {
  EXPECT_EQ(formatBytes(0), "0");
  EXPECT_EQ(formatBytes(1000), "1000");
  EXPECT_EQ(formatBytes(1024), "1Ki");
  EXPECT_EQ(formatBytes(int64_t{4} << 30), "4Gi");
  EXPECT_EQ(formatBytes(int64_t{1536} << 20), "1536Mi");
  EXPECT_EQ(formatBytes(INT64_MAX), "9223372036854775807");
  EXPECT_EQ(formatBytes(INT64_MIN), "-8Ei");
  EXPECT_EQ(formatBytes(-1024), "-1Ki");
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = static_cast<int64_t>(random() >> (1 + random() % 62)) & ~int64_t{1023};
    EXPECT_EQ(parseQuantity(formatBytes(bytes))->ceil(), bytes);
  }
}

TEST(Thousandths, readAndWritten) {
  const auto milli = [](const char* text) { return parseQuantity(text)->asMilli(); };
  EXPECT_EQ(milli("312"), 312'000);
  EXPECT_EQ(milli("19.5"), 19'500);
  EXPECT_EQ(milli("1500m"), 1500);
  EXPECT_EQ(milli("0.0001"), std::nullopt);
  EXPECT_EQ(milli("9223372036854775807"), std::nullopt) << "beyond int64 in thousandths";
  EXPECT_EQ(formatThousandths(20'000), "20");
  EXPECT_EQ(formatThousandths(1500), "1.5");
  EXPECT_EQ(formatThousandths(125), "0.125");
  EXPECT_EQ(formatThousandths(1050), "1.05");
  EXPECT_EQ(formatThousandths(-5), "-0.005");
  EXPECT_EQ(formatThousandths(-1500), "-1.5");
  for (const int64_t n : {INT64_MIN, INT64_MAX, int64_t{-999}, int64_t{1001}})
    EXPECT_EQ(parseQuantity(formatThousandths(n))->asMilli(), n);
}

TEST(FormatMilliCards, percent) {
  EXPECT_EQ(formatMilliCards(0), "0%");
  EXPECT_EQ(formatMilliCards(5), "0.5%");
  EXPECT_EQ(formatMilliCards(100), "10%");
  EXPECT_EQ(formatMilliCards(1000), "100%");
  EXPECT_EQ(formatMilliCards(16000), "1600%");
  EXPECT_EQ(formatMilliCards(-15), "-1.5%");
  EXPECT_EQ(formatMilliCards(INT64_MIN), "-922337203685477580.8%");
}

TEST(Quantity, ReportsWhichSuffixWasMeant) {
  const std::pair<const char*, const char*> rows[] = {
      {"4GB", "GB is no suffix: G or Gi"}, {"4gb", "gb is no suffix: G or Gi"}, {"4g", "g is no suffix: G or Gi"},
      {"4GiB", "GiB is no suffix: Gi"},    {"4gi", "gi is no suffix: Gi"},      {"4MB", "MB is no suffix: M or Mi"},
      {"4Mb", "Mb is no suffix: M or Mi"}, {"4K", "K is no suffix: k or Ki"},   {"4KB", "KB is no suffix: k or Ki"},
      {"4ki", "ki is no suffix: Ki"},      {"4TiB", "TiB is no suffix: Ti"},    {"4Pib", "Pib is no suffix: Pi"}};
  for (const auto& [text, message] : rows) {
    std::string error;
    EXPECT_FALSE(parseQuantity(text, &error)) << text;
    EXPECT_EQ(error, message);
  }
  for (const char* text : {"4B", "4x", "4Gx", "4GiBs", "4GGi"}) {
    std::string error;
    EXPECT_FALSE(parseQuantity(text, &error)) << text;
    EXPECT_NE(error.find("is none of"), std::string::npos) << text << ": " << error;
  }
}

}  // namespace
}  // namespace egpu::v1alpha
