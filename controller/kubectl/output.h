// Output of the verbs: tables as kubectl's, JSON, YAML, ages, errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

/// Prints "error: TEXT" to standard error, with control characters made visible. Returns `exitStatus`.
int fail(const std::string& text, int exitStatus = kFailed);
int fail(const std::string& what, const base::Status& why, int exitStatus = kFailed);

/// Age as kubectl writes it: "45s", "5m12s", "3h", "12d"; "<unknown>" for 0.
std::string ageOf(int64_t since, int64_t now);
/// Age of an RFC 3339 time; "<unknown>" if it can't be read.
std::string ageOf(const std::string& rfc3339, int64_t now);

/// A table as kubectl prints it: columns aligned by blanks, three blanks between them, empty cells "<none>".
class KubectlTable {
 public:
  enum class Show { always, wide };
  /// Adds a column. Columns of Show::wide appear only in wide tables.
  void column(std::string header, Show show = Show::always);
  /// Adds a row with a cell for each column, of both kinds.
  void row(std::vector<std::string> cells);
  /// A cell may contain colours. Other control characters in it must have been made visible by the caller.
  std::string text(const OutputFlags& flags) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Column {
    std::string header;
    Show show;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// True if the flags ask for -o json or -o yaml.
bool isStructured(const OutputFlags& flags);
/// Prints a value as -o asks: JSON with an indent of four as kubectl, or YAML.
void printValue(const Json& value, const OutputFlags& flags);
/// Prints text to standard output, with a final newline.
void printText(std::string_view text);
/// Joins texts by ", ".
std::string joined(const std::vector<std::string>& all);
/// Colours a word by its meaning: ok green, waiting yellow, wrong red. Without colours returns it unchanged.
enum class Tone { good, waiting, bad, plain };
std::string toned(const std::string& word, Tone tone, bool color);

}  // namespace egpu::kubectl
