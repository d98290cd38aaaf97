// Texts trimmed, lowered, quoted and shortened.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace egpu::base {

/// Without blanks and line breaks at its ends.
std::string_view trimmed(std::string_view text);

/// With the letters A to Z in lower case.
std::string lowered(std::string_view text);

/// Length of the well-formed UTF-8 sequence at text[at], 0 if there is none. at < text.size().
std::size_t utf8SequenceLength(std::string_view text, std::size_t at);

/// As a JSON string, in its quotes; it has no control characters, nor C1, and U+FFFD for what is not UTF-8.
std::string quoted(std::string_view text);
/// The same, at the end of `out`.
void appendQuoted(std::string& out, std::string_view text);

/// For conditions, events and the like, which others refuse, or cut anywhere, beyond a length.
/// The text if it has at most that many bytes; else its beginning and, as the remedy often stands last, its end, with "
/// … " between. Never cuts a UTF-8 sequence. most ≥ 16.
std::string shortened(std::string text, std::size_t most);

}  // namespace egpu::base
