// Writes the members that fields() declares (fields_core.h) as JSON. Internal to codec/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/sorted_map.h"
#include "api/v1alpha/mig.h"
#include "api/v1alpha/quantity.h"
#include "controller/codec/fields_core.h"
#include "controller/codec/json/text.h"

namespace egpu::codec::internal {

/// Implements the calls in fields_core.h for writing.
class Writer {
 public:
  using List = std::function<void()>;

  /// nulls: v(name, member) writes null for an empty member, so that a merge patch removes the earlier value. Affects
  /// no other call.
  explicit Writer(JsonText& j, bool nulls = false) : j_(j), nulls_(nulls) {}

  void write(const std::string& text) { j_.value(text); }
  void write(int64_t number) { j_.value(number); }
  void write(bool flag) { j_.value(flag); }
  template <class T>
  void write(const std::optional<T>& o) {
    write(*o);
  }
  template <class T>
  void write(const core::HeapOptional<T>& o) {
    write(*o);
  }
  template <class T>
  void write(const std::vector<T>& all) {
    const bool nulls = std::exchange(nulls_, false);  // not in elements, because a merge patch replaces whole lists
    j_.beginArray();
    for (const auto& each : all) write(each);
    j_.endArray();
    nulls_ = nulls;
  }
  void write(const v1alpha::Slots& slots) {
    j_.beginArray();
    for (unsigned slot = 0; slot < v1alpha::Slots::kCount; ++slot)
      if (slots.has(slot)) j_.value(int64_t{slot});
    j_.endArray();
  }
  template <class T>
  void write(const core::SortedMap<T>& all) {
    j_.beginObject();
    for (const auto& [key, each] : all) {
      j_.key(key);
      write(each);
    }
    j_.endObject();
  }
  template <class T>
  void write(const T& o) {
    j_.beginObject();
    allFields(*this, o);
    j_.endObject();
  }

  void kind(const core::Kind& kind) { j_.key("apiVersion").value(kind.apiVersion()).key("kind").value(kind.kind); }
  template <class M>
  void operator()(std::string_view name, const M& member) {
    if (!isEmpty(member))
      always(name, member);
    else if (nulls_)
      j_.key(name).null();
  }
  template <class M>
  void always(std::string_view name, const M& member) {
    j_.key(name);
    write(member);
  }

  void object(std::string_view name, const List& list) {
    if (const auto text = textOf(list); text != "{}") j_.key(name).raw(text);
  }
  void object(std::string_view name, bool present, const List& list) {
    if (const auto text = textOf(list); present || text != "{}") j_.key(name).raw(text);
  }
  void objectAlways(std::string_view name, const List& list) { j_.key(name).raw(textOf(list)); }
  void first(std::string_view name, const List& list) {
    if (const auto text = textOf(list); text != "{}") j_.key(name).beginArray().raw(text).endArray();
  }
  void first(std::string_view name, int64_t, const List& list) { first(name, list); }
  void raw(std::string_view name, const std::string& text) {
    if (!text.empty()) j_.key(name).raw(text);
  }
  void firstAlways(std::string_view name, const List& list) { j_.key(name).beginArray().raw(textOf(list)).endArray(); }
  template <class Source, class Kind, class Fn>
  void choice(std::string_view name, const core::HeapOptional<Source>& source, Kind kind, const Fn& list) {
    if (source && source->kind == kind) objectAlways(name, [&] { list(*source); });
  }

  template <class T>
  void adding(std::string_view name, const std::vector<T>& all) {
    (*this)(name, all);
  }
  template <class T>
  void some(std::string_view name, const std::vector<T>& all, bool (*)(const T&)) {
    (*this)(name, all);
  }
  void names(std::string_view name, const std::vector<std::string>& all) {
    if (all.empty()) return;
    j_.key(name).beginArray();
    for (const auto& each : all) j_.beginObject().key("name").value(each).endObject();
    j_.endArray();
  }
  void only(std::string_view name, const std::vector<std::string>& texts) {
    if (!texts.empty()) j_.key(name).value(texts.front());
  }
  void entry(std::string_view name, std::string_view type, std::string_view field, const std::string& text) {
    if (text.empty()) return;
    j_.key(name).beginArray().beginObject();
    j_.key("type").value(type).key(field).value(text).endObject().endArray();
  }
  void entry(std::string_view name, std::string_view type, std::string_view field, bool flag) {
    entry(name, type, field, std::string(flag ? "True" : "False"));
  }
  void word(std::string_view name, bool flag, std::string_view word, bool meaning) {
    if (flag == meaning) j_.key(name).value(word);
  }
  template <class As>
  void as(std::string_view name, const std::string& text, As (*to)(const std::string&), std::string (*)(const As&)) {
    (*this)(name, to(text));
  }

  void quantities(std::string_view name, const core::StringMap& all) { (*this)(name, all); }
  void amount(std::string_view name, int64_t number, std::string_view unit) {
    j_.key(name).value(std::to_string(number) + std::string(unit));
  }
  void thousandths(std::string_view name, int64_t number) {
    j_.key(name);
    if (number % 1000 == 0)
      j_.value(number / 1000);
    else
      j_.value(v1alpha::formatThousandths(number));
  }
  template <class Fn>
  void readOnly(const Fn&) {}

 private:
  template <class M>
  static bool isEmpty(const M& member) {
    if constexpr (requires { member.empty(); })
      return member.empty();
    else if constexpr (requires { member.has_value(); })
      return !member.has_value();
    else
      return member == M{};
  }

  std::string textOf(const List& list) {
    JsonText whole = std::exchange(j_, {});
    j_.beginObject();
    list();
    j_.endObject();
    std::string text = j_.take();
    j_ = std::move(whole);
    return text;
  }

  JsonText& j_;
  bool nulls_;
};

}  // namespace egpu::codec::internal
