// Converts Swagger JSON to gnostic's openapi.v2.Document, with the field numbers of its OpenAPIv2.proto. Supports only
// the parts that openapi.cpp writes.
#include <cstring>
#include <string>

#include "controller/standalone/apiserver/schema/openapi.h"

namespace egpu::apiserver {
namespace {

using Json = nlohmann::json;

// Writes Protocol Buffers' wire format. Supports only length-delimited and varint fields.
class Message {
 public:
  void bytes(int field, const std::string& value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    out_ += value;
  }
  void text(int field, const Json& object, const char* key) {
    if (auto it = object.find(key); it != object.end() && it->is_string()) bytes(field, it->get<std::string>());
  }
  void texts(int field, const Json& object, const char* key) {
    if (auto it = object.find(key); it != object.end() && it->is_array())
      for (const auto& v : *it)
        if (v.is_string()) bytes(field, v.get<std::string>());
  }
  void number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
  }
  const std::string& str() const { return out_; }

 private:
  void varint(uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>((value & 0x7F) | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

// Returns an Any with the value as YAML text. JSON is valid YAML.
std::string any(const Json& value) {
  Message m;
  m.bytes(2, value.dump() + "\n");
  return m.str();
}
std::string named(const std::string& name, const std::string& value) {
  Message m;
  m.bytes(1, name);
  m.bytes(2, value);
  return m.str();
}
void extensions(Message& m, int field, const Json& object) {
  for (const auto& [key, value] : object.items())
    if (key.compare(0, 2, "x-") == 0) m.bytes(field, named(key, any(value)));
}

std::string schema(const Json& s) {
  Message m;
  m.text(1, s, "$ref");
  m.text(2, s, "format");
  m.text(4, s, "description");
  if (auto it = s.find("default"); it != s.end()) m.bytes(5, any(*it));
  m.texts(19, s, "required");
  if (auto it = s.find("additionalProperties"); it != s.end()) {
    Message item;
    if (it->is_object())
      item.bytes(1, schema(*it));
    else
      item.number(2, *it == true ? 1 : 0);
    m.bytes(21, item.str());
  }
  if (auto it = s.find("type"); it != s.end() && it->is_string()) {
    Message item;
    item.bytes(1, it->get<std::string>());
    m.bytes(22, item.str());
  }
  if (auto it = s.find("items"); it != s.end()) {
    Message item;
    item.bytes(1, schema(*it));
    m.bytes(23, item.str());
  }
  if (auto it = s.find("properties"); it != s.end() && it->is_object()) {
    Message properties;
    for (const auto& [name, sub] : it->items()) properties.bytes(1, named(name, schema(sub)));
    m.bytes(25, properties.str());
  }
  extensions(m, 31, s);
  return m.str();
}

std::string operation(const Json& o) {
  Message m;
  m.text(3, o, "description");
  m.text(5, o, "operationId");
  m.texts(6, o, "produces");
  m.texts(7, o, "consumes");
  if (auto it = o.find("parameters"); it != o.end())
    for (const auto& p : *it) {
      if (p.value("in", "") != "query") continue;
      Message query;
      query.text(2, p, "in");
      query.text(3, p, "description");
      query.text(4, p, "name");
      query.text(6, p, "type");
      Message nonBody, parameter, item;
      nonBody.bytes(3, query.str());
      parameter.bytes(2, nonBody.str());
      item.bytes(1, parameter.str());
      m.bytes(8, item.str());
    }
  Message ok, value, responses;
  ok.bytes(1, "OK");
  value.bytes(1, ok.str());
  responses.bytes(1, named("200", value.str()));
  m.bytes(9, responses.str());
  extensions(m, 13, o);
  return m.str();
}

std::string pathItem(const Json& p) {
  static constexpr std::pair<const char*, int> kMethods[] = {
      {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}};
  Message m;
  for (const auto& [name, field] : kMethods)
    if (auto it = p.find(name); it != p.end()) m.bytes(field, operation(*it));
  return m.str();
}

}  // namespace

std::string encodeSwagger(const Json& swagger) {
  Message info;
  info.text(1, swagger["info"], "title");
  info.text(2, swagger["info"], "version");
  Message paths;
  for (const auto& [name, item] : swagger["paths"].items()) paths.bytes(2, named(name, pathItem(item)));
  Message definitions;
  for (const auto& [name, s] : swagger["definitions"].items()) definitions.bytes(1, named(name, schema(s)));
  Message document;
  document.text(1, swagger, "swagger");
  document.bytes(2, info.str());
  document.bytes(8, paths.str());
  document.bytes(9, definitions.str());
  return document.str();
}

}  // namespace egpu::apiserver
