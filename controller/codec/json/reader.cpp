#include "controller/codec/json/reader.h"

#include "api/v1alpha/quantity.h"
#include "controller/codec/json/value.h"

namespace egpu::codec::internal {

namespace {

/// Annotation with a copy of the whole object that only kubectl uses. Dropping it halves the memory of a cached object.
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

}  // namespace

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

bool eachField(Value& value, Failure& f, const FieldFn& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  return readFields(value, fn, f);
}

bool eachElement(Value& value, Failure& f, const ElementFn& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  return readElements(value, fn, f);
}

bool peekNull(Value& value, bool& isNull, Failure& f) {
  JsonType type{};
  if (!typeOf(value, type, f)) return false;
  isNull = type == JsonType::null;
  return !isNull || readNull(value, f);
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
  JsonType type{};
  if (!typeOf(value, type, f)) return false;
  if (type == JsonType::null) return readNull(value, f);
  return type == JsonType::number ? readInteger(value, out, f) : f.is("must be an integer");
}

bool read(Value& value, bool& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  return readFlag(value, out, f);
}

static bool readEntries(Value& value, core::StringMap& out, Failure& f,
                        bool (*readOne)(Value&, std::string&, Failure&)) {
  out.clear();
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  return readFields(
      value,
      [&](std::string_view key, Value& child) {
        if (key == kLastApplied) return true;
        auto& text = out[key];
        text.clear();
        return readOne(child, text, f);
      },
      f, &Failure::underKey);
}

bool read(Value& value, core::StringMap& out, Failure& f) { return readEntries(value, out, f, read); }

/// Reads one quantity: a string, or a number as it was written.
static bool readQuantity(Value& value, std::string& out, Failure& f) {
  JsonType type{};
  if (!typeOf(value, type, f)) return false;
  if (type != JsonType::number)
    return type == JsonType::string || type == JsonType::null ? read(value, out, f)
                                                              : f.is("must be a quantity: a string or a number");
  std::string_view text;
  if (!readNumberText(value, text, f)) return false;
  out = text;
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
  if (!readJson(value, text, f)) return false;
  out = text;
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
