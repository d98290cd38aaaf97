// decode, decodeList and decodeWatchEvent over a reader of one kind; each decode_*.cpp defines the readers of its kinds
// and instantiates these.
#pragma once

#include "controller/codec/codec.h"
#include "controller/codec/json_reader.h"

namespace egpu::codec {

namespace internal {

/// One field of an object's top level besides kind, apiVersion and metadata. Specialised per kind.
template <class T>
bool readField(std::string_view key, Value& value, T& out, Failure& f);

template <class T>
bool readTop(std::string_view key, Value& value, T& out, Failure& f) {
  if (key == "metadata") return read(value, out.metadata, f);
  if (key == "kind") return readKind(value, core::kindOf<T>.kind, f);
  return readField(key, value, out, f);
}

template <class T>
bool readObject(Value& value, T& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) { return readTop(key, v, out, f); });
}

/// As readObject(), into what may hold another object: it is replaced whole, and its memory used again.
template <class T>
bool readObjectAgain(Value& value, T& out, Failure& f) {
  constexpr bool kInParts = requires {
    out.spec;
    out.status;
  };  // these and metadata are all of it
  if constexpr (!kInParts) {
    auto metadata = std::move(out.metadata);
    out = T{};
    out.metadata = std::move(metadata);
  }
  bool metadata = false, spec = false, status = false;
  const bool good = eachField(value, f, [&](std::string_view key, Value& v) {
    metadata = metadata || key == "metadata";
    spec = spec || key == "spec";
    status = status || key == "status";
    return readTop(key, v, out, f);
  });
  if (!metadata) out.metadata = {};
  if constexpr (kInParts) {
    if (!spec) out.spec = {};
    if (!status) out.status = {};
  }
  return good;
}

bool readListMeta(Value& value, ListMeta& out, Failure& f);

}  // namespace internal

template <class T>
base::Result<T> decode(std::string_view json) {
  internal::Failure failure;
  internal::Document document(json);
  internal::ondemand::object root;
  T out{};
  const bool good = document.root(root, failure) &&
                    internal::eachField(root, failure,
                                        [&](std::string_view key, internal::Value& v) {
                                          return internal::readTop(key, v, out, failure);
                                        }) &&
                    document.finished(failure);
  if (!good) return failure.status();
  return out;
}

template <class T>
base::Result<ListMeta> decodeList(std::string_view json, const std::function<void(T&&)>& each) {
  internal::Failure failure;
  internal::Document document(json);
  internal::ondemand::object root;
  ListMeta meta;
  const auto field = [&](std::string_view key, internal::Value& v) {
    if (key == "items")
      return internal::eachElement(v, failure, [&](internal::Value& item) {
        T object{};
        if (!internal::readObject(item, object, failure)) return false;
        each(std::move(object));
        return true;
      });
    if (key == "metadata") return internal::readListMeta(v, meta, failure);
    if (key == "kind") return internal::readKind(v, std::string(core::kindOf<T>.kind) + "List", failure);
    return true;
  };
  if (!document.root(root, failure) || !internal::eachField(root, failure, field) || !document.finished(failure))
    return failure.status();
  return meta;
}

namespace internal {

/// The object of an event whose type is known.
template <class T>
bool readEventObject(Value& value, WatchEvent<T>& event, Failure& f) {
  if (event.type != EventType::error) return readObjectAgain(value, event.object, f);
  event.object = T{};
  ServerStatus status;
  if (!read(value, status, f)) return false;
  event.error = toStatus(static_cast<int>(status.code), status);
  return true;
}

bool readEventType(Value& value, EventType& out, Failure& f);

}  // namespace internal

template <class T>
base::Status decodeWatchEvent(std::string_view line, WatchEvent<T>& event) {
  internal::Failure failure;
  event.type = EventType::error;
  event.error = {};
  bool typed = false;
  bool read = false;
  // Servers send the type first; should it come last, the object is read in a second pass.
  for (int pass = 0; pass < 2 && !read; ++pass) {
    internal::Document document(line);
    internal::ondemand::object root;
    bool passedOver = false;
    int types = 0;
    int objects = 0;
    const auto field = [&](std::string_view key, internal::Value& v) {
      if (key == "type") {
        if (++types > 1) return failure.is("stands twice");
        typed = true;
        return internal::readEventType(v, event.type, failure);
      }
      if (key != "object") return true;
      if (++objects > 1) return failure.is("stands twice");
      passedOver = !typed;
      if (!typed) return true;
      read = true;
      return internal::readEventObject(v, event, failure);
    };
    if (!document.root(root, failure) || !internal::eachField(root, failure, field) || !document.finished(failure))
      return failure.status();
    if (!typed || (!read && !passedOver))
      return base::Status(base::Code::malformed, typed ? "object: is missing" : "type: is missing");
  }
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

/// Defines all of them for one kind.
// NOLINTBEGIN(bugprone-macro-parentheses): a type can't stand in them.
#define EGPU_CODEC_INSTANTIATE(T)                                                                    \
  template base::Result<T> decode<T>(std::string_view);                                              \
  template base::Result<ListMeta> decodeList<T>(std::string_view, const std::function<void(T &&)>&); \
  template base::Status decodeWatchEvent<T>(std::string_view, WatchEvent<T>&);                       \
  template base::Result<WatchEvent<T>> decodeWatchEvent<T>(std::string_view)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace egpu::codec
