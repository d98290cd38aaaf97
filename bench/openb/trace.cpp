#include "bench/openb/trace.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

namespace egpu::bench::openb {
namespace {

constexpr int64_t kMax = int64_t{1} << 40;
constexpr int64_t kMaxCards = 64;  // per node

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// Reads a file line by line and reports errors with their position.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), in_(path) {
    if (!in_) throw BadTrace(path + ": can't be opened");
  }

  bool next() {
    if (!std::getline(in_, line_)) {
      if (in_.bad()) throw BadTrace(path_ + ": can't be read");
      return false;
    }
    ++number_;
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    return true;
  }

  const std::string& line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw BadTrace(path_ + ": line " + std::to_string(number_) + ": " + what);
  }

  int64_t number(std::string_view text, const std::string& field, int64_t least, int64_t max) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      fail(field + ": \"" + std::string(text) + "\" is no whole number");
    if (value < least || value > max)
      fail(field + ": " + std::string(text) + " is not within " + std::to_string(least) + " … " + std::to_string(max));
    return value;
  }

 private:
  std::string path_;
  std::ifstream in_;
  std::string line_;
  int64_t number_ = 0;
};

/// Rows of a CSV file, read by the names in its header.
class Table {
 public:
  /// `optional`: more columns; if the file lacks them, they are empty in every row.
  Table(const std::string& path, std::vector<std::string> wanted, const std::vector<std::string>& optional = {})
      : lines_(path), wanted_(std::move(wanted)) {
    if (!lines_.next()) lines_.fail("the header is missing");
    const std::vector<std::string> names = split(lines_.line(), ',');
    width_ = names.size();
    for (const std::string& want : wanted_) {
      const auto at = std::find(names.begin(), names.end(), want);
      if (at == names.end()) lines_.fail("there is no column \"" + want + "\"");
      columns_.push_back(static_cast<std::size_t>(at - names.begin()));
    }
    for (const std::string& name : optional) {
      wanted_.push_back(name);
      const auto at = std::find(names.begin(), names.end(), name);
      columns_.push_back(at == names.end() ? kAbsent : static_cast<std::size_t>(at - names.begin()));
    }
  }

  bool next() {
    do {
      if (!lines_.next()) return false;
    } while (lines_.line().empty());
    fields_ = split(lines_.line(), ',');
    if (fields_.size() != width_)
      lines_.fail(std::to_string(fields_.size()) + " fields where the header has " + std::to_string(width_));
    return true;
  }
  const std::string& text(std::size_t column) const {
    static const std::string empty;
    return columns_[column] == kAbsent ? empty : fields_[columns_[column]];
  }
  int64_t number(std::size_t column, int64_t least, int64_t max = kMax) const {
    return lines_.number(text(column), wanted_[column], least, max);
  }
  [[noreturn]] void fail(std::size_t column, const std::string& what) const {
    lines_.fail(wanted_[column] + ": " + what);
  }

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  Lines lines_;
  std::vector<std::string> wanted_;
  std::vector<std::size_t> columns_;
  std::size_t width_ = 0;
  std::vector<std::string> fields_;
};

std::vector<TraceNode> readNodes(const std::string& path) {
  Table table(path, {"sn", "cpu_milli", "memory_mib", "gpu", "model"});
  std::vector<TraceNode> nodes;
  std::set<std::string> names;
  while (table.next()) {
    TraceNode node{
        table.text(0), table.number(1, 1), table.number(2, 1), table.number(3, 0, kMaxCards), table.text(4), 0};
    if (node.name.empty()) table.fail(0, "is empty");
    if (!names.insert(node.name).second) table.fail(0, "\"" + node.name + "\" is there twice");
    if (node.cards > 0 && node.model.empty()) table.fail(4, "is empty on a node with cards");
    nodes.push_back(std::move(node));
  }
  if (nodes.empty()) throw BadTrace(path + ": there are no nodes");
  return nodes;
}

std::vector<TracePod> readPods(const std::string& path) {
  Table table(path, {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
              {"gpu_spec", "creation_time", "deletion_time", "qos"});
  std::vector<TracePod> pods;
  while (table.next()) {
    TracePod pod;
    pod.cpuMilli = table.number(0, 0);
    pod.memoryMib = table.number(1, 0);
    pod.cards = table.number(2, 0, kMaxCards);
    if (pod.cards > 0) {
      pod.milli = table.number(3, 1, 1000);
      if (pod.cards > 1 && pod.milli != 1000) table.fail(3, "several cards are always 1000 each");
      if (!table.text(4).empty()) {
        for (std::string& model : split(table.text(4), '|')) {
          if (model.empty()) table.fail(4, "\"" + table.text(4) + "\" names an empty model");
          pod.models.push_back(std::move(model));
        }
        std::sort(pod.models.begin(), pod.models.end());
        pod.models.erase(std::unique(pod.models.begin(), pod.models.end()), pod.models.end());
      }
    }
    if (!table.text(5).empty()) {
      pod.creation = table.number(5, 0);
      pod.deletion = table.number(6, pod.creation);
    }
    pod.bestEffort = table.text(7) == "BE";
    pods.push_back(std::move(pod));
  }
  if (pods.empty()) throw BadTrace(path + ": there are no pods");
  return pods;
}

std::vector<int64_t> numbersOf(const Lines& lines, const std::string& field, int64_t max) {
  std::vector<int64_t> numbers;
  std::istringstream words(lines.line());
  for (std::string word; words >> word;) numbers.push_back(lines.number(word, field, 0, max));
  return numbers;
}

void readOrder(const std::string& path, Trace& trace) {
  Lines lines(path);
  if (!lines.next()) lines.fail("the number of arrivals is missing");
  const int64_t count = lines.number(lines.line(), "arrivals", 1, kMax);
  if (!lines.next()) lines.fail("the arrivals are missing");
  for (const int64_t row : numbersOf(lines, "row", static_cast<int64_t>(trace.pods.size()) - 1))
    trace.arrivals.push_back(static_cast<std::size_t>(row));
  if (static_cast<int64_t>(trace.arrivals.size()) != count)
    lines.fail(std::to_string(trace.arrivals.size()) + " arrivals where line 1 says " + std::to_string(count));
  if (!lines.next()) lines.fail("the ranks of the nodes are missing");
  const std::vector<int64_t> ranks = numbersOf(lines, "rank", kMax);
  if (ranks.size() != trace.nodes.size())
    lines.fail(std::to_string(ranks.size()) + " ranks for " + std::to_string(trace.nodes.size()) + " nodes");
  std::set<int64_t> seen;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!seen.insert(ranks[i]).second) lines.fail("rank: " + std::to_string(ranks[i]) + " is there twice");
    trace.nodes[i].rank = ranks[i];
  }
}

}  // namespace

Trace readTrace(const std::string& nodes, const std::string& pods, const std::string& order) {
  Trace trace;
  trace.nodes = readNodes(nodes);
  trace.pods = readPods(pods);
  readOrder(order, trace);
  int64_t cards = 0;
  for (const TraceNode& node : trace.nodes) cards += node.cards;
  if (cards == 0) throw BadTrace(nodes + ": gpu: no node has a card");
  return trace;
}

}  // namespace egpu::bench::openb
