#include "controller/server/text_table.h"

#include <algorithm>
#include <array>

#include "controller/base/printable.h"

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

std::string forTerminal(std::string_view text, bool color) {
  static constexpr auto kOurs =
      std::to_array<std::string_view>({"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m"});
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find('\033'); color && at != std::string_view::npos; at = text.find('\033', at + 1)) {
    const auto ours = std::find_if(kOurs.begin(), kOurs.end(),
                                   [&](const auto& code) { return text.compare(at, code.size(), code) == 0; });
    if (ours == kOurs.end()) continue;
    out += base::printable(text.substr(from, at - from), '\n');
    out += *ours;
    from = at + ours->size();
  }
  return out + base::printable(text.substr(from), '\n');
}

void TextTable::add(std::vector<Cell> row) {
  for (auto& cell : row) cell.text = base::printable(cell.text);
  rows_.push_back(std::move(row));
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
