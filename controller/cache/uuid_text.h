// Texts that are mostly uuids, bare or behind one of a few prefixes: 16 bytes and a number instead of up to 41
// characters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace egpu::cache {

using Uuid = std::array<unsigned char, 16>;

struct UuidText {
  static constexpr std::size_t kPrefixes = 4;
  static constexpr std::size_t kLongest = 5 + 36;  ///< characters

  uint8_t prefix = 0;  ///< below kPrefixes
  Uuid uuid{};

  /// False, and nothing is said of `out`, unless the text is a uuid in lower case behind a known prefix: write() gives
  /// it back to the letter.
  static bool parse(std::string_view text, UuidText& out);
  /// Into at least kLongest characters; returns what was written.
  std::string_view write(char* to) const;
};

}  // namespace egpu::cache
