#include "controller/codec/yaml_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "controller/codec/json_text.h"
#include "controller/codec/yaml_scalar.h"

namespace egpu::codec {

namespace {

using Json = nlohmann::ordered_json;

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Whether a text needs no quotes: printable ASCII without YAML's signs, and not read as anything but a text.
bool standsBare(const std::string& text) {
  if (text.empty() || !(isLetter(text.front()) || isDigit(text.front()) || text.front() == '/')) return false;
  if (text.back() == ' ' || text.back() == ':') return false;
  if (std::any_of(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; })) return false;
  if (text.find(": ") != std::string::npos || text.find(" #") != std::string::npos) return false;
  // Dates and times are more than texts to some readers.
  if (isDigit(text.front()) && text.find_first_of("-:") != std::string::npos) return false;
  std::string why;
  const auto read = scalarToJson("?", text, why);
  return read && read->front() == '"';
}

std::string scalar(const Json& value) {
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return standsBare(text) ? text : JsonText().value(text).take();  // no control character stays bare
}

bool isBlock(const Json& value) { return value.is_structured() && !value.empty(); }

/// The lines of a mapping or sequence. begun: the first line has its indent already.
void block(std::string& out, const Json& value, std::size_t indent, bool begun) {
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!begun) out.append(indent, ' ');
    begun = false;
    if (value.is_array()) {
      out += "- ";
      if (isBlock(*it))
        block(out, *it, indent + 2, true);
      else
        out += scalar(*it) + "\n";
    } else {
      out += scalar(it.key()) + ":";
      if (isBlock(*it))
        block(out += "\n", *it, indent + (it->is_array() ? 0 : 2), false);
      else
        out += " " + scalar(*it) + "\n";
    }
  }
}

}  // namespace

std::string jsonToYaml(std::string_view json) {
  const auto root = Json::parse(json, nullptr, false);
  if (root.is_discarded()) return std::string(json);
  if (!isBlock(root)) return scalar(root) + "\n";
  std::string out;
  block(out, root, 0, false);
  return out;
}

}  // namespace egpu::codec
