#include "controller/agent/cards/discovery_results.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "controller/base/printable.h"
#include "controller/base/text.h"

namespace egpu::agent::cards {

namespace {

namespace keys = v1alpha::keys;

// Limits of a card in manifests/crd.
constexpr int64_t kMaxIndex = 1023, kMaxNuma = 1023, kMaxSms = 1'000'000, kMaxMilliTflops = 1'000'000'000,
                  kMaxLinksToPeer = 1024, kMaxMemory = int64_t{1} << 50;
constexpr std::size_t kMaxLinks = 256, kMaxProfiles = 32, kMaxAttributes = 64, kMaxNameLength = 63,
                      kMaxTextLength = 253;
// Limits of messages about cards.
constexpr std::size_t kMaxRemarks = 32, kMaxRemarkLength = 400, kMaxMessageLength = 900;

bool printable(std::string_view text, std::size_t max) {
  return text.size() <= max && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// Returns why the API can't represent this card; empty if it can.
std::string refusal(const plugin::Gpu& g) {
  const auto name = base::lowered(g.uuid);
  if (!v1alpha::isDnsSubdomain(name)) return "its uuid can't name an object (letters, digits, '-' and '.')";
  if (name.starts_with(keys::kDevicePrefix)) return "the prefix egpu- is reserved for devices of claims";
  if (g.memory == 0) return "its memory is unknown, so nothing of it can be allocated";
  if (g.memory < 0 || g.memory > kMaxMemory) return "it can't have " + std::to_string(g.memory) + " bytes";
  if (g.index < 0) return "its number on the node is unknown, so no container can be given it";
  if (g.index > kMaxIndex) return "its number on the node can't be " + std::to_string(g.index);
  if (g.smCount < 0 || g.smCount > kMaxSms) return "it can't have " + std::to_string(g.smCount) + " SMs";
  if (g.milliTflops < 0 || g.milliTflops > kMaxMilliTflops)
    return "its rating can't be " + std::to_string(g.milliTflops) + " thousandths of a TFLOPS";
  if (g.numaNode < -1 || g.numaNode > kMaxNuma) return "its NUMA node can't be " + std::to_string(g.numaNode);
  if (!printable(g.model, kMaxTextLength)) return "its model " + base::quoted(g.model) + " is no printable ASCII";
  if (!printable(g.pciAddress, kMaxNameLength))
    return "its PCI address " + base::quoted(g.pciAddress) + " is no printable ASCII";
  return {};
}

bool possible(const plugin::GpuLink& link) {
  return !link.peer.empty() && printable(link.peer, kMaxTextLength) && !link.type.empty() &&
         printable(link.type, kMaxNameLength) && link.count >= 0 && link.count <= kMaxLinksToPeer;
}

/// The plugin interface has checked the other values.
bool possible(const v1alpha::MigProfile& profile) {
  const auto lower = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !profile.name.empty() && profile.name.size() <= kMaxNameLength && lower(profile.name[0]) &&
         std::all_of(profile.name.begin(), profile.name.end(),
                     [&](char c) { return lower(c) || c == '.' || c == '-' || c == '+'; }) &&
         profile.memory <= kMaxMemory;
}

/// Collects remarks about the cards that plugins report.
class Remarks {
 public:
  explicit Remarks(std::vector<std::string>& all) : all_(all) {}
  void add(const std::string& plugin, const plugin::Gpu& g, const std::string& what) {
    if (all_.size() == kMaxRemarks) all_.emplace_back("further warnings are omitted");
    if (all_.size() > kMaxRemarks) return;
    all_.push_back(
        base::shortened("card " + base::quoted(base::shortened(g.uuid, kMaxNameLength)) + " of " + plugin + " " + what,
                        kMaxRemarkLength));
  }

 private:
  std::vector<std::string>& all_;
};

v1alpha::Card cardOf(const std::string& plugin, const plugin::Gpu& g, const std::string& node, Remarks& remarks) {
  v1alpha::Card card;
  card.uuid = g.uuid;
  card.nodeName = node;
  card.index = g.index;
  card.model = g.model;
  card.smCount = g.smCount;
  card.milliTflops = g.milliTflops;
  card.memory = g.memory;
  card.topology.numa = g.numaNode;
  card.topology.pcie = g.pciAddress;
  std::size_t left = 0;
  for (const auto& link : g.links)
    if (possible(link) && card.topology.links.size() < kMaxLinks)
      card.topology.links.push_back({link.peer, link.type, link.count});
    else
      ++left;
  if (left > 0) remarks.add(plugin, g, "has " + std::to_string(left) + " links that are left out: too many, or wrong");
  left = 0;
  for (const auto& [name, value] : g.attributes)
    if (!name.empty() && printable(name, kMaxNameLength) && printable(value, kMaxTextLength) &&
        card.attributes.size() < kMaxAttributes)
      card.attributes.emplace(name, value);
    else
      ++left;
  if (left > 0)
    remarks.add(plugin, g, "has " + std::to_string(left) + " attributes that are left out: too many, or unprintable");
  for (const auto& profile : g.mig)
    if (possible(profile) && card.mig.size() < kMaxProfiles)
      card.mig.push_back(profile);
    else
      remarks.add(plugin, g,
                  "has the MIG profile " + base::quoted(profile.name) + ", which is left out: too many, or wrong");
  return card;
}

}  // namespace

PluginReport ask(plugin::Provisioner& plugin) {
  PluginReport out;
  out.cards = plugin.discover();
  out.health = plugin.health();
  return out;
}

std::string warningOf(const std::string& plugin, std::string_view words) {
  return base::shortened(plugin + ": " + base::printable(words), kMaxMessageLength);
}

MergedCards merge(const Answers& answers, const std::string& node) {
  MergedCards out;
  Remarks remarks(out.remarks);
  std::set<std::string_view> warnings;  // messages so far: plugins for the same hardware report the same
  for (const auto& [plugin, answer] : answers) {
    if (!answer.cards.reply.ok()) continue;
    const auto& words = answer.cards.reply.message;
    if (!words.empty() && out.warnings.size() < kMaxRemarks && warnings.insert(words).second)
      out.warnings.push_back(warningOf(plugin, words));
    for (const auto& g : answer.cards.gpus) {
      if (const auto why = refusal(g); !why.empty()) {
        remarks.add(plugin, g, "is refused: " + why);
        continue;
      }
      const auto name = base::lowered(g.uuid);
      const auto known = out.cards.find(name);
      if (known != out.cards.end()) {
        // Two plugins may report the same hardware, but one plugin must not report a card twice.
        if (known->second.plugin == plugin) remarks.add(plugin, g, "is reported twice; the first report is used");
        continue;
      }
      if (out.cards.size() == kMaxCards) {
        remarks.add(plugin, g, "is refused: a node has at most " + std::to_string(kMaxCards) + " cards");
        continue;
      }
      out.cards.emplace(name, FoundCard{cardOf(plugin, g, node, remarks), plugin});
    }
  }
  return out;
}

std::vector<usage::Reading> readingsOf(const MergedCards& found, const Answers& answers) {
  std::vector<usage::Reading> out;
  for (const auto& [object, each] : found.cards) {
    const std::string& name = object;  // in clang 14, lambdas can't capture a structured binding
    const auto& health = answers.find(each.plugin)->second.health;
    if (!health.reply.ok()) continue;
    usage::Reading reading{name, each.card.uuid, each.card.model, each.card.memory, {}, {}};
    const auto same = [&](const auto& warnings) { return base::lowered(warnings.uuid) == name; };
    std::copy_if(health.processes.begin(), health.processes.end(), std::back_inserter(reading.processes), same);
    const auto use = std::find_if(health.use.begin(), health.use.end(), same);
    if (use != health.use.end())
      reading.use = *use;
    else if (!reading.processes.empty())  // an older plugin that reports processes only
      reading.use.processes = static_cast<int64_t>(reading.processes.size());
    else
      continue;
    out.push_back(std::move(reading));
  }
  return out;
}

}  // namespace egpu::agent::cards
