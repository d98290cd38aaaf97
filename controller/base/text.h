// Functions that trim, lower-case, quote and shorten text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace egpu::base {

/// Returns the text without blanks and line breaks at both ends.
std::string_view trimmed(std::string_view text);

/// Returns the text with the letters A to Z in lower case.
std::string lowered(std::string_view text);

/// Returns the length in bytes of the well-formed UTF-8 sequence at text[at], or 0 if there is none. Requires
/// at < text.size().
std::size_t utf8SequenceLength(std::string_view text, std::size_t at);

/// Returns the text as a JSON string with its quotes. Control characters (C0, DEL and C1) are escaped, and bytes that
/// are not UTF-8 become U+FFFD.
std::string quoted(std::string_view text);
/// Appends quoted(text) to `out`.
void appendQuoted(std::string& out, std::string_view text);

/// Returns the text if it has at most `max` bytes. Otherwise returns its beginning and its end with " … " between
/// them; the end is kept because it often holds the remedy. Never cuts a UTF-8 sequence. Requires most ≥ 16. For
/// conditions and events: their receivers refuse longer texts or cut them at any place.
std::string shortened(std::string text, std::size_t max);

}  // namespace egpu::base
