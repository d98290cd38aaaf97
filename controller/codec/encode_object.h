// Writing primitives that the encoders of this folder share. Each writes a field only if it says something.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "controller/codec/json_text.h"

namespace egpu::codec::internal {

inline void put(JsonText& j, std::string_view key, const std::string& text) {
  if (!text.empty()) j.key(key).value(text);
}
inline void put(JsonText& j, std::string_view key, bool flag) {
  if (flag) j.key(key).value(true);
}
inline void put(JsonText& j, std::string_view key, int64_t number) {
  if (number != 0) j.key(key).value(number);
}
void put(JsonText& j, std::string_view key, const core::StringMap& map);
void put(JsonText& j, std::string_view key, const std::vector<std::string>& texts);

/// An array of what `one(element)` writes.
template <class T, class Fn>
void putEach(JsonText& j, std::string_view key, const std::vector<T>& all, Fn&& one) {
  if (all.empty()) return;
  j.key(key).beginArray();
  for (const auto& element : all) one(element);
  j.endArray();
}

void write(JsonText& j, const core::ObjectMeta& metadata);
void write(JsonText& j, const core::Condition& condition);
void write(JsonText& j, const core::NodeSelectorTerm& term);
void write(JsonText& j, const core::NodeSelector& selector);
void write(JsonText& j, const core::LabelSelector& selector);

void putTolerations(JsonText& j, const std::vector<core::Toleration>& all);
void putConditions(JsonText& j, const std::vector<core::Condition>& all);

/// Opens the root object and writes apiVersion, kind and metadata.
template <class T>
void beginRoot(JsonText& j, const T& object) {
  j.beginObject();
  j.key("apiVersion").value(core::kindOf<T>.apiVersion());
  j.key("kind").value(core::kindOf<T>.kind);
  j.key("metadata");
  write(j, object.metadata);
}

}  // namespace egpu::codec::internal
