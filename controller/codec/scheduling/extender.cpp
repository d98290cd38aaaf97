#include "controller/codec/scheduling/extender.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "controller/base/text.h"
#include "controller/codec/codec.h"
#include "controller/codec/json/text.h"

namespace egpu::codec {
namespace {

namespace ondemand = simdjson::ondemand;
using base::Code;
using base::Status;

constexpr std::size_t kMaxNameLength = 253;  // characters in the name of a node, pod or namespace

Status malformed(const std::string& field, const std::string& what) {
  return {Code::malformed, (field.empty() ? "" : field + ": ") + what};
}
Status malformed(const std::string& field, simdjson::error_code code, const char* wrongType) {
  return malformed(field, code == simdjson::INCORRECT_TYPE ? wrongType : simdjson::error_message(code));
}

/// Text and parser of one body. Views of the text are valid as long as the Body exists.
struct Body {
  explicit Body(std::string_view json) : text(json) {}
  simdjson::padded_string text;
  ondemand::parser parser;
};

using Visit = std::function<Status(std::string_view key, ondemand::value& value)>;

bool same(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

bool isNull(ondemand::value& value) {
  ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == ondemand::json_type::null;
}

/// Calls visit() for each field of an object. Null has no fields.
Status eachField(ondemand::value& value, const std::string& field, const Visit& visit) {
  if (isNull(value)) return Status::okay();
  ondemand::object object;
  if (const auto e = value.get_object().get(object)) return malformed(field, e, "must be an object");
  for (auto entry : object) {
    std::string_view key;
    ondemand::value child;
    if (const auto e = entry.unescaped_key().get(key)) return malformed(field, e, "");
    if (const auto e = entry.value().get(child)) return malformed(field, e, "");
    if (auto s = visit(key, child); !s.ok()) return s;
  }
  return Status::okay();
}

/// Calls visit() for each element of an array. Null has no elements.
template <class Fn>
Status eachElement(ondemand::value& value, const std::string& field, Fn visit) {
  if (isNull(value)) return Status::okay();
  ondemand::array array;
  if (const auto e = value.get_array().get(array)) return malformed(field, e, "must be an array");
  std::size_t index = 0;
  for (auto entry : array) {
    ondemand::value child;
    if (const auto e = entry.get(child)) return malformed(field, e, "");
    if (auto s = visit(child, index++); !s.ok()) return s;
  }
  return Status::okay();
}

Status text(ondemand::value& value, const std::string& field, std::string& out) {
  if (isNull(value)) return Status::okay();
  std::string_view found;
  if (const auto e = value.get_string().get(found)) return malformed(field, e, "must be a string");
  out = found;
  return Status::okay();
}

Status number(ondemand::value& value, const std::string& field, int64_t& out) {
  if (isNull(value)) return Status::okay();
  if (const auto e = value.get_int64().get(out)) return malformed(field, e, "must be a whole number");
  return Status::okay();
}

/// Calls visit() for each field of the object in the body. Fails if anything follows the object.
Status readBody(Body& body, const Visit& visit) {
  ondemand::document document;
  ondemand::value root;
  if (const auto e = body.parser.iterate(body.text).get(document)) return malformed("", e, "");
  if (const auto e = document.get_value().get(root)) return malformed("the body", e, "must be an object");
  if (isNull(root)) return malformed("the body", "must be an object");
  if (auto s = eachField(root, "the body", visit); !s.ok()) return s;
  const char* at = nullptr;
  if (document.current_location().get(at) == simdjson::SUCCESS && at < body.text.data() + body.text.size())
    return malformed("", "unexpected text after the object");
  return Status::okay();
}

Status raw(ondemand::value& value, const std::string& field, std::string_view& out) {
  if (const auto e = simdjson::to_json_string(value).get(out)) return malformed(field, e, "");
  out = base::trimmed(out);
  return Status::okay();
}

Status podOf(ondemand::value& value, core::Pod& pod, bool& found) {
  std::string_view json;
  if (isNull(value)) return Status::okay();
  if (auto s = raw(value, "Pod", json); !s.ok()) return s;
  auto decoded = decode<core::Pod>(json);
  if (!decoded) return malformed("Pod", decoded.status().message());
  pod = std::move(*decoded);
  found = true;
  return Status::okay();
}

Status podMissing(bool found, const core::Pod& pod) {
  if (!found) return malformed("Pod", "is missing: the pod to be scheduled");
  if (pod.metadata.name.empty()) return malformed("Pod.metadata.name", "is missing");
  if (pod.metadata.namespace_.empty()) return malformed("Pod.metadata.namespace", "is missing");
  return Status::okay();
}

/// Characters of names: letters, digits, '-', '.' and '_', so that a name can be written to JSON without escaping. This
/// is a table because one request has thousands of names.
constexpr auto kOfNames = [] {
  std::array<bool, 256> of{};
  for (const unsigned char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"))
    of[c] = true;
  return of;
}();
bool isName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return kOfNames[c]; });
}

Status notAName(const std::string& field) {
  return malformed(field, "must be the name of a node (a-z, 0-9, '-' and '.', at most 253 characters)");
}

Status nameOf(ondemand::value& value, std::size_t index, std::vector<std::string_view>& names) {
  // Use the raw text: a valid name contains no escaped characters.
  auto token = value.raw_json_token();
  const auto end = token.size() < 2 || token.front() != '"' ? std::string_view::npos : token.find('"', 1);
  if (end == std::string_view::npos || !isName(token.substr(1, end - 1)))
    return notAName("NodeNames[" + std::to_string(index) + "]");
  names.push_back(token.substr(1, end - 1));
  return Status::okay();
}

Status nodeOf(ondemand::value& value, std::size_t index, simdjson::dom::parser& parser, ExtenderArgs& args) {
  const auto field = "Nodes.items[" + std::to_string(index) + "]";
  std::string_view json;
  if (auto s = raw(value, field, json); !s.ok()) return s;
  // Parse the complete node to validate it, because the response returns its text unchanged.
  simdjson::dom::element node;
  std::string_view name;
  if (const auto e = parser.parse(json.data(), json.size()).get(node)) return malformed(field, e, "");
  if (const auto e = node["metadata"]["name"].get_string().get(name))
    return malformed(field + ".metadata.name",
                     e == simdjson::NO_SUCH_FIELD ? "is missing" : simdjson::error_message(e));
  const auto at = json.find(name);
  if (!isName(name) || at == std::string_view::npos) return notAName(field + ".metadata.name");
  args.names.push_back(json.substr(at, name.size()));
  args.nodes.push_back(json);
  return Status::okay();
}

Status nodesOf(ondemand::value& value, ExtenderArgs& args) {
  if (isNull(value)) return Status::okay();
  args.objects = true;
  simdjson::dom::parser parser;
  return eachField(value, "Nodes", [&](std::string_view key, ondemand::value& items) {
    if (!same(key, "items")) return Status::okay();
    return eachElement(items, "Nodes.items",
                       [&](ondemand::value& node, std::size_t index) { return nodeOf(node, index, parser, args); });
  });
}

Status victimOf(ondemand::value& pod, const std::string& field, bool meta, NodeVictims& victims) {
  std::string uid;
  const auto whole = [&](std::string_view key, ondemand::value& value) {
    return same(key, "uid") ? text(value, field + "." + std::string(key), uid) : Status::okay();
  };
  auto s = eachField(pod, field, [&](std::string_view key, ondemand::value& value) {
    if (meta) return whole(key, value);
    return same(key, "metadata") ? eachField(value, field + ".metadata", whole) : Status::okay();
  });
  if (!s.ok()) return s;
  if (uid.empty()) return malformed(field + (meta ? ".UID" : ".metadata.uid"), "is missing");
  victims.pods.push_back(std::move(uid));
  return Status::okay();
}

Status victimsOf(ondemand::value& value, const std::string& field, bool meta, std::vector<NodeVictims>& nodes) {
  return eachField(value, field, [&](std::string_view name, ondemand::value& of) {
    if (!isName(name)) return notAName("a key of " + field);
    auto& victims = nodes.emplace_back(NodeVictims{std::string(name), {}, 0});
    const auto at = field + "[" + std::string(name) + "]";
    return eachField(of, at, [&](std::string_view key, ondemand::value& part) {
      if (same(key, "NumPDBViolations")) return number(part, at + ".NumPDBViolations", victims.pdbViolations);
      if (!same(key, "Pods")) return Status::okay();
      return eachElement(part, at + ".Pods", [&](ondemand::value& pod, std::size_t index) {
        return victimOf(pod, at + ".Pods[" + std::to_string(index) + "]", meta, victims);
      });
    });
  });
}

void appendText(std::string& out, std::string_view text) {
  JsonText j;
  j.value(text);
  out += j.take();
}

void appendNames(std::string& out, const ExtenderArgs& args, const std::function<bool(std::size_t)>& passes) {
  const auto& list = args.objects ? args.nodes : args.names;
  out += args.objects ? R"({"Nodes":{"items":[)" : R"({"NodeNames":[)";
  bool first = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (passes && !passes(i)) continue;
    if (!std::exchange(first, false)) out += ',';
    if (!args.objects) out += '"';
    out += list[i];
    if (!args.objects) out += '"';
  }
  out += args.objects ? "]}" : "]";
}

