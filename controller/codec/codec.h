// JSON and YAML ↔ structs. The only module besides standalone/apiserver that sees a JSON library.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// Decodes one object. Unknown fields are ignored; a wrong type is Code::malformed and names the field.
/// Defined for every struct with a kindOf. Thread-safe.
template <class T>
base::Result<T> decode(std::string_view json);

/// Encodes one object with apiVersion and kind; empty and unset fields are left out.
template <class T>
std::string encode(const T& object);

/// Decodes a list without depending on the order of its fields (1.20 sends kind and metadata after items).
struct ListMeta {
  std::string resourceVersion;
  std::string continueToken;
  int64_t remaining = 0;
};
template <class T>
base::Result<ListMeta> decodeList(std::string_view json, const std::function<void(T&&)>& each);

/// One watch event.
enum class EventType { added, modified, deleted, bookmark, error };
template <class T>
struct WatchEvent {
  EventType type = EventType::error;
  T object{};                     ///< added, modified, deleted; of a bookmark only metadata.resourceVersion
  bool initialEventsEnd = false;  ///< bookmark annotated k8s.io/initial-events-end
  base::Status error;             ///< type error: what the server said; code expired for 410
};
/// Decodes one line of a watch. Malformed lines are Code::malformed.
template <class T>
base::Result<WatchEvent<T>> decodeWatchEvent(std::string_view line);

/// The same into an event that may hold an earlier one, which is replaced whole; after an error it holds nothing of
/// use.
template <class T>
base::Status decodeWatchEvent(std::string_view line, WatchEvent<T>& event);

/// A Kubernetes Status body (or plain text) of an unsuccessful answer → base::Status with the right code.
base::Status decodeStatus(int http, std::string_view body);

/// YAML (one document) → JSON text, scalars as kubectl reads them (YAML 1.1: yes, on, 0o17, 1_000; merge keys). No
/// document at all is null. Malformed YAML, duplicate keys, nesting beyond 100, aliases beyond a bound, a second
/// document → Code::invalid with line and column.
base::Result<std::string> yamlToJson(std::string_view yaml);
/// All documents as JSON; those that are empty or null are left out, as kubectl does.
base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml);

}  // namespace egpu::codec
