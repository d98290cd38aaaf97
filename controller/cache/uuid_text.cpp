#include "controller/cache/uuid_text.h"

#include <algorithm>

namespace egpu::cache {
namespace {

constexpr std::array<std::string_view, UuidText::kPrefixes> kPrefixTexts{"", "egpu-", "gpu-", "GPU-"};
constexpr std::size_t kBare = 36;
static_assert(UuidText::kLongest == 5 + kBare);

bool isDash(std::size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

/// The value of each character as a hexadecimal digit in lower case; with a bit above if it is none.
constexpr auto kHexDigits = [] {
  std::array<unsigned char, 256> digits{};
  for (auto& digit : digits) digit = 0x10;
  for (unsigned char n = 0; n < 16; ++n) digits[static_cast<unsigned char>("0123456789abcdef"[n])] = n;
  return digits;
}();

bool parseBare(std::string_view text, Uuid& out) {
  if (text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') return false;
  unsigned all = 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < kBare; i += 2) {
    if (isDash(i)) ++i;
    const unsigned high = kHexDigits[static_cast<unsigned char>(text[i])];
    const unsigned low = kHexDigits[static_cast<unsigned char>(text[i + 1])];
    all |= high | low;
    out[n++] = static_cast<unsigned char>(high << 4 | low);
  }
  return all < 16;
}

}  // namespace

bool UuidText::parse(std::string_view text, UuidText& out) {
  if (text.size() < kBare || text.size() > kLongest) return false;
  const auto split = text.size() - kBare;
  const auto known = std::find(kPrefixTexts.begin(), kPrefixTexts.end(), text.substr(0, split));
  if (known == kPrefixTexts.end() || !parseBare(text.substr(split), out.uuid)) return false;
  out.prefix = static_cast<uint8_t>(known - kPrefixTexts.begin());
  return true;
}

std::string_view UuidText::write(char* to) const {
  char* at = std::copy(kPrefixTexts[prefix].begin(), kPrefixTexts[prefix].end(), to);
  std::size_t n = 0;
  for (std::size_t i = 0; i < kBare; i += 2) {
    if (isDash(i)) {
      *at++ = '-';
      ++i;
    }
    *at++ = "0123456789abcdef"[uuid[n] >> 4];
    *at++ = "0123456789abcdef"[uuid[n++] & 15];
  }
  return {to, static_cast<std::size_t>(at - to)};
}

}  // namespace egpu::cache
