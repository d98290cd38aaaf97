// Defines decoding and encoding of every kind, as single objects, in lists and in watches. fields_*.h declare the
// fields.
#include "controller/codec/codec.h"
#include "controller/codec/fields_core.h"
#include "controller/codec/fields_dra.h"
#include "controller/codec/fields_v1alpha.h"
#include "controller/codec/json/reader.h"
#include "controller/codec/json/writer.h"

namespace egpu::codec {

namespace internal {

void fields(auto& v, Is<ListMeta> auto& o) {
  v("resourceVersion", o.resourceVersion);
  v("continue", o.continueToken);
  v("remainingItemCount", o.remaining);
}

static bool readList(std::string_view json, const std::string& kind, ListMeta& meta, Failure& f,
                     const ElementFn& item) {
  return readDocument(json, f, [&](std::string_view key, Value& v) {
    if (key == "items") return eachElement(v, f, item);
    if (key == "metadata") return read(v, meta, f);
    if (key == "kind") return readKind(v, kind, f);
    return true;
  });
}

static bool readEventType(Value& value, EventType& out, Failure& f) {
  constexpr std::pair<std::string_view, EventType> types[] = {{"ADDED", EventType::added},
                                                              {"MODIFIED", EventType::modified},
                                                              {"DELETED", EventType::deleted},
                                                              {"BOOKMARK", EventType::bookmark},
                                                              {"ERROR", EventType::error}};
  std::string text;
  if (!read(value, text, f)) return false;
  for (const auto& [word, type] : types) {
    if (text != word) continue;
    out = type;
    return true;
  }
  return f.is("unknown watch event " + text.substr(0, 40));
}

/// Reads a watch event. Calls object() with the field `object` after the type is known.
static bool readEvent(std::string_view line, EventType& type, Failure& f, const ElementFn& object) {
  bool typed = false;
  bool read = false;
  // Servers send the type first. If it comes after the object, the object is read in a second pass.
  for (int pass = 0; pass < 2 && !read; ++pass) {
    int types = 0;
    int objects = 0;
    const auto field = [&](std::string_view key, Value& v) {
      if (key == "type") {
        if (++types > 1) return f.is("is a duplicate");
        typed = true;
        return readEventType(v, type, f);
      }
      if (key != "object") return true;
      if (++objects > 1) return f.is("is a duplicate");
      read = typed;
      return !typed || object(v);
    };
    if (!readDocument(line, f, field)) return false;
    if (!typed || objects == 0) return f.is(typed ? "object: is missing" : "type: is missing");
  }
  return true;
}

}  // namespace internal

template <class T>
base::Result<T> decode(std::string_view json) {
  internal::Failure failure;
  internal::Reader reader(failure);
  T out{};
  if (!reader.document(json, [&] { allFields(reader, out); })) return failure.status();
  return out;
}

template <class T>
base::Result<ListMeta> decodeList(std::string_view json, const std::function<void(T&&)>& each) {
  internal::Failure failure;
  ListMeta meta;
  const auto item = [&](internal::Value& value) {
    T object{};
    if (!internal::read(value, object, failure)) return false;
    each(std::move(object));
    return true;
  };
  if (!internal::readList(json, std::string(core::kindOf<T>.kind) + "List", meta, failure, item))
    return failure.status();
  return meta;
}

template <class T>
base::Status decodeWatchEvent(std::string_view line, WatchEvent<T>& event) {
  internal::Failure failure;
  event.type = EventType::error;
  event.error = {};
  const auto object = [&](internal::Value& value) {
    if (event.type != EventType::error) return internal::read(value, event.object, failure);
    event.object = T{};
    return internal::readServerStatus(value, event.error, failure);
  };
  if (!internal::readEvent(line, event.type, failure, object)) return failure.status();
  event.initialEventsEnd =
      event.type == EventType::bookmark && event.object.metadata.annotation("k8s.io/initial-events-end") == "true";
  return {};
}

template <class T>
base::Result<WatchEvent<T>> decodeWatchEvent(std::string_view line) {
  WatchEvent<T> event;
  if (auto status = decodeWatchEvent(line, event); !status.ok()) return status;
  return event;
}

template <class T>
std::string encode(const T& object) {
  JsonText j;
  internal::Writer(j).write(object);
  return j.take();
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type can't stand in them.
#define EGPU_CODEC(T)                                                                                \
  template base::Result<T> decode<T>(std::string_view);                                              \
  template base::Result<ListMeta> decodeList<T>(std::string_view, const std::function<void(T &&)>&); \
  template base::Status decodeWatchEvent<T>(std::string_view, WatchEvent<T>&);                       \
  template base::Result<WatchEvent<T>> decodeWatchEvent<T>(std::string_view);                        \
  template std::string encode<T>(const T&)
// NOLINTEND(bugprone-macro-parentheses)

EGPU_CODEC(v1alpha::ElasticGPU);
EGPU_CODEC(v1alpha::ElasticGPUClaim);
EGPU_CODEC(v1alpha::ElasticGPUClaimTemplate);
EGPU_CODEC(v1alpha::ElasticGPUClass);
EGPU_CODEC(v1alpha::ElasticGPUQuota);
EGPU_CODEC(core::Namespace);
EGPU_CODEC(core::PriorityClass);
EGPU_CODEC(core::Node);
EGPU_CODEC(core::Pod);
EGPU_CODEC(core::ResourceClaim);
EGPU_CODEC(core::ResourceClaimTemplate);
EGPU_CODEC(core::PersistentVolumeClaim);
EGPU_CODEC(core::PersistentVolume);
EGPU_CODEC(core::DeviceClass);
EGPU_CODEC(core::DeviceTaintRule);
EGPU_CODEC(core::PodGroup);
EGPU_CODEC(core::Event);
EGPU_CODEC(core::Lease);

}  // namespace egpu::codec
