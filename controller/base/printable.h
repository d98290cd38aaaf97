// Escapes control characters in untrusted text, for terminals, tables and metric labels.
#pragma once

#include <string>
#include <string_view>

namespace egpu::base {

/// True if the text contains a control character: C0, DEL, or C1 (as UTF-8).
bool hasControls(std::string_view text);
/// Returns the text with every control character escaped, such as "\x1b", so that none moves a cursor, hides a line or
/// breaks a table. The character `spared` is not escaped, such as '\n' in a text of several lines; 0 = escape all.
std::string printable(std::string_view text, char spared = 0);

}  // namespace egpu::base
