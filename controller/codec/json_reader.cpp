#include "controller/codec/json_reader.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "controller/base/text.h"

namespace egpu::codec::internal {

namespace {

constexpr std::size_t kKeep = std::size_t{4} << 20;  // bytes of text for which a thread keeps its parser
/// Carries a whole copy of the object for kubectl alone; dropping it halves what a cached object costs.
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

Document::Memory& threadMemory() {
  thread_local Document::Memory memory;
  return memory;
}

bool isJsonNumber(std::string_view s) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
    return i - from;
  };
  if (i < s.size() && s[i] == '-') ++i;
  const std::size_t start = i;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && s[start] == '0')) return false;
  if (i < s.size() && s[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == s.size();
}

bool readText(Value& value, std::string_view& out, Failure& f) {
  if (const auto e = value.get_string().get(out))
    return e == simdjson::INCORRECT_TYPE ? f.is("must be a string") : f.is(e);
  return true;
}

}  // namespace

bool Failure::under(std::string_view field) {
  std::string whole(field);
  if (!path.empty() && path.front() != '[') whole += '.';
  path = whole + path;
  return false;
}
bool Failure::underIndex(std::size_t index) { return underKey(std::to_string(index)); }
bool Failure::underKey(std::string_view key) {
  std::string whole = "[" + std::string(key) + "]";
  if (!path.empty() && path.front() != '[') whole += '.';
  path = whole + path;
  return false;
}
base::Status Failure::status() const { return {base::Code::malformed, path.empty() ? what : path + ": " + what}; }

Document::Document(std::string_view json) : memory_(&threadMemory()), size_(json.size()) {
  if (memory_->busy) {
    own_ = std::make_unique<Memory>();
    memory_ = own_.get();
  }
  memory_->busy = true;
  const std::size_t needed = size_ + simdjson::SIMDJSON_PADDING;
  if (memory_->capacity < needed) {
    memory_->text.reset(new char[needed]);
    memory_->capacity = needed;
  }
  if (size_ > 0) std::memcpy(memory_->text.get(), json.data(), size_);
  std::memset(memory_->text.get() + size_, ' ', simdjson::SIMDJSON_PADDING);
}

Document::~Document() {
  memory_->busy = false;
  if (!own_ && memory_->capacity > kKeep) {
    memory_->text.reset();
    memory_->capacity = 0;
    memory_->parser = ondemand::parser();
  }
}

bool Document::root(ondemand::object& out, Failure& failure) {
  if (const auto e = memory_->parser.iterate(memory_->text.get(), size_, memory_->capacity).get(document_))
    return failure.is(e);
  if (const auto e = document_.get_object().get(out))
    return e == simdjson::INCORRECT_TYPE ? failure.is("must be an object") : failure.is(e);
  return true;
}

bool Document::finished(Failure& failure) {
  const char* at = nullptr;
  if (document_.current_location().get(at) == simdjson::SUCCESS && at < memory_->text.get() + size_)
    return failure.is("something follows the object");
  return true;
}

bool peekNull(Value& value, bool& isNull, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return f.is(e);
  if (type != ondemand::json_type::null) {
    isNull = false;
    return true;
  }
  if (const auto e = value.is_null().get(isNull)) return f.is(e);
  return isNull || f.is("is not JSON");
}

bool read(Value& value, std::string& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  std::string_view text;
  if (!readText(value, text, f)) return false;
  out = text;
  return true;
}

bool read(Value& value, int64_t& out, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return f.is(e);
  bool isNull = false;
  if (type == ondemand::json_type::null) return peekNull(value, isNull, f);
  if (type != ondemand::json_type::number) return f.is("must be an integer");
  if (value.get_int64().get(out) == simdjson::SUCCESS) return true;
  // 1.0 and 1e3 are integers to Kubernetes.
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.get_double().get(real) != simdjson::SUCCESS || real != std::floor(real) || std::fabs(real) > kExact)
    return f.is("must be an integer");
  out = static_cast<int64_t>(real);
  return true;
}

bool read(Value& value, bool& out, Failure& f) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  if (value.get_bool().get(out)) return f.is("must be true or false");
  return true;
}

