#include "controller/kubectl/output.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "controller/base/printable.h"
#include "controller/base/terminal.h"
#include "controller/base/timestamp.h"
#include "controller/codec/yaml_text.h"

namespace egpu::kubectl {

namespace {

constexpr std::size_t kGap = 3;

/// Number of characters that a terminal shows: without colours, and each UTF-8 sequence once.
std::size_t shownWidth(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size());
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++width;
  }
  return width;
}

std::string units(int64_t major, const char* big, int64_t minor, const char* small) {
  return std::to_string(major) + big + (minor > 0 ? std::to_string(minor) + small : std::string());
}

}  // namespace

int fail(const std::string& text, int exitStatus) {
  std::fprintf(stderr, "error: %s\n", base::printable(text, '\n').c_str());
  return exitStatus;
}

int fail(const std::string& what, const base::Status& why, int exitStatus) {
  return fail(what.empty() ? why.message() : what + ": " + why.message(), exitStatus);
}

/// The rules of kubectl's duration.HumanDuration.
std::string ageOf(int64_t since, int64_t now) {
  if (since <= 0) return "<unknown>";
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;
  const int64_t s = std::max<int64_t>(0, now - since);
  if (s < 2 * kMinute) return std::to_string(s) + "s";
  if (s < 10 * kMinute) return units(s / kMinute, "m", s % kMinute, "s");
  if (s < 3 * kHour) return std::to_string(s / kMinute) + "m";
  if (s < 8 * kHour) return units(s / kHour, "h", s % kHour / kMinute, "m");
  if (s < 2 * kDay) return std::to_string(s / kHour) + "h";
  if (s < 8 * kDay) return units(s / kDay, "d", s % kDay / kHour, "h");
  return std::to_string(s / kDay) + "d";
}

std::string ageOf(const std::string& rfc3339, int64_t now) { return ageOf(base::unixSeconds(rfc3339), now); }

void KubectlTable::column(std::string header, Show show) { columns_.push_back({std::move(header), show}); }

void KubectlTable::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (auto& cell : cells)
    if (cell.empty()) cell = "<none>";
  rows_.push_back(std::move(cells));
}

std::string KubectlTable::text(const OutputFlags& flags) const {
  std::vector<std::size_t> shown, width;
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (columns_[c].show == Show::always || flags.output == "wide") shown.push_back(c);
  for (const auto c : shown) {
    std::size_t max = flags.noHeaders ? 0 : columns_[c].header.size();
    for (const auto& row : rows_) max = std::max(max, shownWidth(row[c]));
    width.push_back(max);
  }
  std::string out;
  const auto line = [&](const auto& cellOf) {
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::string& cell = cellOf(shown[i]);
      out += cell;
      if (i + 1 < shown.size()) out.append(width[i] + kGap - shownWidth(cell), ' ');
    }
    out += '\n';
  };
  if (!flags.noHeaders) line([&](std::size_t c) -> const std::string& { return columns_[c].header; });
  for (const auto& row : rows_) line([&](std::size_t c) -> const std::string& { return row[c]; });
  return out;
}

bool isStructured(const OutputFlags& flags) { return flags.output == "json" || flags.output == "yaml"; }

void printValue(const Json& value, const OutputFlags& flags) {
  constexpr int kIndent = 4;
  if (flags.output == "yaml")
    printText(codec::jsonToYaml(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  else
    printText(value.dump(kIndent, ' ', false, Json::error_handler_t::replace));
}

void printText(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

std::string joined(const std::vector<std::string>& all) {
  std::string out;
  for (const auto& each : all) out += (out.empty() ? "" : ", ") + each;
  return out;
}

std::string toned(const std::string& word, Tone tone, bool color) {
  if (!color || tone == Tone::plain) return word;
  const char* code = tone == Tone::good ? "32" : tone == Tone::waiting ? "33" : "31";
  return std::string("\033[") + code + "m" + word + "\033[0m";
}

}  // namespace egpu::kubectl
