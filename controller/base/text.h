// Texts for people that others bound: conditions and events are refused, or cut anywhere, beyond a length.
#pragma once

#include <cstddef>
#include <string>

namespace egpu::base {

/// The text if it has at most that many bytes; else its beginning and, as the remedy often stands last, its end, with "
/// … " between. Never cuts a UTF-8 sequence. most ≥ 16.
std::string shortened(std::string text, std::size_t most);

}  // namespace egpu::base