std::size_t roughly(const ExtenderArgs& args) {
  std::size_t bytes = 256;
  for (const auto& each : args.objects ? args.nodes : args.names) bytes += each.size() + 24;
  return bytes;
}

}  // namespace

base::Result<ExtenderArgs> decodeExtenderArgs(std::string_view json) {
  const auto body = std::make_shared<Body>(json);
  ExtenderArgs args;
  args.text = body;
  bool pod = false, nodes = false;
  auto s = readBody(*body, [&](std::string_view key, ondemand::value& value) {
    if (same(key, "Pod")) return podOf(value, args.pod, pod);
    if (same(key, "Nodes")) {
      nodes = nodes || !isNull(value);
      return nodesOf(value, args);
    }
    if (!same(key, "NodeNames") || isNull(value)) return Status::okay();
    if (args.objects) return malformed("NodeNames", "must be null where Nodes are given");
    nodes = true;
    args.names.clear();
    args.names.reserve(json.size() / 12);  // estimate: about ten letters per name, its quotes and a comma
    return eachElement(value, "NodeNames",
                       [&args](ondemand::value& name, std::size_t index) { return nameOf(name, index, args.names); });
  });
  if (s.ok()) s = podMissing(pod, args.pod);
  if (s.ok() && !nodes) s = malformed("NodeNames", "is missing: the nodes to choose from, or Nodes in its place");
  if (s.ok() && args.objects && args.names.size() != args.nodes.size())
    s = malformed("NodeNames", "must be null where Nodes are given");
  if (!s.ok()) return s;
  return args;
}

