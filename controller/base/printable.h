// Text that others chose, made fit for a terminal, a table or a metric's label.
#pragma once

#include <string>
#include <string_view>

namespace egpu::base {

/// Whether the text has a control character: C0, DEL, or C1 (as UTF-8).
bool hasControls(std::string_view text);
/// The text with every control character as "\x1b", so that none moves a cursor, hides a line or breaks a table.
/// `spared`: one that stays as it is, such as the newlines of a text of several lines; 0 for none.
std::string printable(std::string_view text, char spared = 0);

}  // namespace egpu::base
