#include "controller/standalone/apiserver/verbs/selectors.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "controller/base/text.h"
#include "controller/standalone/apiserver/kinds/builtin_kinds.h"

namespace egpu::apiserver {
namespace {

// Splits at commas outside parentheses.
std::vector<std::string_view> parts(std::string_view s) {
  std::vector<std::string_view> out;
  std::size_t from = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == ',' && depth == 0)) {
      out.push_back(base::trimmed(s.substr(from, i - from)));
      from = i + 1;
    } else if (s[i] == '(') {
      ++depth;
    } else if (s[i] == ')') {
      --depth;
    }
  }
  return out;
}

std::optional<int64_t> integer(std::string_view s) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return v;
}

base::Status bad(std::string_view what, std::string_view part) {
  return {base::Code::malformed,
          "unable to parse requirement: " + std::string(what) + " \"" + std::string(part) + "\""};
}

// Returns a field as text. An absent field is "", as in Kubernetes' field selectors.
std::string fieldText(const nlohmann::json& object, const std::vector<std::string>& path) {
  const nlohmann::json* at = &object;
  for (const auto& step : path) {
    if (!at->is_object()) return {};
    auto it = at->find(step);
    if (it == at->end()) return {};
    at = &*it;
  }
  if (at->is_string()) return at->get<std::string>();
  return at->is_boolean() || at->is_number() ? at->dump() : std::string();
}

// True for boolean fields of built-in kinds. Such a field is false if it is absent.
bool falseWhenAbsent(const std::string& field) { return field == "spec.unschedulable" || field == "spec.hostNetwork"; }

}  // namespace

base::Result<Selector> Selector::parse(const Resource& resource, std::string_view labels, std::string_view fields) {
  Selector out;
  if (!base::trimmed(labels).empty())
    for (std::string_view part : parts(labels)) {
      if (part.empty()) return bad("empty", labels);
      auto r = labelRequirement(part);
      if (!r) return r.status();
      if (!isQualifiedName(r->key)) return bad("not a label key:", r->key);
      for (const auto& v : r->values)
        if (!isLabelValue(v)) return bad("not a label value:", v);
      out.labels_.push_back(std::move(*r));
    }
  if (!base::trimmed(fields).empty())
    for (std::string_view part : parts(fields)) {
      if (part.empty()) continue;
      auto r = fieldRequirement(resource, fields, part);
      if (!r) return r.status();
      out.fields_.push_back(std::move(*r));
    }
  return out;
}

base::Result<Selector::LabelRequirement> Selector::labelRequirement(std::string_view part) {
  using Op = LabelRequirement::Op;
  LabelRequirement r{};
  std::size_t at;
  const auto keyBefore = [&](std::size_t end) { return std::string(base::trimmed(part.substr(0, end))); };
  if (part.front() == '!' && part.find('=') == std::string_view::npos) {
    r.op = Op::absent;
    r.key = base::trimmed(part.substr(1));
  } else if (part.back() == ')') {
    return setRequirement(part);
  } else if ((at = part.find("!=")) != std::string_view::npos) {
    r.op = Op::notIn;
    r.key = keyBefore(at);
    r.values.emplace_back(base::trimmed(part.substr(at + 2)));
  } else if ((at = part.find('=')) != std::string_view::npos) {
    r.op = Op::in;
    r.key = keyBefore(at);
    std::string_view rest = part.substr(at + 1);
    if (!rest.empty() && rest.front() == '=') rest.remove_prefix(1);
    r.values.emplace_back(base::trimmed(rest));
  } else if ((at = part.find_first_of("<>")) != std::string_view::npos) {
    r.op = part[at] == '>' ? Op::greater : Op::less;
    r.key = keyBefore(at);
    auto bound = integer(base::trimmed(part.substr(at + 1)));
    if (!bound) return bad("for 'Gt', 'Lt' operators, the value must be an integer:", part);
    r.bound = *bound;
  } else {
    r.op = Op::exists;
    r.key = part;
  }
  return r;
}

base::Result<Selector::LabelRequirement> Selector::setRequirement(std::string_view part) {
  const std::size_t open = part.find('(');
  if (open == std::string_view::npos) return bad("found ')' without '(' in", part);
  const std::string_view head = base::trimmed(part.substr(0, open));
  const std::size_t space = head.find_last_of(" \t");
  const std::string_view word = space == std::string_view::npos ? "" : head.substr(space + 1);
  if (word != "in" && word != "notin") return bad("expected 'in' or 'notin' in", part);
  LabelRequirement r{};
  r.op = word == "in" ? LabelRequirement::Op::in : LabelRequirement::Op::notIn;
  r.key = base::trimmed(head.substr(0, space));
  for (std::string_view value : parts(part.substr(open + 1, part.size() - open - 2))) r.values.emplace_back(value);
  return r;
}

base::Result<Selector::FieldRequirement> Selector::fieldRequirement(const Resource& resource, std::string_view fields,
                                                                    std::string_view part) {
  FieldRequirement r{};
  const std::size_t at = part.find('=');
  if (at == std::string_view::npos)
    return base::Status(base::Code::malformed, "invalid selector: '" + std::string(fields) + "'; can't understand '" +
                                                   std::string(part) + "'");
  r.equal = !(at > 0 && part[at - 1] == '!');
  const std::string field(part.substr(0, r.equal ? at : at - 1));
  std::string_view value = part.substr(at + 1);
  if (r.equal && !value.empty() && value.front() == '=') value.remove_prefix(1);
  const bool known = field == "metadata.name" || (resource.namespaced && field == "metadata.namespace") ||
                     std::find(resource.selectableFields.begin(), resource.selectableFields.end(), field) !=
                         resource.selectableFields.end();
  if (!known) return base::Status(base::Code::malformed, "field label not supported: " + field);
  for (std::size_t from = 0; from <= field.size();) {
    const std::size_t dot = std::min(field.find('.', from), field.size());
    r.path.push_back(field.substr(from, dot - from));
    from = dot + 1;
  }
  r.value = value;
  if (falseWhenAbsent(field) && r.value == "false") {
    r.value = "true";
    r.equal = !r.equal;
  }
  return r;
}

bool Selector::matches(const nlohmann::json& object) const {
  if (!labels_.empty()) {
    const nlohmann::json* labels = nullptr;
    auto meta = object.find("metadata");
    if (meta != object.end() && meta->is_object()) {
      auto it = meta->find("labels");
      if (it != meta->end() && it->is_object()) labels = &*it;
    }
    for (const auto& r : labels_) {
      const std::string* value = nullptr;
      if (labels) {
        auto it = labels->find(r.key);
        if (it != labels->end()) value = it->get_ptr<const std::string*>();
      }
      bool among = value && std::find(r.values.begin(), r.values.end(), *value) != r.values.end();
      const std::optional<int64_t> number = integer(value ? std::string_view(*value) : std::string_view());
      bool good = false;
      switch (r.op) {
        case LabelRequirement::Op::in:
          good = among;
          break;
        case LabelRequirement::Op::notIn:
          good = !among;
          break;
        case LabelRequirement::Op::exists:
          good = value != nullptr;
          break;
        case LabelRequirement::Op::absent:
          good = value == nullptr;
          break;
        case LabelRequirement::Op::greater:
          good = number.has_value() && number.value_or(0) > r.bound;
          break;
        case LabelRequirement::Op::less:
          good = number.has_value() && number.value_or(0) < r.bound;
          break;
      }
      if (!good) return false;
    }
  }
  for (const auto& r : fields_)
    if ((fieldText(object, r.path) == r.value) != r.equal) return false;
  return true;
}

}  // namespace egpu::apiserver
