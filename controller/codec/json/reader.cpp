#include "controller/codec/json/reader.h"

#include <simdjson.h>

#include <cmath>

#include "api/v1alpha/quantity.h"
#include "controller/base/text.h"

namespace egpu::codec::internal {

namespace ondemand = simdjson::ondemand;

class Value : public ondemand::value {};

namespace {

/// Returns the base class, because simdjson's get() accepts no derived types.
ondemand::value& inner(Value& value) { return value; }

/// Annotation with a copy of the whole object that only kubectl uses. Dropping it halves the memory of a cached object.
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

bool is(Failure& f, simdjson::error_code code, std::string_view wrongType = {}) {
  return f.is(code == simdjson::INCORRECT_TYPE && !wrongType.empty() ? wrongType : simdjson::error_message(code));
}

bool isJsonNumber(std::string_view s) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
    return i - from;
  };
  if (i < s.size() && s[i] == '-') ++i;
  const std::size_t start = i;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && s[start] == '0')) return false;
  if (i < s.size() && s[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == s.size();
}

bool readText(Value& value, std::string_view& out, Failure& f) {
  if (const auto e = value.get_string().get(out)) return is(f, e, "must be a string");
  return true;
}

bool eachField(ondemand::object& object, Failure& f, const FieldFn& fn) {
  for (auto entry : object) {
    std::string_view key;
    Value child;
    if (const auto e = entry.unescaped_key().get(key)) return is(f, e);
    if (const auto e = entry.value().get(inner(child))) return is(f, e);
    if (!fn(key, child)) return f.under(key);
  }
  return true;
}

}  // namespace

bool Failure::under(std::string_view field) {
  std::string whole(field);
  if (!path.empty() && path.front() != '[') whole += '.';
  path = whole + path;
  return false;
}
bool Failure::underKey(std::string_view key) {
  std::string whole = "[" + std::string(key) + "]";
  if (!path.empty() && path.front() != '[') whole += '.';
  path = whole + path;
  return false;
}
base::Status Failure::status() const { return {base::Code::malformed, path.empty() ? what : path + ": " + what}; }

bool readDocument(std::string_view json, Failure& f, const FieldFn& fn) {
  const simdjson::padded_string text(json);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object root;
  if (const auto e = parser.iterate(text).get(document)) return is(f, e);
  if (const auto e = document.get_object().get(root)) return is(f, e, "must be an object");
  if (!eachField(root, f, fn)) return false;
  const char* at = nullptr;
  if (document.current_location().get(at) == simdjson::SUCCESS && at < text.data() + text.size())
    return f.is("unexpected text after the object");
  return true;
}

bool eachField(Value& value, Failure& f, const FieldFn& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  ondemand::object object;
  if (const auto e = value.get_object().get(object)) return is(f, e, "must be an object");
  return eachField(object, f, fn);
}

bool eachElement(Value& value, Failure& f, const ElementFn& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  ondemand::array array;
  if (const auto e = value.get_array().get(array)) return is(f, e, "must be an array");
  std::size_t index = 0;
  for (auto entry : array) {
    Value child;
    if (const auto e = entry.get(inner(child))) return is(f, e);
    if (!fn(child)) return f.underKey(std::to_string(index));
    ++index;
  }
  return true;
}

bool peekNull(Value& value, bool& isNull, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return is(f, e);
  if (type != ondemand::json_type::null) {
    isNull = false;
    return true;
  }
  if (const auto e = value.is_null().get(isNull)) return is(f, e);
  return isNull || f.is("is not JSON");
}

bool read(Value& value, std::string& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  std::string_view text;
  if (!readText(value, text, f)) return false;
  out = text;
  return true;
}

bool read(Value& value, int64_t& out, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return is(f, e);
  bool isNull = false;
  if (type == ondemand::json_type::null) return peekNull(value, isNull, f);
  if (type != ondemand::json_type::number) return f.is("must be an integer");
  if (value.get_int64().get(out) == simdjson::SUCCESS) return true;
  // Kubernetes accepts 1.0 and 1e3 as integers.
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.get_double().get(real) != simdjson::SUCCESS || real != std::floor(real) || std::fabs(real) > kExact)
    return f.is("must be an integer");
  out = static_cast<int64_t>(real);
  return true;
}

bool read(Value& value, bool& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  if (value.get_bool().get(out)) return f.is("must be true or false");
  return true;
}

