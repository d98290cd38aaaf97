#include "controller/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace egpu::base {

bool wantsColor(const std::string& mode) {
  if (mode != "auto") return mode == "always";
  const char* no = std::getenv("NO_COLOR");
  if (no != nullptr && *no != '\0') return false;
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::size_t terminalColumns(std::size_t otherwise) {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? otherwise : size.ws_col;
}

}  // namespace egpu::base
