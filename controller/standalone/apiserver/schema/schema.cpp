#include "controller/standalone/apiserver/schema/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "api/v1alpha/quantity.h"
#include "controller/base/text.h"
#include "controller/base/timestamp.h"
#include "controller/standalone/apiserver/schema/schema_node.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using Type = SchemaNode::Type;

constexpr size_t kMaxUnknown = 64;
constexpr size_t kMaxErrors = 32;
constexpr size_t kShown = 256;  // maximum bytes of a value in a message

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kShown) return text;
  size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a UTF-8 sequence
  return text.substr(0, end) + (value.is_string() ? "...\"" : "...");
}

// Returns the name of a JSON type as in the type errors of a real server.
const char* typeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "object";
    case Json::value_t::array:
      return "array";
    case Json::value_t::string:
      return "string";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::number_integer:
      return "integer";
    case Json::value_t::number_unsigned:
      return value.get<uint64_t>() <= INT64_MAX ? "integer" : "number";
    default:
      return "number";
  }
}
const char* typeName(Type type) {
  switch (type) {
    case Type::object:
      return "object";
    case Type::array:
      return "array";
    case Type::string:
      return "string";
    case Type::integer:
      return "integer";
    case Type::number:
      return "number";
    case Type::boolean:
      return "boolean";
    case Type::any:
      break;
  }
  return "any";
}

bool isInteger(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= INT64_MAX;
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double d = value.get<double>();
  return std::abs(d) <= 9007199254740991.0 && d == std::floor(d);  // integers that a double represents exactly
}

bool matchesType(Type type, const Json& value) {
  switch (type) {
    case Type::any:
      return true;
    case Type::object:
      return value.is_object();
    case Type::array:
      return value.is_array();
    case Type::string:
      return value.is_string();
    case Type::integer:
      return isInteger(value);
    case Type::number:
      return value.is_number();
    case Type::boolean:
      return value.is_boolean();
  }
  return false;
}

// Returns -1, 0 or 1. Exact for integers.
int compareNumbers(const Json& a, const Json& b) {
  if (a.is_number_integer() && b.is_number_integer()) {
    const bool aBig = a.is_number_unsigned() && a.get<uint64_t>() > INT64_MAX;
    const bool bBig = b.is_number_unsigned() && b.get<uint64_t>() > INT64_MAX;
    if (aBig != bBig) return aBig ? 1 : -1;
    if (aBig) {
      const auto x = a.get<uint64_t>(), y = b.get<uint64_t>();
      return x < y ? -1 : x > y;
    }
    const auto x = a.get<int64_t>(), y = b.get<int64_t>();
    return x < y ? -1 : x > y;
  }
  const double x = a.get<double>(), y = b.get<double>();
  return x < y ? -1 : x > y;
}