static bool readEntries(Value& value, core::StringMap& out, Failure& f,
                        bool (*readOne)(Value&, std::string&, Failure&)) {
  out.clear();
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  ondemand::object object;
  if (const auto e = value.get_object().get(object)) return is(f, e, "must be an object");
  for (auto entry : object) {
    std::string_view key;
    Value child;
    if (const auto e = entry.unescaped_key().get(key)) return is(f, e);
    if (const auto e = entry.value().get(inner(child))) return is(f, e);
    if (key == kLastApplied) continue;
    auto& text = out[key];
    text.clear();
    if (!readOne(child, text, f)) return f.underKey(key);
  }
  return true;
}

bool read(Value& value, core::StringMap& out, Failure& f) { return readEntries(value, out, f, read); }

/// Reads one quantity: a string, or a number as it was written.
static bool readQuantity(Value& value, std::string& out, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return is(f, e);
  if (type != ondemand::json_type::number)
    return type == ondemand::json_type::string || type == ondemand::json_type::null
               ? read(value, out, f)
               : f.is("must be a quantity: a string or a number");
  const std::string_view token = base::trimmed(value.raw_json_token());
  if (!isJsonNumber(token)) return f.is("is not JSON");
  out = token;
  return true;
}

bool readQuantities(Value& value, core::StringMap& out, Failure& f) { return readEntries(value, out, f, readQuantity); }

bool readAmount(Value& value, std::string_view unit, int64_t& out, Failure& f) {
  std::string text;
  if (!readQuantity(value, text, f)) return false;
  if (text.empty()) return true;
  std::string error;
  const auto quantity = v1alpha::parseQuantity(text, &error);
  if (!quantity) return f.is("must be a quantity: " + error);
  __int128 units = quantity->nano / (unit == "m" ? 1'000'000 : 1'000'000'000);
  constexpr __int128 max = INT64_MAX;
  if (units > max) units = max;
  if (units < -max) units = -max;
  out = static_cast<int64_t>(units);
  return true;
}

bool read(Value& value, v1alpha::Slots& out, Failure& f) {
  out = {};
  return eachElement(value, f, [&](Value& element) {
    int64_t slot = 0;
    if (!read(element, slot, f)) return false;
    if (slot < 0 || slot >= v1alpha::Slots::kCount) return f.is("must be a slot, 0 to 8");
    out.bits = static_cast<uint16_t>(out.bits | 1u << static_cast<unsigned>(slot));
    return true;
  });
}

bool readThousandths(Value& value, int64_t& out, Failure& f) {
  std::string text;
  if (!readQuantity(value, text, f)) return false;
  if (text.empty()) return true;
  const auto quantity = v1alpha::parseQuantity(text);
  const auto milli = quantity ? quantity->asMilli() : std::nullopt;
  if (!milli) return f.is("must be a number such as 312 or \"19.5\", of at most three decimals");
  out = *milli;
  return true;
}

bool readRaw(Value& value, std::string& out, Failure& f) {
  out.clear();
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  std::string_view text;
  if (const auto e = simdjson::to_json_string(inner(value)).get(text)) return is(f, e);
  out = base::trimmed(text);
  return true;
}

bool readNames(Value& value, std::vector<std::string>& out, Failure& f) {
  out.clear();
  return eachElement(value, f, [&](Value& element) {
    std::string& name = out.emplace_back();
    return eachField(element, f, [&](std::string_view key, Value& v) { return key != "name" || read(v, name, f); });
  });
}

bool readEntry(Value& value, std::string_view type, std::string_view field, std::string& out, Failure& f) {
  return eachElement(value, f, [&](Value& element) {
    std::string its, text;
    const bool good = eachField(element, f, [&](std::string_view key, Value& v) {
      if (key == "type") return read(v, its, f);
      return key != field || read(v, text, f);
    });
    if (its == type && out.empty()) out = std::move(text);
    return good;
  });
}

bool readKind(Value& value, std::string_view expected, Failure& f) {
  std::string_view text;
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  if (!readText(value, text, f)) return false;
  if (text.empty() || text == expected) return true;
  return f.is("is " + std::string(text) + ", expected " + std::string(expected));
}

bool Reader::field(std::string_view key, Value& value, const List& list) {
  const auto outerKey = std::exchange(key_, key);
  auto* const outerValue = std::exchange(value_, &value);
  list();
  key_ = outerKey;
  value_ = outerValue;
  return good_;
}

bool Reader::firstOf(Value& list, int64_t& more, const List& fields) {
  more = -1;
  const bool good = eachElement(list, f_, [&](Value& element) { return ++more > 0 || each(element, fields); });
  if (more < 0) more = 0;
  return good;
}

}  // namespace egpu::codec::internal
