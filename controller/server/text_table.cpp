#include "controller/server/text_table.h"

#include <algorithm>

namespace egpu::server {

std::string tinted(std::string_view text, Tint tint, bool color) {
  std::string_view code;
  switch (tint) {
    case Tint::none:
      break;
    case Tint::bold:
      code = "\033[1m";
      break;
    case Tint::faint:
      code = "\033[2m";
      break;
    case Tint::good:
      code = "\033[32m";
      break;
    case Tint::bad:
      code = "\033[31m";
      break;
  }
  if (!color || code.empty() || text.empty()) return std::string(text);
  return std::string(code) + std::string(text) + "\033[0m";
}

std::string TextTable::render(std::size_t indent, bool color) const {
  if (empty()) return {};
  std::vector<std::size_t> widths;
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].text.size());
    }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const Cell& cell = rows_[r][i];
      const std::string gap(widths[i] - cell.text.size(), ' ');
      if (cell.right) line += gap;
      line += tinted(cell.text, r == 0 ? Tint::faint : cell.tint, color);
      if (i + 1 == rows_[r].size()) break;
      line += (cell.right ? std::string() : gap) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace egpu::server
