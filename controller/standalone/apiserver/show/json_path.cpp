// JSONPath of printer columns: fields, quoted fields, indexes, [*], equality filters and recursive descent (..field).
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "controller/standalone/apiserver/show/table.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

class Path {
 public:
  explicit Path(std::string_view text) : rest_(text) {
    if (!rest_.empty() && rest_.front() == '{' && rest_.back() == '}') rest_ = rest_.substr(1, rest_.size() - 2);
    take('$');
  }

  std::vector<const Json*> select(std::vector<const Json*> at) {
    while (!rest_.empty() && !at.empty()) {
      if (take('.')) {
        if (!rest_.empty() && rest_.front() == '[') continue;
        if (take('.')) at = withDescendants(at);
        if (take('*')) {
          at = children(at);
          continue;
        }
        auto name = field(".[");
        if (name.empty()) return {};
        at = named(at, name);
      } else if (take('[')) {
        if (!bracket(at)) return {};
      } else {
        return {};
      }
    }
    return at;
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void blanks() {
    while (take(' ')) {
    }
  }

  // Reads a name up to one of `stops`. A backslash escapes the next character.
  std::string field(std::string_view stops) {
    std::string name;
    while (!rest_.empty() && stops.find(rest_.front()) == std::string_view::npos) {
      take('\\');
      if (rest_.empty()) break;
      name += rest_.front();
      rest_.remove_prefix(1);
    }
    return name;
  }
  std::optional<std::string> quoted() {
    blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '"' && quote != '\'') return std::nullopt;
    rest_.remove_prefix(1);
    std::string out = field(std::string_view(&quote, 1));
    if (!take(quote)) return std::nullopt;
    return out;
  }

  static std::vector<const Json*> named(const std::vector<const Json*>& at, const std::string& name) {
    std::vector<const Json*> out;
    for (const Json* v : at)
      if (v->is_object())
        if (auto it = v->find(name); it != v->end()) out.push_back(&*it);
    return out;
  }
  static std::vector<const Json*> children(const std::vector<const Json*>& at) {
    std::vector<const Json*> out;
    for (const Json* v : at)
      if (v->is_structured())
        for (const auto& child : *v) out.push_back(&child);
    return out;
  }

  /// Returns the values and all values inside them. Each value precedes the values inside it.
  static std::vector<const Json*> withDescendants(const std::vector<const Json*>& at) {
    std::vector<const Json*> out;
    for (const Json* v : at) {
      out.push_back(v);
      const auto below = withDescendants(children({v}));
      out.insert(out.end(), below.begin(), below.end());
    }
    return out;
  }

  bool bracket(std::vector<const Json*>& at) {
    if (take('?')) return filter(at);
    if (take('*')) {
      at = children(at);
      return take(']');
    }
    if (auto name = quoted()) {
      at = named(at, *name);
      return take(']');
    }
    int index = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), index);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    std::vector<const Json*> out;
    for (const Json* v : at) {
      if (!v->is_array()) continue;
      const auto size = static_cast<int64_t>(v->size());
      const int64_t i = index < 0 ? size + index : index;
      if (i >= 0 && i < size) out.push_back(&(*v)[static_cast<size_t>(i)]);
    }
    at = std::move(out);
    return take(']');
  }

  // Applies a filter (@.a.b=="x") or !=; the literal is a string, a number, true or false. Without a comparison, the
  // field must exist.
  bool filter(std::vector<const Json*>& at) {
    if (!take('(')) return false;
    blanks();
    if (!take('@')) return false;
    std::vector<std::string> names;
    while (take('.')) names.push_back(field(".=!) "));
    blanks();
    bool equal = true, compare = false;
    Json want;
    if (rest_.substr(0, 2) == "==" || rest_.substr(0, 2) == "!=") {
      compare = true;
      equal = rest_.front() == '=';
      rest_.remove_prefix(2);
      blanks();
      if (auto text = quoted())
        want = *text;
      else
        want = Json::parse(field(") "), nullptr, false);
      if (want.is_discarded()) return false;
      blanks();
    }
    if (!take(')') || !take(']')) return false;
    std::vector<const Json*> out;
    for (const Json* candidate : children(at)) {
      std::vector<const Json*> found{candidate};
      for (const auto& name : names) found = named(found, name);
      if (compare ? !found.empty() && (*found[0] == want) == equal : !found.empty()) out.push_back(candidate);
    }
    at = std::move(out);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::vector<Json> evaluateJsonPath(const Json& object, std::string_view path) {
  std::vector<Json> out;
  for (const Json* v : Path(path).select({&object})) out.push_back(*v);
  return out;
}

}  // namespace egpu::apiserver
