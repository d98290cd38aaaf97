#include "controller/whatif/render/text_table.h"

#include <algorithm>
#include <array>

#include "controller/base/printable.h"

namespace egpu::whatif {

namespace {

constexpr std::size_t kMinColumn = 8;
constexpr std::size_t kGap = 2;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Splits a text into pieces of at most `width` bytes: at spaces where possible, never inside a UTF-8 character.
std::vector<std::string> pieces(std::string_view text, std::size_t width) {
  std::vector<std::string> out;
  while (text.size() > width) {
    std::size_t end = text.rfind(' ', width);
    std::size_t next = end + 1;
    if (end == std::string_view::npos || end == 0) {
      end = width;
      while (end > 1 && continues(text[end])) --end;
      next = end;
    }
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(next, text.size()));
  }
  out.emplace_back(text);
  return out;
}

std::size_t longestWord(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    longest = std::max(longest, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

/// Returns the position after the colour code that begins at text[at]; `at` if none begins there.
std::size_t pastColor(std::string_view text, std::size_t at) {
  if (text[at] != '\033') return at;
  const auto end = text.find('m', at);
  return end == std::string_view::npos ? at : end + 1;
}

/// Returns the end of a line of at most `columns` visible cells: the last space within them after `from`, otherwise a
/// position inside a word. Returns the line's size if all of it fits.
std::size_t breakOf(std::string_view line, std::size_t columns, std::size_t from) {
  std::size_t seen = 0, space = 0;
  for (std::size_t at = 0; at < line.size();) {
    if (const auto past = pastColor(line, at); past != at) {
      at = past;
      continue;
    }
    if (line[at] == ' ' && at > from) space = at;
    if (!continues(line[at]) && ++seen > columns) return space > 0 ? space : at > from ? at : line.size();
    ++at;
  }
  return line.size();
}

}  // namespace

std::string tinted(std::string_view text, Tint tint, const TextStyle& style) {
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
  if (!style.color || code.empty() || text.empty()) return std::string(text);
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

std::string fitted(std::string_view text, const TextStyle& style) {
  if (style.columns == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto indent = std::min(line.find_first_not_of(' '), line.size());
    for (std::size_t from = indent;;) {
      const auto cut = breakOf(line, style.columns, from);
      if (cut >= line.size()) break;
      out += line.substr(0, cut) + "\n";
      line = std::string(indent + 2, ' ') + line.substr(line[cut] == ' ' ? cut + 1 : cut);
      from = indent + 2;
    }
    out += line;
    if (end != std::string_view::npos) out += '\n';
  }
  return out;
}

std::vector<std::size_t> TextTable::widths(std::size_t indent, std::size_t columns) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0), words(rows_.front().size(), kMinColumn);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].text.size());
      words[i] = std::max(words[i], longestWord(row[i].text));
    }
  std::size_t total = indent + kGap * (widths.size() - 1);
  for (const auto width : widths) total += width;
  // Words are split only if breaking at spaces is not enough.
  for (const auto& least : {words, std::vector<std::size_t>(widths.size(), kMinColumn)})
    while (columns > 0 && total > columns) {
      std::size_t widest = widths.size();
      for (std::size_t i = 0; i < widths.size(); ++i)
        if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
      if (widest == widths.size()) break;
      --widths[widest];
      --total;
    }
  return widths;
}

std::string TextTable::render(std::size_t indent, const TextStyle& style) const {
  if (empty()) return {};
  const auto widths = this->widths(indent, style.columns);
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      cells.push_back(pieces(rows_[r][i].text, widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line(indent, ' ');
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const Cell& cell = rows_[r][i];
        const std::string text = l < cells[i].size() ? cells[i][l] : std::string();
        const std::string gap(widths[i] - std::min(widths[i], text.size()), ' ');
        if (cell.right) line += gap;
        line += tinted(text, r == 0 ? Tint::faint : cell.tint, style);
        if (i + 1 < cells.size()) line += (cell.right ? std::string() : gap) + std::string(kGap, ' ');
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace egpu::whatif