base::Result<ExtenderBindingArgs> decodeExtenderBindingArgs(std::string_view json) {
  Body body(json);
  ExtenderBindingArgs args;
  auto s = readBody(body, [&](std::string_view key, ondemand::value& value) {
    if (same(key, "PodName")) return text(value, "PodName", args.podName);
    if (same(key, "PodNamespace")) return text(value, "PodNamespace", args.podNamespace);
    if (same(key, "PodUID")) return text(value, "PodUID", args.podUid);
    if (same(key, "Node")) return text(value, "Node", args.node);
    return Status::okay();
  });
  if (!s.ok()) return s;
  if (!isName(args.podName)) return malformed("PodName", "must be the name of a pod");
  if (!isName(args.podNamespace)) return malformed("PodNamespace", "must be the name of a namespace");
  if (!isName(args.node)) return notAName("Node");
  return args;
}

base::Result<ExtenderPreemptionArgs> decodeExtenderPreemptionArgs(std::string_view json) {
  Body body(json);
  ExtenderPreemptionArgs args;
  std::vector<NodeVictims> whole;
  bool pod = false;
  auto s = readBody(body, [&](std::string_view key, ondemand::value& value) {
    if (same(key, "Pod")) return podOf(value, args.pod, pod);
    if (same(key, "NodeNameToMetaVictims")) return victimsOf(value, "NodeNameToMetaVictims", true, args.nodes);
    if (same(key, "NodeNameToVictims")) return victimsOf(value, "NodeNameToVictims", false, whole);
    return Status::okay();
  });
  if (s.ok()) s = podMissing(pod, args.pod);
  if (!s.ok()) return s;
  if (args.nodes.empty()) args.nodes = std::move(whole);
  return args;
}

std::string encodeFilterResult(const ExtenderArgs& args, std::span<const uint8_t> fate,
                               const std::vector<FilterReason>& reasons) {
  std::string out;
  out.reserve(roughly(args));
  appendNames(out, args, [&](std::size_t i) { return fate[i] == 0; });
  std::vector<std::string> texts;
  for (const auto& reason : reasons) appendText(texts.emplace_back(), reason.text);
  for (const bool unresolvable : {false, true}) {
    out += unresolvable ? R"(,"FailedAndUnresolvableNodes":{)" : R"(,"FailedNodes":{)";
    bool first = true;
    for (std::size_t i = 0; i < fate.size(); ++i) {
      if (fate[i] == 0 || reasons[fate[i] - 1].unresolvable != unresolvable) continue;
      if (!std::exchange(first, false)) out += ',';
      out += '"';
      out += args.names[i];
      out += "\":";
      out += texts[fate[i] - 1];
    }
    out += '}';
  }
  return out += R"(,"Error":""})";
}

std::string encodeFilterResult(const ExtenderArgs& args) {
  std::string out;
  out.reserve(roughly(args));
  appendNames(out, args, {});
  return out += R"(,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""})";
}

std::string encodeFilterError(std::string_view error) {
  std::string out = R"({"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":)";
  appendText(out, error);
  return out += '}';
}

std::string encodeHostPriorities(const ExtenderArgs& args, std::span<const uint8_t> scores) {
  std::string out;
  out.reserve(roughly(args));
  out += '[';
  for (std::size_t i = 0; i < args.names.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"Host":")";
    out += args.names[i];
    out += R"(","Score":)";
    if (scores[i] >= 10) out += '1';
    out += static_cast<char>('0' + scores[i] % 10);
    out += '}';
  }
  return out += ']';
}

std::string encodeBindingResult(std::string_view error) {
  std::string out = R"({"Error":)";
  appendText(out, error);
  return out += '}';
}

std::string encodePreemptionResult(const std::vector<NodeVictims>& nodes) {
  JsonText j;
  j.beginObject().key("NodeNameToMetaVictims").beginObject();
  for (const auto& node : nodes) {
    j.key(node.node).beginObject().key("Pods").beginArray();
    for (const auto& uid : node.pods) j.beginObject().key("UID").value(uid).endObject();
    j.endArray().key("NumPDBViolations").value(node.pdbViolations).endObject();
  }
  return j.endObject().endObject().take();
}

}  // namespace egpu::codec
