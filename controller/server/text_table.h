// A table for a terminal: a header, rows, columns as wide as their widest cell, or narrower where the line ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::server {

/// How text is laid out.
struct TextStyle {
  bool color = false;
  std::size_t columns = 100;  ///< no line is longer if it can be helped; 0 = lines are as long as need be
  bool wide = false;          ///< columns that are of use to few are shown, too
  /// Index of a card on its node, by the card object's name; none for a card that is only imagined. May be null.
  std::function<std::optional<int64_t>(const std::string& card)> indexOf{};
};

enum class Tint { none, bold, faint, good, bad };

/// The text in its colour, if colours are wanted at all.
std::string tinted(std::string_view text, Tint tint, const TextStyle& style);

/// Lines that are too long go on in further ones, indented by two more; broken at spaces, and within words
/// that are too long for a line.
std::string fitted(std::string_view text, const TextStyle& style);

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
  /// Each line after so many spaces. Where a row is too long for a line, its widest columns become narrower and their
  /// cells take several lines. Nothing if there are no rows.
  std::string render(std::size_t indent, const TextStyle& style) const;

 private:
  std::vector<std::size_t> widths(std::size_t indent, std::size_t columns) const;

  std::vector<std::vector<Cell>> rows_;
};

}  // namespace egpu::server
