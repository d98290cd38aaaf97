// A table for a terminal: a header, rows, columns as wide as their widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::server {

enum class Tint { none, bold, faint, good, bad };

/// The text in its colour, if colours are wanted at all.
std::string tinted(std::string_view text, Tint tint, bool color);

/// The text with the control characters of others shown instead of obeyed; newlines and, if there are colours, those of
/// tinted() stay.
std::string forTerminal(std::string_view text, bool color);

/// Texts are taken to be ASCII. The last column is not padded.
class TextTable {
 public:
  struct Cell {
    std::string text;
    Tint tint = Tint::none;
    bool right = false;  ///< a number
  };
  explicit TextTable(std::vector<Cell> header) : rows_{std::move(header)} {}
  /// Texts come from others too: their control characters are shown, not obeyed.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.size() == 1; }
  /// Each line after so many spaces. Nothing if there are no rows.
  std::string render(std::size_t indent, bool color) const;

 private:
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace egpu::server
