// The functions with which reader.cpp reads JSON values. Internal to codec/. value_simdjson.cpp implements them, except
// in the statically linked kubectl-egpu, which has value_text.cpp, because Debian has no static simdjson.
#pragma once

#include <cstdint>
#include <string_view>

#include "controller/codec/json/read_value.h"

namespace egpu::codec::internal {

enum class JsonType { object, array, string, number, boolean, null };

// Every function sets the reason in f and returns false if the value is not JSON, or of another type than the function
// reads. A text that is returned is valid until the document has been read.

/// Does not read the value. The value of a number, boolean or null need not be JSON.
bool typeOf(Value& value, JsonType& type, Failure& f);
bool readNull(Value& value, Failure& f);
bool readText(Value& value, std::string_view& text, Failure& f);
bool readFlag(Value& value, bool& flag, Failure& f);
/// Reads an integer. Accepts 1.0 and 1e3, as Kubernetes does.
bool readInteger(Value& value, int64_t& number, Failure& f);
/// Reads a number as it was written.
bool readNumberText(Value& value, std::string_view& text, Failure& f);
/// Reads any value as it was written.
bool readJson(Value& value, std::string_view& text, Failure& f);
/// Calls fn for each field of an object. `name` prepends the field to the path of an error.
bool readFields(Value& value, const FieldFn& fn, Failure& f, bool (Failure::*name)(std::string_view) = &Failure::under);
/// Calls fn for each element of an array.
bool readElements(Value& value, const ElementFn& fn, Failure& f);

/// True if the text is a number of JSON.
bool isJsonNumber(std::string_view text);

}  // namespace egpu::codec::internal
