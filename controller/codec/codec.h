// Converts JSON and YAML to structs and back. Besides standalone/apiserver, only this module uses a JSON library.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// Decodes one object. Ignores unknown fields. Fails with Code::malformed and the name of the field if a type is wrong.
/// Defined for every struct with a kindOf. Thread-safe.
template <class T>
base::Result<T> decode(std::string_view json);

/// Encodes one object with apiVersion and kind. Omits empty and unset fields.
template <class T>
std::string encode(const T& object);

/// Metadata of a list.
struct ListMeta {
  std::string resourceVersion;
  std::string continueToken;
  int64_t remaining = 0;
};
/// Decodes a list with its fields in any order (Kubernetes 1.20 sends kind and metadata after items).
template <class T>
base::Result<ListMeta> decodeList(std::string_view json, const std::function<void(T&&)>& each);

/// One watch event.
enum class EventType { added, modified, deleted, bookmark, error };
template <class T>
struct WatchEvent {
  EventType type = EventType::error;
  T object{};                     ///< added, modified, deleted; for a bookmark only metadata.resourceVersion
  bool initialEventsEnd = false;  ///< bookmark annotated k8s.io/initial-events-end
  base::Status error;             ///< type error: the server's Status; code expired for 410
};
/// Decodes one line of a watch. Fails with Code::malformed if the line can't be decoded.
template <class T>
base::Result<WatchEvent<T>> decodeWatchEvent(std::string_view line);

/// Decodes one line into `event` and replaces its earlier content completely. After an error the content is undefined.
template <class T>
base::Status decodeWatchEvent(std::string_view line, WatchEvent<T>& event);

/// Converts the body of an unsuccessful response, a Kubernetes Status or plain text, to a base::Status. `http` is the
/// HTTP status.
base::Status decodeStatus(int http, std::string_view body);

/// Converts one YAML document to JSON text. Reads scalars as kubectl does (YAML 1.1: yes, on, 0o17, 1_000; merge keys).
/// Text without a document becomes null. Fails with Code::invalid for malformed YAML, duplicate keys, nesting beyond
/// 100, too many expanded aliases, or a second document. The message has line and column where they are known.
base::Result<std::string> yamlToJson(std::string_view yaml);
/// Converts all documents to JSON. Omits empty documents and null, as kubectl does.
base::Result<std::vector<std::string>> yamlDocuments(std::string_view yaml);

}  // namespace egpu::codec
