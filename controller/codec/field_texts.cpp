#include "controller/codec/field_texts.h"

#include <nlohmann/json.hpp>

namespace egpu::codec::internal {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// Returns the merge patch from one object to another.
OrderedJson difference(const OrderedJson& before, const OrderedJson& after) {
  OrderedJson patch = OrderedJson::object();
  for (const auto& [name, value] : after.items()) {
    const auto known = before.find(name);
    if (known == before.end())
      patch[name] = value;
    else if (*known != value)
      patch[name] = known->is_object() && value.is_object() ? difference(*known, value) : value;
  }
  for (const auto& [name, value] : before.items())
    if (!after.contains(name)) patch[name] = nullptr;
  return patch;
}

bool isObject(std::string_view text) { return text.starts_with('{'); }

}  // namespace

void writeMergePatch(JsonText& j, const FieldTexts::Texts& before, const FieldTexts::Texts& after) {
  for (const auto& [name, text] : after) {
    const auto known = before.find(name);
    if (known == before.end())
      j.key(name).raw(text);
    else if (known->second != text)
      j.key(name).raw(isObject(known->second) && isObject(text)
                          ? difference(OrderedJson::parse(known->second), OrderedJson::parse(text)).dump()
                          : text);
  }
  for (const auto& [name, text] : before)
    if (!after.contains(name)) j.key(name).null();
}

void writeJsonPatch(JsonText& j, const std::string& path, const FieldTexts::Texts& before,
                    const FieldTexts::Texts& after, std::string_view except) {
  for (const auto& [name, text] : after) {
    if (const auto same = before.find(name); name == except || (same != before.end() && same->second == text)) continue;
    j.beginObject().key("op").value("add").key("path").value(path + "/" + name).key("value").raw(text).endObject();
  }
  for (const auto& [name, text] : before) {
    if (name == except || after.contains(name)) continue;
    j.beginObject().key("op").value("remove").key("path").value(path + "/" + name).endObject();
  }
}

}  // namespace egpu::codec::internal
