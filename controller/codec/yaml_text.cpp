#include "controller/codec/yaml_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "controller/base/text.h"
#include "controller/codec/json/text.h"

namespace egpu::codec {

namespace {

template <std::size_t size>
bool oneOf(std::string_view text, const std::array<std::string_view, size>& words) {
  for (const auto& word : words)
    if (word == text) return true;
  return false;
}

bool isNull(std::string_view text) {
  return oneOf(text, std::array<std::string_view, 5>{"", "~", "null", "Null", "NULL"});
}
bool isTrue(std::string_view text) {
  return oneOf(
      text, std::array<std::string_view, 11>{"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"});
}
bool isFalse(std::string_view text) {
  return oneOf(text, std::array<std::string_view, 11>{"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off",
                                                      "Off", "OFF"});
}
bool isNotFinite(std::string_view text) {
  if (oneOf(text, std::array<std::string_view, 3>{".nan", ".NaN", ".NAN"})) return true;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
  return oneOf(text, std::array<std::string_view, 3>{".inf", ".Inf", ".INF"});
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Returns the decimal text of an integer of at most 64 bits, with an optional sign and base prefix (0x, 0b, and 0o or
/// 0 for octal). Returns nullopt for other text.
std::optional<std::string> integer(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char c = text[1];
    base = c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
    text.remove_prefix(base != 8 || c == 'o' || c == 'O' ? 2 : 1);
  }
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (negative && magnitude > uint64_t{1} << 63) return std::nullopt;
  return (negative && magnitude != 0 ? "-" : "") + std::to_string(magnitude);
}

/// True if the text matches [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool isFloat(std::string_view s) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < s.size() && isDigit(s[i])) ++i;
    return i - from;
  };
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
  const std::size_t whole = digits();
  if (i < s.size() && s[i] == '.') {
    ++i;
    if (digits() == 0 && whole == 0) return false;
  } else if (whole == 0) {
    return false;
  }
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == s.size();
}

/// Formats a double as Go's encoding/json does: the fewest digits, without an exponent between 1e-6 and 1e21. Returns
/// nullopt if the number is out of range.
std::optional<std::string> real(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  if (!std::isfinite(number)) return std::nullopt;
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));  // "-1.234e+05"
  const std::size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  std::string sign;
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c == '-') sign = "-";
    if (isDigit(c)) digits += c;
  }
  if (exponent < -6 || exponent >= 21) {
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + "e" + (exponent > 0 ? "+" : "") + std::to_string(exponent);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent) - 1, '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace

std::optional<std::string> scalarToJson(std::string_view tag, std::string_view text, std::string& why) {
  constexpr std::string_view standard = "tag:yaml.org,2002:";
  std::string_view wanted;  // type that a standard tag requires; empty = any
  if (tag.substr(0, standard.size()) == standard) {
    wanted = tag.substr(standard.size());
    if (!oneOf(wanted, std::array<std::string_view, 6>{"str", "int", "float", "bool", "null", "timestamp"})) {
      why = "tag !!" + std::string(wanted) + " is not supported";
      return std::nullopt;
    }
  }
  if (tag != "?" && tag != "" && (wanted.empty() || wanted == "str" || wanted == "timestamp"))
    return base::quoted(text);
  const auto accept = [&](std::string_view type) { return wanted.empty() || wanted == type; };

  if (accept("null") && isNull(text)) return "null";
  if (accept("bool") && isTrue(text)) return "true";
  if (accept("bool") && isFalse(text)) return "false";
  if ((accept("int") || accept("float")) && !text.empty() &&
      (isDigit(text[0]) || text[0] == '-' || text[0] == '+' || text[0] == '.')) {
    std::string plain;
    for (const char c : text)
      if (c != '_') plain += c;
    if (auto number = integer(plain)) return number;
    if (accept("float") && isFloat(plain)) {
      if (auto number = real(plain)) return number;
      return base::quoted(text);  // out of range, so it is a string
    }
    if (isNotFinite(text)) {
      why = std::string(text) + " has no JSON representation";
      return std::nullopt;
    }
  }
  if (!wanted.empty()) {
    why = "\"" + std::string(text) + "\" is not a !!" + std::string(wanted);
    return std::nullopt;
  }
  return base::quoted(text);
}

namespace {

using OrderedJson = nlohmann::ordered_json;

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// True if a string needs no quotes: it is printable ASCII without YAML's indicators and is read as a string.
bool standsBare(const std::string& text) {
  if (text.empty() || !(isLetter(text.front()) || isDigit(text.front()) || text.front() == '/')) return false;
  if (text.back() == ' ' || text.back() == ':') return false;
  if (std::any_of(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; })) return false;
  if (text.find(": ") != std::string::npos || text.find(" #") != std::string::npos) return false;
  // Some YAML readers convert dates and times.
  if (isDigit(text.front()) && text.find_first_of("-:") != std::string::npos) return false;
  std::string why;
  const auto read = scalarToJson("?", text, why);
  return read && read->front() == '"';
}

std::string scalar(const OrderedJson& value) {
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return standsBare(text) ? text : JsonText().value(text).take();  // escapes control characters
}

bool isBlock(const OrderedJson& value) { return value.is_structured() && !value.empty(); }

/// Appends the lines of a mapping or sequence. begun: the first line is already indented.
void block(std::string& out, const OrderedJson& value, std::size_t indent, bool begun) {
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

std::string jsonToYaml(std::string_view text) {
  const auto root = OrderedJson::parse(text, nullptr, false);
  if (root.is_discarded()) return std::string(text);
  if (!isBlock(root)) return scalar(root) + "\n";
  std::string out;
  block(out, root, 0, false);
  return out;
}

}  // namespace egpu::codec
