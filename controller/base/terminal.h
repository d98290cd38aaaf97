// The terminal of the process's standard output.
#pragma once

#include <cstddef>
#include <string>

namespace egpu::base {

/// True if output is coloured: "always", "never", or "auto": on a terminal, unless NO_COLOR is set or TERM is dumb.
bool wantsColor(const std::string& mode);
/// Columns of the terminal; `otherwise` if standard output is not a terminal.
std::size_t terminalColumns(std::size_t otherwise);

}  // namespace egpu::base