namespace {

/// Calls readText(value, text) for each entry but kubectl's copy.
template <class Read>
bool readEntries(Value& value, core::StringMap& out, Failure& f, Read&& readText) {
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) {
    out.clear();
    return true;
  }
  ondemand::object object;
  if (const auto e = value.get_object().get(object))
    return e == simdjson::INCORRECT_TYPE ? f.is("must be an object") : f.is(e);
  auto old = out.begin();  // from here on they are left from before
  for (auto entry : object) {
    std::string_view key;
    Value child;
    if (const auto e = entry.unescaped_key().get(key)) return f.is(e);
    if (const auto e = entry.value().get(child)) return f.is(e);
    if (key == kLastApplied) continue;
    auto at = old;
    if (old != out.end() && old->first == key) {
      old++->second.clear();
    } else {
      out.erase(old, out.end());
      // The API server sends keys sorted, so that the end is where most belong.
      at = out.insert_or_assign(out.end(), std::string(key), std::string());
      old = out.end();
    }
    if (!readText(child, at->second)) return f.underKey(key);
  }
  out.erase(old, out.end());
  return true;
}

}  // namespace

bool read(Value& value, core::StringMap& out, Failure& f) {
  return readEntries(value, out, f, [&f](Value& v, std::string& text) { return read(v, text, f); });
}

bool readQuantity(Value& value, std::string& out, Failure& f) {
  ondemand::json_type type{};
  if (const auto e = value.type().get(type)) return f.is(e);
  if (type != ondemand::json_type::number)
    return type == ondemand::json_type::string || type == ondemand::json_type::null
               ? read(value, out, f)
               : f.is("must be a quantity: a string or a number");
  const std::string_view token = base::trimmed(value.raw_json_token());
  if (!isJsonNumber(token)) return f.is("is not JSON");
  out = token;
  return true;
}

bool readQuantities(Value& value, core::StringMap& out, Failure& f) {
  return readEntries(value, out, f, [&f](Value& v, std::string& text) { return readQuantity(v, text, f); });
}

bool readKind(Value& value, std::string_view expected, Failure& f) {
  std::string_view text;
  bool isNull = false;
  if (!peekNull(value, isNull, f)) return false;
  if (isNull) return true;
  if (!readText(value, text, f)) return false;
  if (text.empty() || text == expected) return true;
  return f.is("is " + std::string(text) + ", expected " + std::string(expected));
}

bool read(Value& value, core::OwnerReference& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "apiVersion") return read(v, out.apiVersion, f);
    if (key == "kind") return read(v, out.kind, f);
    if (key == "name") return read(v, out.name, f);
    if (key == "uid") return read(v, out.uid, f);
    if (key == "controller") return read(v, out.controller, f);
    if (key == "blockOwnerDeletion") return read(v, out.blockOwnerDeletion, f);
    return true;
  });
}

bool read(Value& value, core::ObjectMeta& out, Failure& f) {
  auto labels = std::move(out.labels), annotations = std::move(out.annotations);
  auto finalizers = std::move(out.finalizers);
  empty(out);
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "name") return read(v, out.name, f);
    if (key == "namespace") return read(v, out.namespace_, f);
    if (key == "uid") return read(v, out.uid, f);
    if (key == "resourceVersion") return read(v, out.resourceVersion, f);
    if (key == "generation") return read(v, out.generation, f);
    if (key == "creationTimestamp") return read(v, out.creationTimestamp, f);
    if (key == "deletionTimestamp") return read(v, out.deletionTimestamp, f);
    if (key == "labels") return read(v, out.labels = std::move(labels), f);
    if (key == "annotations") return read(v, out.annotations = std::move(annotations), f);
    if (key == "finalizers") return read(v, out.finalizers = std::move(finalizers), f);
    if (key == "ownerReferences") return read(v, out.ownerReferences, f);
    return true;
  });
}

bool read(Value& value, core::Condition& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "type") return read(v, out.type, f);
    if (key == "status") return read(v, out.status, f);
    if (key == "reason") return read(v, out.reason, f);
    if (key == "message") return read(v, out.message, f);
    if (key == "lastTransitionTime") return read(v, out.lastTransitionTime, f);
    if (key == "observedGeneration") return read(v, out.observedGeneration, f);
    return true;
  });
}

bool read(Value& value, core::NodeSelectorRequirement& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "key") return read(v, out.key, f);
    if (key == "operator") return read(v, out.op, f);
    if (key == "values") return read(v, out.values, f);
    return true;
  });
}
bool read(Value& value, core::NodeSelectorTerm& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "matchExpressions") return read(v, out.matchExpressions, f);
    if (key == "matchFields") return read(v, out.matchFields, f);
    return true;
  });
}
bool read(Value& value, core::NodeSelector& out, Failure& f) {
  return eachField(value, f, [&](std::string_view key, Value& v) {
    if (key == "nodeSelectorTerms") return read(v, out.terms, f);
    return true;
  });
}

}  // namespace egpu::codec::internal