int64_t codePoints(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// Extends the path by one child until its destruction.
class Step {
 public:
  Step(std::string& path, std::string_view name) : path_(path), length_(path.size()) {
    if (!path.empty()) path += '.';
    path += name;
  }
  Step(std::string& path, size_t index) : path_(path), length_(path.size()) {
    path += '[' + std::to_string(index) + ']';
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() { path_.resize(length_); }

 private:
  std::string& path_;
  size_t length_;
};

// True for a null that the schema does not allow. A real server removes such nulls before it applies defaults.
bool droppedNull(const SchemaNode& node, const Json& value) {
  return value.is_null() && !node.nullable && node.type != Type::any;
}

void pruneNode(const SchemaNode& node, Json& value, std::string& path, std::vector<std::string>& unknown) {
  if (value.is_object()) {
    if (node.type != Type::object && node.type != Type::any) return;  // a type error, which validate() reports
    for (auto it = value.begin(); it != value.end();) {
      Step step(path, it.key());
      auto property = node.properties.find(it.key());
      const SchemaNode* child = property != node.properties.end() ? property->second.get() : node.additional.get();
      if (!child && !node.preserveUnknown) {
        if (unknown.size() < kMaxUnknown) unknown.push_back(path);
        it = value.erase(it);
        continue;
      }
      if (child && property != node.properties.end() && droppedNull(*child, it.value())) {
        it = value.erase(it);
        continue;
      }
      if (child) pruneNode(*child, it.value(), path, unknown);
      ++it;
    }
  } else if (value.is_array() && node.items) {
    for (size_t i = 0; i < value.size(); ++i) {
      Step step(path, i);
      pruneNode(*node.items, value[i], path, unknown);
    }
  }
}

void defaultNode(const SchemaNode& node, Json& value, bool emptyIsAbsent) {
  if (value.is_object()) {
    for (const auto& [name, child] : node.properties) {
      auto it = value.find(name);
      if (it == value.end()) {
        if (!child->defaultValue) continue;
        it = value.emplace(name, *child->defaultValue).first;
      } else if (emptyIsAbsent && child->defaultValue && *it == "") {
        *it = *child->defaultValue;
      }
      defaultNode(*child, *it, emptyIsAbsent);
    }
    if (node.additional)
      for (auto& [name, child] : value.items())
        if (!node.properties.contains(name)) defaultNode(*node.additional, child, emptyIsAbsent);
  } else if (value.is_array() && node.items) {
    for (auto& item : value) defaultNode(*node.items, item, emptyIsAbsent);
  }
}

class Validator {
 public:
  std::vector<FieldError> errors;

  void check(const SchemaNode& node, const Json& value) {
    if (errors.size() >= kMaxErrors) return;
    if (value.is_null()) {
      if (node.nullable || (node.type == Type::any && !node.intOrString)) return;
      return typeError(node, value);
    }
    if (node.intOrString) {
      if (!value.is_string() && !isInteger(value)) return typeError(node, value);
    } else if (!matchesType(node.type, value)) {
      return typeError(node, value);
    }
    if (!node.enumeration.empty() &&
        std::find(node.enumeration.begin(), node.enumeration.end(), value) == node.enumeration.end()) {
      std::vector<std::string> supported;
      for (const auto& e : node.enumeration) supported.push_back(e.is_string() ? e.get<std::string>() : e.dump());
      errors.push_back(notSupportedField(path_, value, supported));
      return;
    }
    if (value.is_string()) checkString(node, value);
    if (value.is_number()) checkNumber(node, value);
    if (value.is_object()) checkObject(node, value);
    if (value.is_array()) checkArray(node, value);
  }

 private:
  std::string inBody(const std::string& what) const {
    return (path_.empty() ? std::string("value") : path_) + " in body " + what;
  }

  void typeError(const SchemaNode& node, const Json& value) {
    const std::string have = typeName(value);
    const char* want = node.intOrString ? "integer,string" : typeName(node.type);
    std::string what = "must be of type " + std::string(want) + ": \"" + have + "\"";
    if (node.intOrString && value.is_number()) what += "; " + decimalHint(value.dump());
    errors.push_back(typeInvalidField(path_, have, inBody(what)));
  }

  /// Returns how to write the number so that the field accepts it. Kubernetes gives no such hint.
  std::string decimalHint(const std::string& number) const {
    if (path_.ends_with("tflops")) return "a decimal is written in quotes: \"" + number + "\"";
    if (path_.ends_with("gpu-memory")) return "a decimal needs a unit, in quotes: \"" + number + "Gi\"";
    return "write a whole number";
  }

  void checkString(const SchemaNode& node, const Json& value) {
    const auto& text = value.get_ref<const std::string&>();
    const int64_t length = node.minLength || node.maxLength ? codePoints(text) : 0;
    if (node.maxLength && length > *node.maxLength) {
      errors.push_back(tooLongField(path_, *node.maxLength));
      return;  // do not match patterns on a text that is too long
    }
    if (node.minLength && length < *node.minLength)
      errors.push_back(
          invalidField(path_, value, inBody("should be at least " + std::to_string(*node.minLength) + " chars long")));
    if (node.pattern && !re2::RE2::PartialMatch(text, *node.pattern))
      errors.push_back(invalidField(path_, value, inBody("should match '" + node.pattern->pattern() + "'")));
    if (node.format == SchemaNode::Format::dateTime && !base::parseRfc3339(text))
      errors.push_back(invalidField(path_, value, inBody("must be of type date-time: " + shown(value))));
    if (node.format == SchemaNode::Format::quantity && !v1alpha::parseQuantity(text))
      errors.push_back(invalidField(path_, value,
                                    "quantities must match the regular expression "
                                    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"));
  }

  void checkNumber(const SchemaNode& node, const Json& value) {
    if (node.format == SchemaNode::Format::int32 &&
        (compareNumbers(value, INT32_MAX) > 0 || compareNumbers(value, INT32_MIN) < 0))
      errors.push_back(invalidField(path_, value, inBody("must be of type int32: \"int64\"")));
    if (node.minimum) {
      const int c = compareNumbers(value, *node.minimum);
      if (c < 0 || (c == 0 && node.exclusiveMinimum))
        errors.push_back(invalidField(
            path_, value,
            inBody((node.exclusiveMinimum ? "should be greater than " : "should be greater than or equal to ") +
                   node.minimum->dump())));
    }
    if (node.maximum) {
      const int c = compareNumbers(value, *node.maximum);
      if (c > 0 || (c == 0 && node.exclusiveMaximum))
        errors.push_back(
            invalidField(path_, value,
                         inBody((node.exclusiveMaximum ? "should be less than " : "should be less than or equal to ") +
                                node.maximum->dump())));
    }
  }

  void checkObject(const SchemaNode& node, const Json& value) {
    const auto size = static_cast<int64_t>(value.size());
    if (node.maxProperties && size > *node.maxProperties) {
      errors.push_back(tooManyField(path_, size, *node.maxProperties));
      return;
    }
    if (node.minProperties && size < *node.minProperties)
      errors.push_back(invalidField(
          path_, value, inBody("should have at least " + std::to_string(*node.minProperties) + " properties")));
    for (const auto& name : node.required)
      if (!value.contains(name)) {
        Step step(path_, name);
        errors.push_back(requiredField(path_));
      }
    for (const auto& [name, sub] : value.items()) {
      auto property = node.properties.find(name);
      const SchemaNode* child = property != node.properties.end() ? property->second.get() : node.additional.get();
      if (!child) continue;
      Step step(path_, name);
      check(*child, sub);
    }
  }

  void checkArray(const SchemaNode& node, const Json& value) {
    const auto size = static_cast<int64_t>(value.size());
    if (node.maxItems && size > *node.maxItems) {
      errors.push_back(tooManyField(path_, size, *node.maxItems));
      return;
    }
    if (node.minItems && size < *node.minItems)
      errors.push_back(
          invalidField(path_, value, inBody("should have at least " + std::to_string(*node.minItems) + " items")));
    if (node.items)
      for (size_t i = 0; i < value.size(); ++i) {
        Step step(path_, i);
        check(*node.items, value[i]);
      }
    if (node.listType != SchemaNode::ListType::atomic) checkUnique(node, value);
  }

  void checkUnique(const SchemaNode& node, const Json& value) {
    std::set<Json> seen;
    for (size_t i = 0; i < value.size(); ++i) {
      Json key = value[i];
      if (node.listType == SchemaNode::ListType::map) {
        if (!value[i].is_object()) continue;  // a type error that is already reported
        key = Json::object();
        for (const auto& name : node.listMapKeys)
          if (auto it = value[i].find(name); it != value[i].end()) key[name] = *it;
      }
      if (!seen.insert(key).second) {
        Step step(path_, i);
        errors.push_back(duplicateField(path_, key));
      }
    }
  }

  std::string path_;
};

}  // namespace

FieldError invalidField(std::string field, const Json& value, std::string_view detail) {
  return {"FieldValueInvalid", std::move(field), "Invalid value: " + shown(value) + ": " + std::string(detail)};
}
FieldError typeInvalidField(std::string field, const Json& value, std::string_view detail) {
  return {"FieldValueTypeInvalid", std::move(field), "Invalid value: " + shown(value) + ": " + std::string(detail)};
}
FieldError requiredField(std::string field, std::string_view detail) {
  return {"FieldValueRequired", std::move(field),
          "Required value" + (detail.empty() ? "" : ": " + std::string(detail))};
}
FieldError notSupportedField(std::string field, const Json& value, const std::vector<std::string>& supported) {
  std::string message = "Unsupported value: " + shown(value);
  for (size_t i = 0; i < supported.size(); ++i)
    message += (i ? ", " : ": supported values: ") + base::quoted(supported[i]);
  return {"FieldValueNotSupported", std::move(field), message};
}
FieldError duplicateField(std::string field, const Json& value) {
  return {"FieldValueDuplicate", std::move(field), "Duplicate value: " + shown(value)};
}
FieldError forbiddenField(std::string field, std::string_view detail) {
  return {"FieldValueForbidden", std::move(field), "Forbidden: " + std::string(detail)};
}
FieldError tooLongField(std::string field, int64_t maxBytes) {
  return {"FieldValueTooLong", std::move(field),
          "Too long: may not be more than " + std::to_string(maxBytes) + " bytes"};
}
FieldError tooManyField(std::string field, int64_t actual, int64_t max) {
  return {"FieldValueTooMany", std::move(field),
          "Too many: " + std::to_string(actual) + ": must have at most " + std::to_string(max) + " items"};
}

std::string joinErrors(const std::vector<FieldError>& errors) {
  std::string out;
  for (const auto& e : errors) {
    if (!out.empty()) out += ", ";
    out += e.field.empty() ? e.message : e.field + ": " + e.message;
  }
  return errors.size() > 1 ? "[" + out + "]" : out;
}

std::vector<std::string> Schema::prune(Json& value) const {
  std::vector<std::string> unknown;
  std::string path;
  pruneNode(*root_, value, path, unknown);
  return unknown;
}

void Schema::applyDefaults(Json& value, bool emptyIsAbsent) const { defaultNode(*root_, value, emptyIsAbsent); }

std::vector<FieldError> Schema::validate(const Json& value) const {
  Validator validator;
  validator.check(*root_, value);
  return std::move(validator.errors);
}

bool nestsWithin(const Json& value, int depth) {
  // Visit the value level by level instead of recursively, so that a deep value does not overflow the stack.
  std::vector<const Json*> level{&value}, next;
  for (int d = 0; !level.empty(); ++d, level.swap(next)) {
    if (d >= depth && level.front()->is_structured()) return false;
    next.clear();
    for (const Json* v : level)
      for (const auto& child : *v)
        if (child.is_structured()) next.push_back(&child);
  }
  return true;
}

}  // namespace egpu::apiserver
