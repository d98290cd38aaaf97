// Implements value.h and readDocument() with simdjson's On-Demand API.
#include <simdjson.h>

#include <cmath>

#include "controller/base/text.h"
#include "controller/codec/json/value.h"

namespace egpu::codec::internal {

namespace ondemand = simdjson::ondemand;

class Value : public ondemand::value {};

namespace {

/// Returns the base class, because simdjson's get() accepts no derived types.
ondemand::value& inner(Value& value) { return value; }

bool is(Failure& f, simdjson::error_code code, std::string_view wrongType = {}) {
  return f.is(code == simdjson::INCORRECT_TYPE && !wrongType.empty() ? wrongType : simdjson::error_message(code));
}

bool fieldsOf(ondemand::object& object, const FieldFn& fn, Failure& f, bool (Failure::*name)(std::string_view)) {
  for (auto entry : object) {
    std::string_view key;
    Value child;
    if (const auto e = entry.unescaped_key().get(key)) return is(f, e);
    if (const auto e = entry.value().get(inner(child))) return is(f, e);
    if (!fn(key, child)) return (f.*name)(key);
  }
  return true;
}

}  // namespace

bool readDocument(std::string_view json, Failure& f, const FieldFn& fn) {
  const simdjson::padded_string text(json);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object root;
  if (const auto e = parser.iterate(text).get(document)) return is(f, e);
  if (const auto e = document.get_object().get(root)) return is(f, e, "must be an object");
  if (!fieldsOf(root, fn, f, &Failure::under)) return false;
  const char* at = nullptr;
  if (document.current_location().get(at) == simdjson::SUCCESS && at < text.data() + text.size())
    return f.is("unexpected text after the object");
  return true;
}

bool typeOf(Value& value, JsonType& type, Failure& f) {
  ondemand::json_type found{};
  if (const auto e = value.type().get(found)) return is(f, e);
  switch (found) {
    case ondemand::json_type::object:
      type = JsonType::object;
      break;
    case ondemand::json_type::array:
      type = JsonType::array;
      break;
    case ondemand::json_type::string:
      type = JsonType::string;
      break;
    case ondemand::json_type::number:
      type = JsonType::number;
      break;
    case ondemand::json_type::boolean:
      type = JsonType::boolean;
      break;
    case ondemand::json_type::null:
      type = JsonType::null;
      break;
  }
  return true;
}

bool readNull(Value& value, Failure& f) {
  bool isNull = false;
  if (const auto e = value.is_null().get(isNull)) return is(f, e);
  return isNull || f.is("is not JSON");
}

bool readText(Value& value, std::string_view& text, Failure& f) {
  if (const auto e = value.get_string().get(text)) return is(f, e, "must be a string");
  return true;
}

bool readFlag(Value& value, bool& flag, Failure& f) {
  return value.get_bool().get(flag) == simdjson::SUCCESS || f.is("must be true or false");
}

bool readInteger(Value& value, int64_t& number, Failure& f) {
  if (value.get_int64().get(number) == simdjson::SUCCESS) return true;
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.get_double().get(real) != simdjson::SUCCESS || real != std::floor(real) || std::fabs(real) > kExact)
    return f.is("must be an integer");
  number = static_cast<int64_t>(real);
  return true;
}

bool readNumberText(Value& value, std::string_view& text, Failure& f) {
  text = base::trimmed(value.raw_json_token());
  return isJsonNumber(text) || f.is("is not JSON");
}

bool readJson(Value& value, std::string_view& text, Failure& f) {
  if (const auto e = simdjson::to_json_string(inner(value)).get(text)) return is(f, e);
  text = base::trimmed(text);
  return true;
}

bool readFields(Value& value, const FieldFn& fn, Failure& f, bool (Failure::*name)(std::string_view)) {
  ondemand::object object;
  if (const auto e = value.get_object().get(object)) return is(f, e, "must be an object");
  return fieldsOf(object, fn, f, name);
}

bool readElements(Value& value, const ElementFn& fn, Failure& f) {
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

}  // namespace egpu::codec::internal
