// Reads JSON with simdjson's On-Demand API into the members that fields() declares (fields_core.h). Internal to codec/.
// Every reader returns false at the first error, and each caller prepends its field's name to the path of the error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/objects.h"
#include "api/core/sorted_map.h"
#include "controller/base/status.h"

namespace egpu::codec::internal {

/// A value that is not read yet. It may be read once or skipped. Defined in reader.cpp, because simdjson takes long to
/// compile.
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

/// Implements the calls in fields_core.h for reading. For each field in the JSON it calls the function that declares
/// the fields, and reads the value when the name matches.
class Reader {
 public:
  using List = std::function<void()>;

  explicit Reader(Failure& failure) : f_(failure) {}

  bool document(std::string_view json, const List& list) {
    return readDocument(json, f_, [&](std::string_view key, Value& v) { return field(key, v, list); });
  }
  bool each(Value& value, const List& list) {
    return eachField(value, f_, [&](std::string_view key, Value& v) { return field(key, v, list); });
  }

  void kind(const core::Kind& kind) {
    if (at("kind")) good_ = readKind(*value_, kind.kind, f_);
  }
  template <class M>
  void operator()(std::string_view name, M& member) {
    if (at(name)) good_ = read(*value_, member, f_);
  }
  template <class M>
  void always(std::string_view name, M& member) {
    (*this)(name, member);
  }

  template <class Fn>
  void object(std::string_view name, const Fn& list) {
    if (at(name)) good_ = each(*value_, list);
  }
  template <class Fn>
  void object(std::string_view name, bool& present, const Fn& list) {
    if (!at(name)) return;
    present = there();
    if (present) good_ = each(*value_, list);
  }
  template <class Fn>
  void objectAlways(std::string_view name, const Fn& list) {
    object(name, list);
  }
  template <class Fn>
  void first(std::string_view name, const Fn& list) {
    int64_t more = 0;
    first(name, more, list);
  }
  template <class Fn>
  void first(std::string_view name, int64_t& more, const Fn& list) {
    if (at(name)) good_ = firstOf(*value_, more, list);
  }
  template <class Fn>
  void firstAlways(std::string_view name, const Fn& list) {
    first(name, list);
  }
  /// Marks the source as ambiguous if the object has another one.
  template <class Source, class Kind, class Fn>
  void choice(std::string_view name, core::HeapOptional<Source>& source, Kind kind, const Fn& list) {
    if (!at(name) || !there()) return;
    const bool another = source.has_value();
    auto& is = source.emplace();
    is.kind = kind;
    is.ambiguous = another;
    good_ = each(*value_, [&] { list(is); });
  }

  template <class T>
  void adding(std::string_view name, std::vector<T>& all) {
    if (at(name)) good_ = readMore(*value_, all, f_);
  }
  template <class T>
  void some(std::string_view name, std::vector<T>& all, bool (*which)(const T&)) {
    if (!at(name)) return;
    good_ = read(*value_, all, f_);
    std::erase_if(all, [&](const T& each) { return !which(each); });
  }
  void raw(std::string_view name, std::string& text) {
    if (at(name)) good_ = readRaw(*value_, text, f_);
  }
  void names(std::string_view name, std::vector<std::string>& all) {
    if (at(name)) good_ = readNames(*value_, all, f_);
  }
  void only(std::string_view name, std::vector<std::string>& texts) {
    if (!at(name)) return;
    texts.assign(1, {});
    good_ = read(*value_, texts.front(), f_);
  }
  void entry(std::string_view name, std::string_view type, std::string_view field, std::string& text) {
    if (at(name)) good_ = readEntry(*value_, type, field, text, f_);
  }
  void entry(std::string_view name, std::string_view type, std::string_view field, bool& flag) {
    std::string text;
    entry(name, type, field, text);
    if (at(name)) flag = text == "True";
  }
  void word(std::string_view name, bool& flag, std::string_view word, bool meaning) {
    std::string text;
    (*this)(name, text);
    if (at(name)) flag = (text == word) == meaning;
  }
  template <class As>
  void as(std::string_view name, std::string& text, As (*)(const std::string&), std::string (*from)(const As&)) {
    As got{};
    (*this)(name, got);
    if (at(name)) text = from(got);
  }

  void quantities(std::string_view name, core::StringMap& all) {
    if (at(name)) good_ = readQuantities(*value_, all, f_);
  }
  void amount(std::string_view name, int64_t& number, std::string_view unit) {
    if (at(name)) good_ = readAmount(*value_, unit, number, f_);
  }
  void thousandths(std::string_view name, int64_t& number) {
    if (at(name)) good_ = readThousandths(*value_, number, f_);
  }
  template <class Fn>
  void readOnly(const Fn& list) {
    list();
  }

 private:
  bool at(std::string_view name) const { return key_ == name; }
  /// True if the current value is not null.
  bool there() {
    bool isNull = false;
    good_ = peekNull(*value_, isNull, f_);
    return good_ && !isNull;
  }
  bool field(std::string_view key, Value& value, const List& list);
  bool firstOf(Value& list, int64_t& more, const List& fields);

  Failure& f_;
  std::string_view key_;  // name and value of the current field
  Value* value_ = nullptr;
  bool good_ = true;
};

template <class T>
bool read(Value& value, T& out, Failure& f) {
  out = T{};
  Reader reader(f);
  return reader.each(value, [&] { allFields(reader, out); });
}

}  // namespace egpu::codec::internal
