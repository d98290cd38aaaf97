// A table for a terminal: a header and rows. Columns are as wide as their widest cell, or narrower if the line would be
// too long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::whatif {

/// Layout of text output.
struct TextStyle {
  bool color = false;
  std::size_t columns = 100;  ///< maximum length of a line where possible; 0 = unlimited
  bool wide = false;          ///< also show rarely needed columns
  /// Returns the index of a card on its node, by the name of the card object; none for a hypothetical card. May be
  /// null.
  std::function<std::optional<int64_t>(const std::string& card)> indexOf{};
};

enum class Tint { none, bold, faint, good, bad };

/// Returns the text in its colour, or unchanged if style.color is false.
std::string tinted(std::string_view text, Tint tint, const TextStyle& style);

/// Wraps long lines at spaces, and inside words that are longer than a line. Continuation lines are indented by two
/// more.
std::string fitted(std::string_view text, const TextStyle& style);

/// Returns the text with foreign control characters made visible instead of effective. Newlines stay, and with `color`
/// also the codes that tinted() adds.
std::string forTerminal(std::string_view text, bool color);

/// Assumes ASCII text. The last column is not padded.
class TextTable {
 public:
  struct Cell {
    std::string text;
    Tint tint = Tint::none;
    bool right = false;  ///< right-aligned, for numbers
  };
  explicit TextTable(std::vector<Cell> header) : rows_{std::move(header)} {}
  /// Makes control characters visible, because texts may come from other users.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.size() == 1; }
  /// Indents each line by `indent` spaces. If a row is longer than a line, its widest columns become narrower and their
  /// cells take several lines. Returns an empty text if there are no rows.
  std::string render(std::size_t indent, const TextStyle& style) const;

 private:
  std::vector<std::size_t> widths(std::size_t indent, std::size_t columns) const;

  std::vector<std::vector<Cell>> rows_;
};

}  // namespace egpu::whatif
