// Reads a JSON object into the members that fields() declares (fields_core.h). Internal to codec/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/objects.h"
#include "controller/codec/json/read_value.h"

namespace egpu::codec::internal {

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
