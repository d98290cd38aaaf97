#include "controller/cache/compact.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

namespace egpu::cache {
namespace {

// A text begins with a number: odd, 2n + 1, for the word n; even, twice one of these.
constexpr uint64_t kEmpty = 0, kDecimal = 1, kSecond = 2;
constexpr uint64_t kUuid = 3;                                 // + prefix; 16 bytes follow
constexpr uint64_t kUuidAgain = kUuid + UuidText::kPrefixes;  // + prefix; its place follows
constexpr uint64_t kRaw = kUuidAgain + UuidText::kPrefixes;   // + size; the bytes follow

constexpr std::size_t kSecondText = 20;
constexpr uint64_t kMi = uint64_t{1} << 20;

uint64_t zigzag(int64_t n) { return (static_cast<uint64_t>(n) << 1) ^ static_cast<uint64_t>(n >> 63); }
int64_t unzigzag(uint64_t n) { return static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1); }

int twoDigits(const char* at) {
  const auto high = static_cast<unsigned>(at[0] - '0'), low = static_cast<unsigned>(at[1] - '0');
  return high < 10 && low < 10 ? static_cast<int>(high * 10 + low) : -1;
}
void putTwoDigits(char* at, unsigned n) {
  at[0] = static_cast<char>('0' + n / 10);
  at[1] = static_cast<char>('0' + n % 10);
}

}  // namespace

void CompactWriter::integer(int64_t n) {
  // Memory comes in whole MiB: those that are can do without their zeros.
  const auto z = zigzag(n);
  if (z != 0 && z % (2 * kMi) == 0) {
    natural(z / kMi | 1);
  } else if (z >> 63 == 0) {
    natural(z << 1);
  } else {
    natural(1);
    natural(z);
  }
}

int64_t CompactReader::integer() {
  const auto n = natural();
  if (n == 1) return unzigzag(natural());
  return unzigzag((n & 1) == 0 ? n >> 1 : (n & ~uint64_t{1}) * kMi);
}

void CompactWriter::text(std::string_view text) {
  const auto place = texts_++;
  if (text.empty()) return natural(kEmpty << 1);
  if (asSecond(text) || asDecimal(text) || asUuid(text)) return;
  if (const auto word = words_.meet(text, place)) return natural(uint64_t{*word} << 1 | 1);
  natural((kRaw + text.size()) << 1);
  out_ += text;
}

bool CompactWriter::asUuid(std::string_view text) {
  UuidText parsed;
  if (!UuidText::parse(text, parsed)) return false;
  const auto& uuid = parsed.uuid;
  const auto end = context_.uuids.begin() + std::min(context_.uuidCount, context_.kUuids);
  if (const auto again = std::find(context_.uuids.begin(), end, uuid); again != end) {
    natural((kUuidAgain + parsed.prefix) << 1);
    natural(static_cast<uint64_t>(again - context_.uuids.begin()));
    return true;
  }
  natural((kUuid + parsed.prefix) << 1);
  out_.append(reinterpret_cast<const char*>(uuid.data()), uuid.size());
  context_.uuids[context_.uuidCount++ % context_.kUuids] = uuid;
  return true;
}

bool CompactWriter::asSecond(std::string_view text) {
  if (text.size() != kSecondText || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':' || text[19] != 'Z')
    return false;
  const char* const at = text.data();
  const int century = twoDigits(at), year = twoDigits(at + 2), month = twoDigits(at + 5), day = twoDigits(at + 8),
            hour = twoDigits(at + 11), minute = twoDigits(at + 14), second = twoDigits(at + 17);
  if (century < 0 || year < 0 || month < 1 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 59)
    return false;
  const auto date = std::chrono::year(century * 100 + year) / month / day;
  if (!date.ok()) return false;
  using std::chrono::hours, std::chrono::minutes, std::chrono::seconds, std::chrono::sys_days;
  const int64_t now = (sys_days(date) + hours(hour) + minutes(minute) + seconds(second)).time_since_epoch().count();
  natural(kSecond << 1);
  natural(zigzag(now - context_.second));
  context_.second = now;
  return true;
}

bool CompactWriter::asDecimal(std::string_view text) {
  if (text.size() > 19 || text[0] < '0' || text[0] > '9' || (text[0] == '0' && text.size() > 1)) return false;
  uint64_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    n = n * 10 + static_cast<uint64_t>(c - '0');
  }
  natural(kDecimal << 1);
  natural(n);
  return true;
}

std::string_view CompactReader::text() {
  const auto head = natural();
  if ((head & 1) != 0) return words_.word(static_cast<uint32_t>(head >> 1));
  const auto form = head >> 1;
  if (form >= kRaw) return raw(static_cast<std::size_t>(form - kRaw));
  if (form >= kUuidAgain)
    return UuidText{static_cast<uint8_t>(form - kUuidAgain), context_.uuids[natural() % context_.kUuids]}.write(
        text_.data());
  if (form >= kUuid) {
    auto& next = context_.uuids[context_.uuidCount++ % context_.kUuids];
    const auto bytes = raw(next.size());
    std::memcpy(next.data(), bytes.data(), bytes.size());
    return UuidText{static_cast<uint8_t>(form - kUuid), next}.write(text_.data());
  }
  if (form == kSecond) return second();
  if (form == kDecimal) {
    const auto end = std::to_chars(text_.begin(), text_.end(), natural()).ptr;
    return {text_.data(), static_cast<std::size_t>(end - text_.begin())};
  }
  return {};
}

std::string_view CompactReader::raw(std::size_t size) {
  const auto bytes = in_.substr(at_, size);
  at_ += bytes.size();
  return bytes;
}

std::string_view CompactReader::second() {
  context_.second += unzigzag(natural());
  const std::chrono::sys_seconds time{std::chrono::seconds(context_.second)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  const auto ofDay = static_cast<unsigned>((time - day).count());
  std::memcpy(text_.data(), "0000-00-00T00:00:00Z", kSecondText);
  putTwoDigits(&text_[0], year / 100 % 100);
  putTwoDigits(&text_[2], year % 100);
  putTwoDigits(&text_[5], static_cast<unsigned>(date.month()));
  putTwoDigits(&text_[8], static_cast<unsigned>(date.day()));
  putTwoDigits(&text_[11], ofDay / 3600);
  putTwoDigits(&text_[14], ofDay / 60 % 60);
  putTwoDigits(&text_[17], ofDay % 60);
  return {text_.data(), kSecondText};
}

}  // namespace egpu::cache
