#include "controller/standalone/sim/nodes_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>

#include "api/v1alpha/card_object.h"
#include "api/v1alpha/keys.h"
#include "api/v1alpha/quantity.h"
#include "api/v1alpha/validation.h"
#include "controller/base/ids.h"
#include "controller/base/text.h"
#include "controller/codec/codec.h"

namespace egpu::sim {

namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxCards = 128;  // per node; the maximum that one claim may request
constexpr int64_t kMaxMilli = 1'000'000'000;
constexpr int64_t kMaxMilliTflops = 1'000'000'000;
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kEphemeralBytes = int64_t{200} << 30;
constexpr int64_t kDefaultSwitchLinks = 12;

/// Thrown and caught only in this file, where yaml-cpp also reports errors by exceptions.
struct Bad {
  std::string text;
};

[[noreturn]] void fail(const std::string& field, const YAML::Node& at, const std::string& what) {
  std::string where = field;
  if (at.IsDefined() && at.Mark().line >= 0) where += " (line " + std::to_string(at.Mark().line + 1) + ")";
  throw Bad{where + ": " + what};
}

void onlyKeys(const YAML::Node& map, const std::string& field, const std::set<std::string>& known) {
  if (!map.IsMap()) fail(field, map, "must be a mapping");
  for (const auto& kv : map) {
    const auto key = kv.first.as<std::string>();
    if (known.count(key) != 0) continue;
    std::string list;
    for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
    fail(field.empty() ? key : field + "." + key, kv.first, "is not a known field; known are " + list);
  }
}

std::string text(const YAML::Node& n, const std::string& field) {
  if (!n.IsScalar()) fail(field, n, "must be a single value");
  return n.Scalar();
}

int64_t whole(const YAML::Node& n, const std::string& field, int64_t low, int64_t high) {
  int64_t v = 0;
  try {
    v = n.as<int64_t>();
  } catch (const YAML::Exception&) {
    fail(field, n, "must be a whole number");
  }
  if (v < low || v > high)
    fail(field, n, "is " + std::to_string(v) + "; valid are " + std::to_string(low) + " to " + std::to_string(high));
  return v;
}

bool flag(const YAML::Node& n, const std::string& field) {
  const auto value = text(n, field);
  if (value != "true" && value != "false") fail(field, n, "must be true or false");
  return value == "true";
}

v1alpha::Quantity quantity(const YAML::Node& n, const std::string& field, const char* example) {
  std::string why;
  auto q = v1alpha::parseQuantity(text(n, field), &why);
  if (!q) fail(field, n, "\"" + n.Scalar() + "\" is not a quantity (" + why + "); write for example " + example);
  if (q->nano <= 0) fail(field, n, "must be more than zero");
  return *q;
}

int64_t bytes(const YAML::Node& n, const std::string& field) {
  const auto q = quantity(n, field, "64Gi");
  if (q.form != v1alpha::QuantityForm::suffixed)
    fail(field, n, "\"" + n.Scalar() + "\" has no unit; write for example " + n.Scalar() + "Gi");
  auto v = q.asInteger();
  if (!v) fail(field, n, "is not a whole number of bytes");
  if (*v > kMaxBytes) fail(field, n, "is more than 1Pi");
  return *v;
}

int64_t tflops(const YAML::Node& n, const std::string& field) {
  const auto milli = quantity(n, field, "19.5").asMilli();
  if (!milli) fail(field, n, "\"" + n.Scalar() + "\" has more than three decimals");
  if (*milli > kMaxMilliTflops) fail(field, n, "is more than 1000000");
  return *milli;
}

int64_t milli(const YAML::Node& n, const std::string& field) {
  const auto q = quantity(n, field, "64");
  const auto milli = q.nano / 1'000'000;
  if (milli > kMaxMilli) fail(field, n, "is more than a million CPUs");
  return static_cast<int64_t>(milli);
}

/// Returns a uuid in NVIDIA's format that depends only on node and index.
std::string cardUuid(const std::string& node, std::size_t index) {
  const std::string a = base::hexDigest(node + "/" + std::to_string(index));
  const std::string b = base::hexDigest("card " + std::to_string(index) + " of " + node);
  return "GPU-" + a.substr(0, 8) + "-" + a.substr(8, 4) + "-" + a.substr(12, 4) + "-" + b.substr(0, 4) + "-" +
         b.substr(4, 12);
}

/// Reads a uuid. In lower case it must be a valid object name, and its length must be valid for a label.
std::string statedUuid(const YAML::Node& n, const std::string& field) {
  auto uuid = text(n, field);
  if (uuid.size() > 63 || !v1alpha::isDnsSubdomain(base::lowered(uuid)))
    fail(field, n, "\"" + uuid + "\" can't name a card: 1 to 63 letters, digits, '-' and '.', such as GPU-0a1b2c3d");
  if (base::lowered(uuid).starts_with("egpu-"))
    fail(field, n, "\"" + uuid + "\" begins with egpu-, as devices' names do");
  return uuid;
}

/// Reads uuid (for a group with one card) or uuids (one per card). Without them the uuids are empty; readCards() sets
/// them.
std::vector<std::string> readUuids(const YAML::Node& g, const std::string& field, int64_t count) {
  std::vector<std::string> uuids(static_cast<std::size_t>(count));
  if (const auto one = g["uuid"]; one) {
    if (g["uuids"]) fail(field + ".uuids", g["uuids"], "give one of uuid and uuids");
    if (count != 1) fail(field + ".uuid", one, "is one for " + std::to_string(count) + " cards; write a list, uuids");
    uuids[0] = statedUuid(one, field + ".uuid");
  }
  if (const auto list = g["uuids"]; list) {
    if (!list.IsSequence() || list.size() != uuids.size())
      fail(field + ".uuids", list, "must be a list with one for each of " + std::to_string(count) + " cards");
    for (std::size_t i = 0; i < uuids.size(); ++i) uuids[i] = statedUuid(list[i], field + ".uuids");
  }
  return uuids;
}

struct FileLink {
  std::size_t a, b;
  int64_t n;
  std::string field;  ///< field in the file, for messages
  YAML::Node at;
};

/// Reads numa: one number for all cards of the group, or a list with one per card.
std::vector<int64_t> readNuma(const YAML::Node& g, const std::string& field, int64_t count) {
  std::vector<int64_t> numa(static_cast<std::size_t>(count), -1);
  const auto n = g["numa"];
  if (!n) return numa;
  if (!n.IsSequence()) {
    std::fill(numa.begin(), numa.end(), whole(n, field + ".numa", -1, 1023));
    return numa;
  }
  if (n.size() != numa.size())
    fail(field + ".numa", n, "has " + std::to_string(n.size()) + " entries for " + std::to_string(count) + " cards");
  for (std::size_t i = 0; i < n.size(); ++i) numa[i] = whole(n[i], field + ".numa", -1, 1023);
  return numa;
}

/// Reads nvswitch, the number of links of each card to the switch.
int64_t readSwitchLinks(const YAML::Node& g, const std::string& field) {
  const auto s = g["nvswitch"];
  if (!s) return 0;
  const auto v = text(s, field + ".nvswitch");
  if (v == "true") return kDefaultSwitchLinks;
  return v == "false" ? 0 : whole(s, field + ".nvswitch", 0, 64);
}

void readLinks(const YAML::Node& g, const std::string& field, std::vector<FileLink>& links) {
  const auto l = g["nvlinks"];
  if (!l) return;
  if (!l.IsSequence()) fail(field + ".nvlinks", l, "must be a list of [card, card, links]");
  for (const auto& e : l) {
    if (!e.IsSequence() || e.size() != 3) fail(field + ".nvlinks", e, "each entry is [card, card, links]");
    const auto a = whole(e[0], field + ".nvlinks", 0, kMaxCards - 1),
               b = whole(e[1], field + ".nvlinks", 0, kMaxCards - 1);
    if (a == b) fail(field + ".nvlinks", e, "links a card with itself");
    const auto low = static_cast<std::size_t>(std::min(a, b)), high = static_cast<std::size_t>(std::max(a, b));
    if (std::any_of(links.begin(), links.end(), [&](const FileLink& other) {
          return std::min(other.a, other.b) == low && std::max(other.a, other.b) == high;
        }))
      fail(field + ".nvlinks", e, "links cards " + std::to_string(a) + " and " + std::to_string(b) + " twice");
    links.push_back({static_cast<std::size_t>(a), static_cast<std::size_t>(b), whole(e[2], field + ".nvlinks", 1, 64),
                     field + ".nvlinks", e});
  }
}

/// Returns profiles as the drivers of cards with seven compute slices report them: an instance has an eighth of the
/// card's memory per memory slot, and its name has the rounded number of GB.
std::vector<v1alpha::MigProfile> migProfiles(int64_t memory) {
  struct Shape {
    int64_t compute, size;
    uint16_t starts;
    bool media = false;
  };
  constexpr auto kShapes = std::to_array<Shape>({{1, 1, 0b1111111},
                                                 {1, 1, 0b1111111, true},
                                                 {1, 2, 0b1010101},
                                                 {2, 2, 0b10101},
                                                 {3, 4, 0b10001},
                                                 {4, 4, 0b1},
                                                 {7, 8, 0b1}});
  constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;
  std::vector<v1alpha::MigProfile> profiles;
  for (const Shape& shape : kShapes) {
    v1alpha::MigProfile profile;
    profile.size = shape.size;
    profile.memory = memory / v1alpha::Slots::kMemory / kMiB * kMiB * shape.size;
    const int64_t gigabytes = (memory * shape.size / v1alpha::Slots::kMemory + kGiB / 2) / kGiB;
    profile.name = std::to_string(shape.compute) + "g." + std::to_string(gigabytes) + "gb" + (shape.media ? "+me" : "");
    profile.compute = shape.compute;
    profile.starts = {shape.starts};
    profile.media = shape.media;
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

void readGpuGroup(const YAML::Node& g, const std::string& field, std::vector<v1alpha::Card>& cards,
                  std::vector<FileLink>& links, std::vector<int64_t>& switchLinks) {
  onlyKeys(g, field,
           {"model", "count", "memory", "sms", "tflops", "numa", "nvlinks", "nvswitch", "uuid", "uuids", "mig"});
  if (!g["model"]) fail(field + ".model", g, "is missing");
  if (!g["memory"]) fail(field + ".memory", g, "is missing");
  const int64_t count = g["count"] ? whole(g["count"], field + ".count", 1, kMaxCards) : 1;
  v1alpha::Card proto;
  proto.model = text(g["model"], field + ".model");
  if (proto.model.empty() || proto.model.size() > 63 || proto.model.find('|') != std::string::npos)
    fail(field + ".model", g["model"], "must have 1 to 63 characters and no '|'");
  proto.memory = bytes(g["memory"], field + ".memory");
  if (g["sms"]) proto.smCount = whole(g["sms"], field + ".sms", 1, 100'000);
  if (g["tflops"]) proto.milliTflops = tflops(g["tflops"], field + ".tflops");
  if (g["mig"] && flag(g["mig"], field + ".mig")) proto.mig = migProfiles(proto.memory);
  const auto numa = readNuma(g, field, count);
  const auto uuids = readUuids(g, field, count);
  const int64_t toSwitch = readSwitchLinks(g, field);
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (cards.size() == kMaxCards) fail(field, g, "a node has at most " + std::to_string(kMaxCards) + " cards");
    proto.index = static_cast<int64_t>(cards.size());
    proto.topology.numa = numa[i];
    proto.uuid = uuids[i];
    cards.push_back(proto);
    switchLinks.push_back(toSwitch);
  }
  readLinks(g, field, links);
}

void wire(std::vector<v1alpha::Card>& cards, const std::vector<FileLink>& links,
          const std::vector<int64_t>& switchLinks) {
  for (const auto& l : links) {
    if (l.a >= cards.size() || l.b >= cards.size())
      fail(l.field, l.at, "names card " + std::to_string(std::max(l.a, l.b)) + " of " + std::to_string(cards.size()));
    cards[l.a].topology.links.push_back({cards[l.b].uuid, "nvlink", l.n});
    cards[l.b].topology.links.push_back({cards[l.a].uuid, "nvlink", l.n});
  }
  for (std::size_t a = 0; a < cards.size(); ++a)
    for (std::size_t b = 0; b < cards.size(); ++b)
      if (a != b && switchLinks[a] > 0 && switchLinks[b] > 0)
        cards[a].topology.links.push_back({cards[b].uuid, "nvswitch", std::min(switchLinks[a], switchLinks[b])});
}

std::string pciBus(std::size_t index) {
  static constexpr char hex[] = "0123456789ABCDEF";
  const std::size_t domain = index / 16, bus = 0x17 + index % 16 * 8;
  return std::string("000") + hex[domain & 0xf] + ":" + hex[(bus >> 4) & 0xf] + hex[bus & 0xf] + ":00.0";
}

/// True for 1 to 63 letters, digits, '-', '_' and '.' that begin and end with a letter or digit.
bool isLabelName(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return !name.empty() && name.size() <= 63 && plain(name.front()) && plain(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

/// True for a label name, also with a DNS subdomain and '/' before it.
bool isQualifiedName(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return isLabelName(key);
  return v1alpha::isDnsSubdomain(key.substr(0, slash)) && isLabelName(key.substr(slash + 1));
}

/// Returns the n-th address of the ranges that are reserved for documentation, so that no machine has it: first IPv4,
/// then IPv6.
std::string documentationAddress(std::size_t n) {
  constexpr std::array<std::string_view, 3> ranges{"192.0.2.", "198.51.100.", "203.0.113."};
  constexpr std::size_t kHosts = 254;
  if (n < ranges.size() * kHosts) return std::string(ranges[n / kHosts]) + std::to_string(1 + n % kHosts);
  std::ostringstream text;
  text << "2001:db8::" << std::hex << (n >> 16) << ':' << (n & 0xffff);
  return text.str();
}

void readLabels(const YAML::Node& labels, const std::string& field, core::StringMap& out) {
  if (!labels.IsMap()) fail(field, labels, "must be a mapping");
  for (const auto& kv : labels) {
    const auto key = text(kv.first, field);
    const auto at = field + "." + key;
    if (!isQualifiedName(key)) fail(at, kv.first, "is not a label key");
    if (const auto value = text(kv.second, at); value.empty() || isLabelName(value))
      out[key] = value;
    else
      fail(at, kv.second, "\"" + value + "\" is not a label value");
  }
}

void readTaints(const YAML::Node& taints, const std::string& field, std::vector<core::Taint>& out) {
  if (!taints.IsSequence()) fail(field, taints, "must be a list of {key, value, effect}");
  for (std::size_t i = 0; i < taints.size(); ++i) {
    const auto t = taints[i];
    const std::string at = field + "[" + std::to_string(i) + "]";
    onlyKeys(t, at, {"key", "value", "effect"});
    core::Taint taint{t["key"] ? text(t["key"], at + ".key") : "", t["value"] ? text(t["value"], at + ".value") : "",
                      t["effect"] ? text(t["effect"], at + ".effect") : ""};
    if (taint.key.empty()) fail(at + ".key", t, "is missing");
    if (taint.effect != "NoSchedule" && taint.effect != "PreferNoSchedule" && taint.effect != "NoExecute")
      fail(at + ".effect", t, "valid are NoSchedule, PreferNoSchedule, NoExecute");
    out.push_back(std::move(taint));
  }
}

std::vector<v1alpha::Card> readCards(const YAML::Node& gpus, const std::string& field, const std::string& node) {
  if (!gpus.IsSequence()) fail(field, gpus, "must be a list");
  std::vector<v1alpha::Card> cards;
  std::vector<FileLink> links;
  std::vector<int64_t> switchLinks;
  for (std::size_t g = 0; g < gpus.size(); ++g)
    readGpuGroup(gpus[g], field + "[" + std::to_string(g) + "]", cards, links, switchLinks);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].uuid.empty()) cards[i].uuid = cardUuid(node, i);
    cards[i].nodeName = node;
    cards[i].topology.pcie = pciBus(i);
  }
  wire(cards, links, switchLinks);
  return cards;
}

SimNode makeNode(const YAML::Node& n, const std::string& field, const std::string& name) {
  if (!v1alpha::isDnsSubdomain(name)) fail(field + ".name", n["name"], "\"" + name + "\" is not a DNS subdomain name");
  SimNode out;
  out.node.metadata.name = name;
  out.node.ready = true;
  out.node.cpuMilli = n["cpu"] ? milli(n["cpu"], field + ".cpu") : 64'000;
  out.node.memoryBytes = n["memory"] ? bytes(n["memory"], field + ".memory") : int64_t{256} << 30;
  out.node.ephemeralBytes = kEphemeralBytes;
  if (n["labels"]) readLabels(n["labels"], field + ".labels", out.node.metadata.labels);
  out.node.metadata.labels["kubernetes.io/hostname"] = v1alpha::labelValueOf(name);
  out.node.metadata.labels[std::string(v1alpha::keys::kSimulatedLabel)] = "true";
  if (n["taints"]) readTaints(n["taints"], field + ".taints", out.node.taints);
  if (n["gpus"]) out.cards = readCards(n["gpus"], field + ".gpus", name);
  return out;
}

}  // namespace

Result<std::vector<SimNode>> parseNodes(std::string_view yaml) try {
  const YAML::Node root = YAML::Load(std::string(yaml));  // before yamlToJson(), as its syntax errors are more precise
  // yaml-cpp accepts several documents and duplicate keys, yamlToJson() refuses them.
  if (const auto strict = codec::yamlToJson(yaml); !strict) return strict.status();
  if (!root.IsMap()) fail("nodes", root, "the file must be a mapping with the list `nodes`");
  onlyKeys(root, "", {"nodes"});
  const auto list = root["nodes"];
  if (!list || !list.IsSequence() || list.size() == 0) fail("nodes", root, "must be a list with at least one node");
  std::vector<SimNode> out;
  std::set<std::string> names, uuids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string field = "nodes[" + std::to_string(i) + "]";
    const auto n = list[i];
    onlyKeys(n, field, {"name", "count", "cpu", "memory", "labels", "taints", "gpus"});
    if (!n["name"]) fail(field + ".name", n, "is missing");
    const auto name = text(n["name"], field + ".name");
    const int64_t count = n["count"] ? whole(n["count"], field + ".count", 0, kMaxNodes) : -1;
    for (int64_t k = 0; k < std::max<int64_t>(count, count < 0 ? 1 : 0); ++k) {
      auto node = makeNode(n, field, count < 0 ? name : name + "-" + std::to_string(k));
      if (!names.insert(node.node.metadata.name).second)
        fail(field + ".name", n, "\"" + node.node.metadata.name + "\" is used twice");
      for (const auto& card : node.cards)
        if (!uuids.insert(base::lowered(card.uuid)).second)
          fail(field + ".gpus", n["gpus"], "uuid \"" + card.uuid + "\" is used twice");
      node.node.internalIP = documentationAddress(out.size());
      if (out.size() == kMaxNodes) fail("nodes", list, "more than " + std::to_string(kMaxNodes) + " nodes");
      out.push_back(std::move(node));
    }
  }
  return out;
} catch (const Bad& bad) {
  return Status(Code::invalid, bad.text);
} catch (const YAML::Exception& e) {
  return Status(Code::invalid, "line " + std::to_string(e.mark.line + 1) + ": " + e.msg);
}

v1alpha::ElasticGPU cardObject(const v1alpha::Card& card) {
  auto out = v1alpha::cardObject(card);
  out.metadata.labels[std::string(v1alpha::keys::kSimulatedLabel)] = "true";
  return out;
}

}  // namespace egpu::sim
