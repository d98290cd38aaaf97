#include "controller/standalone/apiserver/verbs/protobuf_body.h"

#include <cstdint>
#include <string>

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

// Reads one message field by field. A length-delimited field sets `text`, a varint sets `value`.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  int number = 0;
  std::string_view text;
  uint64_t value = 0;  ///< value of a varint
  bool malformed = false;

  bool next() {
    if (rest_.empty() || malformed) return false;
    const uint64_t tag = varint();
    number = static_cast<int>(tag >> 3);
    text = {};
    value = 0;
    switch (tag & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        skip(8);
        break;
      case 5:
        skip(4);
        break;
      case 2:
        text = skip(varint());
        break;
      default:
        malformed = true;
    }
    return !malformed;
  }

 private:
  uint64_t varint() {
    uint64_t number64 = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      number64 |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return number64;
    }
    malformed = true;
    return 0;
  }
  std::string_view skip(uint64_t size) {
    if (malformed || size > rest_.size()) {
      malformed = true;
      return {};
    }
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  std::string_view rest_;
};

void set(Json& object, const char* key, std::string_view value) {
  if (!value.empty()) object[key] = std::string(value);
}

std::optional<Json> namespaceOf(std::string_view raw) {
  Json metadata = Json::object();
  Fields object(raw);
  while (object.next()) {
    if (object.number != 1) continue;  // only metadata; the server sets spec and status
    Fields meta(object.text);
    while (meta.next()) {
      if (meta.number == 1) set(metadata, "name", meta.text);
      if (meta.number == 2) set(metadata, "generateName", meta.text);
      if (meta.number != 11 && meta.number != 12) continue;
      std::string_view key, value;
      Fields entry(meta.text);
      while (entry.next()) (entry.number == 1 ? key : value) = entry.text;
      if (entry.malformed) return std::nullopt;
      metadata[meta.number == 11 ? "labels" : "annotations"][std::string(key)] = std::string(value);
    }
    if (meta.malformed) return std::nullopt;
  }
  if (object.malformed) return std::nullopt;
  return Json{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", std::move(metadata)}};
}

std::optional<Json> deleteOptionsOf(std::string_view raw) {
  Json out = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  Fields options(raw);
  while (options.next()) {
    if (options.number == 1) out["gracePeriodSeconds"] = static_cast<int64_t>(options.value);
    if (options.number == 3) out["orphanDependents"] = options.value != 0;
    if (options.number == 4) set(out, "propagationPolicy", options.text);
    if (options.number == 5) out["dryRun"].push_back(std::string(options.text));
    if (options.number != 2) continue;
    Fields preconditions(options.text);
    while (preconditions.next()) {
      if (preconditions.number == 1) set(out["preconditions"], "uid", preconditions.text);
      if (preconditions.number == 2) set(out["preconditions"], "resourceVersion", preconditions.text);
    }
    if (preconditions.malformed) return std::nullopt;
  }
  if (options.malformed) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Json> decodeProtobufBody(std::string_view body) {
  constexpr std::string_view kMagic = "k8s\0"sv;
  if (body.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  // runtime.Unknown: typeMeta = 1 {apiVersion = 1, kind = 2}, raw = 2.
  std::string_view kind, raw;
  Fields envelope(body.substr(kMagic.size()));
  while (envelope.next()) {
    if (envelope.number == 2) raw = envelope.text;
    if (envelope.number != 1) continue;
    Fields type(envelope.text);
    while (type.next())
      if (type.number == 2) kind = type.text;
    if (type.malformed) return std::nullopt;
  }
  if (envelope.malformed) return std::nullopt;
  if (kind == "Namespace") return namespaceOf(raw);
  if (kind == "DeleteOptions") return deleteOptionsOf(raw);
  return std::nullopt;
}

}  // namespace egpu::apiserver
