// Reads one JSON value into a member. Internal to codec/. Every reader returns false at the first error, and each
// caller prepends its field's name to the path of the error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/objects.h"
#include "api/core/sorted_map.h"
#include "api/v1alpha/mig.h"
#include "controller/base/status.h"

namespace egpu::codec::internal {

/// A value that is not read yet. It may be read once or skipped. Defined where value.h is implemented.
class Value;

/// Position and reason of a decoding error.
struct Failure {
  std::string path;  ///< "spec.cards[1].core"
  std::string what;  ///< "must be an integer"
  bool is(std::string_view reason) {
    what = reason;
    return false;
  }
  /// Prepends the name of a field to the path. Returns false, so that a caller can return the result.
  bool under(std::string_view field);
  bool underKey(std::string_view key);
  base::Status status() const;
};

using FieldFn = std::function<bool(std::string_view key, Value& value)>;
using ElementFn = std::function<bool(Value& value)>;

/// Calls fn for each field of the object in the text. Fails if the text contains anything else.
bool readDocument(std::string_view json, Failure& f, const FieldFn& fn);
/// Call fn for each field of an object, or each element of an array. Null has no fields and no elements.
bool eachField(Value& value, Failure& f, const FieldFn& fn);
bool eachElement(Value& value, Failure& f, const ElementFn& fn);
/// Sets isNull; the caller then leaves the field unset. Fails if the value is not JSON.
bool peekNull(Value& value, bool& isNull, Failure& f);

// JSON null leaves texts, numbers and flags unchanged, as in Kubernetes' decoders. All other values are replaced.
bool read(Value& value, std::string& out, Failure& f);
bool read(Value& value, int64_t& out, Failure& f);
bool read(Value& value, bool& out, Failure& f);
/// Reads a list of slots.
bool read(Value& value, v1alpha::Slots& out, Failure& f);
/// Skips kubectl's last-applied-configuration, a copy of the object.
bool read(Value& value, core::StringMap& out, Failure& f);

// Implement the calls of the same names in fields_core.h.
bool readQuantities(Value& value, core::StringMap& out, Failure& f);
bool readAmount(Value& value, std::string_view unit, int64_t& out, Failure& f);
bool readThousandths(Value& value, int64_t& out, Failure& f);
bool readNames(Value& value, std::vector<std::string>& out, Failure& f);
/// Reads the value as JSON text.
bool readRaw(Value& value, std::string& out, Failure& f);
/// Reads the first non-empty field of a list element with this type.
bool readEntry(Value& value, std::string_view type, std::string_view field, std::string& out, Failure& f);

/// Fails unless the kind is empty or `expected`, so that a Status or another object is not decoded as an empty object.
bool readKind(Value& value, std::string_view expected, Failure& f);
/// Reads a Kubernetes Status object as a base::Status.
bool readServerStatus(Value& value, base::Status& out, Failure& f);

/// Reads an object whose members fields() declares. Defined in reader.h.
template <class T>
bool read(Value& value, T& out, Failure& f);

template <class Maybe>
bool readMaybe(Value& value, Maybe& out, Failure& f) {
  bool isNull = false;
  out.reset();
  return peekNull(value, isNull, f) && (isNull || read(value, out.emplace(), f));
}
template <class T>
bool read(Value& value, std::optional<T>& out, Failure& f) {
  return readMaybe(value, out, f);
}
template <class T>
bool read(Value& value, core::HeapOptional<T>& out, Failure& f) {
  return readMaybe(value, out, f);
}

template <class T>
bool readMore(Value& value, std::vector<T>& out, Failure& f) {
  return eachElement(value, f, [&](Value& element) { return read(element, out.emplace_back(), f); });
}
template <class T>
bool read(Value& value, std::vector<T>& out, Failure& f) {
  out.clear();
  return readMore(value, out, f);
}

template <class T>
bool read(Value& value, core::SortedMap<T>& out, Failure& f) {
  out.clear();
  return eachField(value, f, [&](std::string_view key, Value& v) {
    bool isNull = false;
    return peekNull(v, isNull, f) && (isNull || read(v, out[key], f));
  });
}

}  // namespace egpu::codec::internal
