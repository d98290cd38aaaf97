#include "controller/codec/patch/parts.h"

namespace egpu::codec::patch {

void beginMetadata(JsonText& j, std::string_view uid, std::string_view resourceVersion) {
  j.key("metadata").beginObject();
  if (!uid.empty()) j.key("uid").value(uid);
  if (!resourceVersion.empty()) j.key("resourceVersion").value(resourceVersion);
}

void putPreconditions(JsonText& j, std::string_view uid, std::string_view resourceVersion) {
  if (uid.empty() && resourceVersion.empty()) return;
  beginMetadata(j, uid, resourceVersion);
  j.endObject();
}

void op(JsonText& j, std::string_view name, std::string_view path) {
  j.beginObject().key("op").value(name).key("path").value(path);
}

void testText(JsonText& j, std::string_view path, std::string_view text) {
  op(j, "test", path);
  j.key("value").value(text).endObject();
}

std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

}  // namespace egpu::codec::patch
