// Reading primitives over simdjson's On-Demand API, for the decoders of this folder only. Every reader returns false on
// the first error and each level on the way out puts its own name before the path, so that nothing is paid for paths
// where there is no error.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core/objects.h"
#include "controller/base/status.h"

namespace egpu::codec::internal {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;

/// Where and why decoding stopped.
struct Failure {
  std::string path;  ///< "spec.cards[1].core"
  std::string what;  ///< "must be an integer"
  bool is(std::string_view reason) {
    what = reason;
    return false;
  }
  bool is(simdjson::error_code code) {
    what = simdjson::error_message(code);
    return false;
  }
  /// Puts a field's name before the path; false, for the way out.
  bool under(std::string_view field);
  bool underIndex(std::size_t index);
  bool underKey(std::string_view key);
  base::Status status() const;
};

/// A parser and a padded copy of the text. One per thread is kept between calls unless it grew large.
class Document {
 public:
  explicit Document(std::string_view json);
  ~Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  /// The root, which must be an object. Call once.
  bool root(ondemand::object& out, Failure& failure);
  /// Nothing may follow the root once it has been read.
  bool finished(Failure& failure);

  struct Memory {
    ondemand::parser parser;
    std::unique_ptr<char[]> text;
    std::size_t capacity = 0;
    bool busy = false;
  };

 private:
  std::unique_ptr<Memory> own_;  // when the thread's is in use further up the stack
  Memory* memory_;
  std::size_t size_;
  ondemand::document document_;
};

/// Calls fn(key, value) → bool for each field; the value may be left unread.
template <class Fn>
bool eachField(ondemand::object& object, Failure& f, Fn&& fn) {
  for (auto entry : object) {
    std::string_view key;
    Value child;
    if (const auto e = entry.unescaped_key().get(key)) return f.is(e);
    if (const auto e = entry.value().get(child)) return f.is(e);
    if (!fn(key, child)) return f.under(key);
  }
  return true;
}

/// False with `f` set if the value has no type at all; isNull says whether to leave the field unset.
bool peekNull(Value& value, bool& isNull, Failure& f);

template <class Fn>
bool eachField(Value& value, Failure& f, Fn&& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  ondemand::object object;
  if (const auto e = value.get_object().get(object))
    return e == simdjson::INCORRECT_TYPE ? f.is("must be an object") : f.is(e);
  return eachField(object, f, std::forward<Fn>(fn));
}

/// Calls fn(value) → bool for each element.
template <class Fn>
bool eachElement(Value& value, Failure& f, Fn&& fn) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  ondemand::array array;
  if (const auto e = value.get_array().get(array))
    return e == simdjson::INCORRECT_TYPE ? f.is("must be an array") : f.is(e);
  std::size_t index = 0;
  for (auto entry : array) {
    Value child;
    if (const auto e = entry.get(child)) return f.is(e);
    if (!fn(child)) return f.underIndex(index);
    ++index;
  }
  return true;
}

/// As it is made, but with the memory of its texts.
template <class T>
void empty(T& out) {
  static const T kEmpty{};
  out = kEmpty;
}

// JSON null leaves the target as it is, as Kubernetes' own decoders do. Maps, lists and metadata may hold another
// object's and are replaced whole; what they have the same is not allocated anew.
bool read(Value& value, std::string& out, Failure& f);
bool read(Value& value, int64_t& out, Failure& f);
bool read(Value& value, bool& out, Failure& f);
/// An object of strings.
bool read(Value& value, core::StringMap& out, Failure& f);
/// An object of quantities: strings, or numbers as they were written.
bool readQuantities(Value& value, core::StringMap& out, Failure& f);
/// One quantity: a string, or a number as it was written.
bool readQuantity(Value& value, std::string& out, Failure& f);

bool read(Value& value, core::ObjectMeta& out, Failure& f);
bool read(Value& value, core::OwnerReference& out, Failure& f);
bool read(Value& value, core::Condition& out, Failure& f);
bool read(Value& value, core::NodeSelectorRequirement& out, Failure& f);
bool read(Value& value, core::NodeSelectorTerm& out, Failure& f);
bool read(Value& value, core::NodeSelector& out, Failure& f);
bool read(Value& value, core::Toleration& out, Failure& f);

template <class T>
bool read(Value& value, std::vector<T>& out, Failure& f) {
  std::size_t size = 0;
  const bool good = eachElement(value, f, [&](Value& element) {
    if (size == out.size())
      out.emplace_back();
    else
      empty(out[size]);
    return read(element, out[size++], f);
  });
  out.resize(size);
  return good;
}

/// kind must be absent or the expected one: a Status or a foreign object never passes for an empty one.
bool readKind(Value& value, std::string_view expected, Failure& f);

/// A Kubernetes Status object.
struct ServerStatus {
  std::string kind, status, message, reason;
  int64_t code = 0;
  int64_t retryAfterSeconds = 0;
  struct Cause {
    std::string reason, message, field;
  };
  std::vector<Cause> causes;
};
bool read(Value& value, ServerStatus& out, Failure& f);
base::Status toStatus(int http, const ServerStatus& status);

}  // namespace egpu::codec::internal
