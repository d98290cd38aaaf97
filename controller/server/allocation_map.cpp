#include "controller/server/allocation_map.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "api/v1alpha/quantity.h"
#include "api/v1alpha/usage.h"
#include "controller/base/printable.h"
#include "controller/codec/json/text.h"
#include "controller/whatif/render/text_table.h"

namespace egpu::server {

namespace {

using allocator::MapAllocation;
using allocator::MapCard;

struct Totals {
  int64_t cards = 0, claims = 0, core = 0, usedCore = 0, memory = 0, usedMemory = 0, quarantined = 0;
  void count(const MapCard& c) {
    ++cards;
    claims += std::count_if(c.allocations.begin(), c.allocations.end(), [](const auto& m) { return !m.adminAccess(); });
    core += c.core;
    usedCore += c.usedCore;
    memory += c.memory;
    usedMemory += c.usedMemory;
    quarantined += c.offered ? 0 : 1;
  }
};

std::string decimalShare(int64_t used, int64_t whole) {
  if (whole <= 0) return "0.00";
  const int64_t milli = used * 1000 / whole;
  std::string fraction = std::to_string(milli % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  if (fraction.back() == '0') fraction.pop_back();
  return std::to_string(milli / 1000) + "." + fraction;
}

std::string counted(int64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// Letter and colour of a claim. They depend on its name, so that the claim looks the same on all cards of its node and
/// in every map. Claims of one node share a letter or colour only when all are in use.
struct ClaimStyle {
  char letter = '?';
  int color = 0;
};

class BarStyle {
 public:
  explicit BarStyle(const allocator::MapNode& node) {
    std::uint64_t letters = 0, colors = 0;
    for (const auto& card : node.cards)
      for (const auto& take : card.allocations) {
        auto [it, fresh] = styles_.try_emplace(take.claim);
        if (!fresh) continue;
        const std::size_t hue = hueOf(take.claim);
        it->second = {kLetters[claimed(letters, hue, kLetters.size())], kColors[claimed(colors, hue, kColors.size())]};
      }
  }
  const ClaimStyle& of(const std::string& claim) const { return styles_.at(claim); }

 private:
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  static constexpr std::array<int, 12> kColors = {39, 208, 76, 170, 220, 45, 203, 141, 114, 215, 69, 180};

  static std::size_t hueOf(const std::string& claim) {
    std::size_t h = 2166136261U;
    for (unsigned char c : claim) h = (h ^ c) * 16777619U;
    return h;
  }
  /// Returns the first unused index of `count`, starting at `hue`. If all are in use, all become unused again.
  static std::size_t claimed(std::uint64_t& taken, std::size_t hue, std::size_t count) {
    const std::uint64_t all = (std::uint64_t{1} << count) - 1;
    if (taken == all) taken = 0;
    std::size_t i = hue % count;
    while ((taken >> i & 1) != 0) i = (i + 1) % count;
    taken |= std::uint64_t{1} << i;
    return i;
  }

  std::map<std::string, ClaimStyle, std::less<>> styles_;
};

class Bar {
 public:
  Bar(std::size_t cells, bool color, const BarStyle& style) : cells_(cells), color_(color), style_(style) {}

  /// Draws the amount `of(claim)` out of `whole` for each claim, in the order of the claims. Each claim with an amount
  /// gets at least one cell while cells are left.
  template <class Of>
  std::string draw(const MapCard& card, int64_t whole, Of of) const {
    std::string out;
    std::size_t drawn = 0;
    int64_t sum = 0;
    for (const auto& c : card.allocations) {
      const int64_t amount = of(c);
      if (amount <= 0) continue;
      sum += amount;
      const auto upTo = whole > 0 ? static_cast<std::size_t>(static_cast<__int128>(std::min(sum, whole)) *
                                                             static_cast<__int128>(cells_) / whole)
                                  : cells_;
      std::size_t n = std::max<std::size_t>(upTo > drawn ? upTo - drawn : 0, 1);
      n = std::min(n, cells_ - drawn);
      drawn += n;
      out += segment(c.claim, n);
    }
    if (drawn == cells_) return out;
    if (color_) out += "\033[38;5;240m";
    for (; drawn < cells_; ++drawn) out += color_ ? "░" : "·";
    return color_ ? out + "\033[0m" : out;
  }

 private:
  std::string segment(const std::string& claim, std::size_t n) const {
    std::string out;
    const ClaimStyle& claimStyle = style_.of(claim);
    if (color_) out += "\033[38;5;" + std::to_string(claimStyle.color) + "m";
    for (std::size_t i = 0; i < n; ++i) out += color_ ? "█" : std::string(1, claimStyle.letter);
    if (color_) out += "\033[0m";
    return out;
  }
  std::size_t cells_;
  bool color_;
  const BarStyle& style_;
};

/// Returns the number of cells of a bar so that the line of a card fits: two bars, index, model, core and memory.
std::size_t barWidth(const TextOptions& options, std::size_t modelWidth) {
  constexpr std::size_t kMin = 10, kMax = 200, kUsual = 30, kWidest = 60, kTexts = 30;
  if (options.bar > 0) return std::clamp(options.bar, kMin, kMax);
  if (options.columns == 0) return kUsual;
  const std::size_t beside = kTexts + modelWidth;
  return std::clamp(options.columns > beside ? (options.columns - beside) / 2 : 0, kMin, kWidest);
}

bool idle(const MapCard& c) { return !c.usage || (c.usage->memory <= 0 && c.usage->smPercent <= 0); }
bool empty(const MapCard& c) { return c.allocations.empty() && c.offered && idle(c); }
/// True if an empty card can join the line of the empty card before it: it has the next index, and is equal in all that
/// the line shows.
bool continuesRun(const MapCard& last, const MapCard& next) {
  return empty(next) && next.index == last.index + 1 && next.model == last.model && next.core == last.core &&
         next.memory == last.memory;
}

/// "35%, 3.1Gi"; empty if the usage is not known.
std::string inUse(const auto& usage) {
  return usage ? v1alpha::usageText(usage->smPercent, usage->memory) : std::string();
}

void writePods(std::string& out, const ClaimPods& pods, const std::string& claim) {
  const auto it = pods.find(claim);
  if (it == pods.end() || it->second.empty()) return;
  out += it->second.size() == 1 ? "  pod " : "  pods ";
  for (std::size_t i = 0; i < it->second.size(); ++i) out += (i == 0 ? "" : ", ") + it->second[i];
}

void writeCard(std::string& out, const MapCard& c, const Bar& bar, const BarStyle& style, std::size_t modelWidth,
               bool color, const ClaimPods& pods) {
  out += "  " + padded(std::to_string(c.index), 5) + padded(c.model, modelWidth) + "  ";
  out += bar.draw(c, c.core, [](const MapAllocation& m) { return m.core; });
  out += padded(" " + v1alpha::formatMilliCards(c.usedCore), 8);
  out += bar.draw(c, c.memory, [](const MapAllocation& m) { return m.memory; });
  out += " " + v1alpha::readableBytes(c.usedMemory) + "/" + v1alpha::readableBytes(c.memory);
  if (!c.offered) out += "  NOT OFFERED" + (c.why.empty() ? std::string() : " (" + c.why + ")");
  out += "\n";
  if (const auto used = inUse(c.usage); !used.empty()) out += "         in use: " + used + "\n";
  for (const auto& m : c.allocations) {
    out += "         ";
    const ClaimStyle& claimStyle = style.of(m.claim);
    if (color)
      out += "\033[38;5;" + std::to_string(claimStyle.color) + "m█\033[0m";
    else
      out += claimStyle.letter;
    out += " " + m.claim + "  ";
    out +=
        m.adminAccess() ? "admin access" : v1alpha::formatMilliCards(m.core) + "  " + v1alpha::readableBytes(m.memory);
    if (!m.slots.empty()) out += "  " + base::printable(m.profile) + " in slots " + v1alpha::slotList(m.slots);
    if (!m.phase.empty()) out += "  " + m.phase;
    if (const auto used = inUse(m.usage); !used.empty()) out += "  uses " + used;
    writePods(out, pods, m.claim);
    out += "\n";
  }
}

/// Writes {"memory":…,"smPercent":…} without the unknown values.
void writeUsage(codec::JsonText& j, const auto& usage) {
  if (!usage) return;
  j.key("usage").beginObject();
  if (usage->memory >= 0) j.key("memory").value(usage->memory);
  if (usage->smPercent >= 0) j.key("smPercent").value(usage->smPercent);
  j.endObject();
}

void writePodsOf(codec::JsonText& j, const std::string& claim, const ClaimPods& pods) {
  const auto it = pods.find(claim);
  if (it == pods.end()) return;
  j.key("pods").beginArray();
  for (const auto& pod : it->second) j.value(pod);
  j.endArray();
}

void writeClaim(codec::JsonText& j, const MapAllocation& m, const ClaimPods& pods) {
  j.beginObject().key("claim").value(m.claim).key("device").value(m.device).key("phase").value(m.phase);
  j.key("core").value(m.core).key("memory").value(m.memory);
  if (m.adminAccess()) j.key("adminAccess").value(true);
  if (!m.profile.empty()) j.key("profile").value(m.profile);
  if (!m.slots.empty()) {
    j.key("slots").beginArray();
    for (unsigned slot = 0; slot < v1alpha::Slots::kCount; ++slot)
      if (m.slots.has(slot)) j.value(int64_t{slot});
    j.endArray();
  }
  writeUsage(j, m.usage);
  writePodsOf(j, m.claim, pods);
  j.endObject();
}

void writeRemote(codec::JsonText& j, const allocator::MapRemoteDevice& device, const ClaimPods& pods) {
  j.beginObject().key("device").value(device.device).key("phase").value(device.phase);
  j.key("class").value(device.className);
  if (!device.pool.empty()) j.key("pool").value(device.pool);
  if (!device.endpoint.empty()) j.key("endpoint").value(device.endpoint);
  if (!device.claim.empty()) {
    j.key("claim").value(device.claim);
    writePodsOf(j, device.claim, pods);
  }
  j.endObject();
}

}  // namespace

void writeNode(codec::JsonText& j, const allocator::MapNode& node, const ClaimPods& pods, const WriteCardFields& more) {
  j.beginObject().key("name").value(node.name).key("schedulable").value(node.schedulable).key("cards").beginArray();
  for (const auto& c : node.cards) {
    j.beginObject().key("name").value(c.name).key("uuid").value(c.uuid).key("index").value(c.index);
    j.key("model").value(c.model).key("offered").value(c.offered);
    if (!c.why.empty()) j.key("why").value(c.why);
    if (!c.mode.empty()) j.key("isolation").value(c.mode);
    j.key("core").value(c.core).key("memory").value(c.memory);
    j.key("used").beginObject().key("core").value(c.usedCore).key("memory").value(c.usedMemory).endObject();
    j.key("free").beginObject().key("core").value(std::max<int64_t>(0, c.core - c.usedCore));
    j.key("memory").value(std::max<int64_t>(0, c.memory - c.usedMemory)).endObject();
    writeUsage(j, c.usage);
    j.key("claims").beginArray();
    for (const auto& m : c.allocations) writeClaim(j, m, pods);
    j.endArray();
    if (more) more(j, c);
    j.endObject();
  }
  j.endArray().endObject();
}

std::string toJson(const AllocationMap& map, const ClaimPods& pods) {
  codec::JsonText j;
  Totals all;
  j.beginObject().key("nodes").beginArray();
  for (const auto& n : map.nodes) {
    for (const auto& c : n.cards) all.count(c);
    writeNode(j, n, pods);
  }
  j.endArray().key("totals").beginObject();
  j.key("nodes")
      .value(static_cast<int64_t>(map.nodes.size()))
      .key("cards")
      .value(all.cards)
      .key("quarantined")
      .value(all.quarantined);
  j.key("claims").value(all.claims).key("core").value(all.core).key("usedCore").value(all.usedCore);
  j.key("memory").value(all.memory).key("usedMemory").value(all.usedMemory).endObject();
  j.key("remote").beginArray();
  for (const auto& device : map.remote) writeRemote(j, device, pods);
  j.endArray().endObject();
  return j.take();
}

std::string toBackendAi(const AllocationMap& map) {
  codec::JsonText j;
  j.beginObject();
  for (const auto& n : map.nodes)
    for (const auto& c : n.cards) j.key(c.uuid).value(decimalShare(c.usedCore, 1000));
  j.endObject();
  return j.take();
}

namespace {

/// Returns the map with control characters in user-chosen names made visible, so that it is safe for a terminal.
AllocationMap printed(AllocationMap map) {
  for (auto& n : map.nodes) {
    n.name = base::printable(n.name);
    for (auto& c : n.cards) {
      c.model = base::printable(c.model);
      c.why = base::printable(c.why);
      for (auto& m : c.allocations) m.claim = base::printable(m.claim);
    }
  }
  for (auto& device : map.remote)
    for (auto* text : {&device.claim, &device.className, &device.pool, &device.endpoint})
      *text = base::printable(*text);
  return map;
}

void writeRemoteDevices(std::string& out, const AllocationMap& map, const ClaimPods& pods) {
  for (const auto& device : map.remote) {
    out += "remote GPU " + device.device + "  " + (device.endpoint.empty() ? "no endpoint yet" : device.endpoint) +
           (device.pool.empty() ? "" : " of pool " + device.pool) + "  " +
           (device.claim.empty() ? "no claim" : device.claim) + "  " + device.phase;
    if (!device.claim.empty()) writePods(out, pods, device.claim);
    out += "\n";
  }
}

}  // namespace

std::string toText(const AllocationMap& asIs, const TextOptions& options, const ClaimPods& pods) {
  const auto map = printed(asIs);
  std::size_t modelWidth = 5;
  for (const auto& n : map.nodes)
    for (const auto& c : n.cards) modelWidth = std::max(modelWidth, c.model.size());
  const std::size_t cells = barWidth(options, modelWidth);
  std::string out;
  Totals all;
  for (const auto& n : map.nodes) {
    Totals here;
    for (const auto& c : n.cards) {
      here.count(c);
      all.count(c);
    }
    const std::string bold = options.color ? "\033[1m" : "", plain = options.color ? "\033[0m" : "";
    out += bold + n.name + plain + (n.schedulable ? "" : "  (not schedulable)");
    if (here.cards == 0) {
      out += "  no cards\n";
      continue;
    }
    out += "  " + counted(here.cards, "card") + ", core " + v1alpha::formatMilliCards(here.usedCore) + " of " +
           v1alpha::formatMilliCards(here.core) + ", memory " + v1alpha::readableBytes(here.usedMemory) + " of " +
           v1alpha::readableBytes(here.memory) + "\n";
    const BarStyle style(n);
    const Bar bar(cells, options.color, style);
    for (std::size_t i = 0; i < n.cards.size(); ++i) {
      std::size_t end = i;
      if (empty(n.cards[i])) ++end;
      while (end > i && end < n.cards.size() && continuesRun(n.cards[end - 1], n.cards[end])) ++end;
      if (end > i + 1) {
        const auto range = std::to_string(n.cards[i].index) + "-" + std::to_string(n.cards[end - 1].index);
        out += "  " + padded(range, 5) + padded(n.cards[i].model, modelWidth) + "  free: " + std::to_string(end - i) +
               " cards of " + v1alpha::readableBytes(n.cards[i].memory) + "\n";
        i = end - 1;
      } else {
        writeCard(out, n.cards[i], bar, style, modelWidth, options.color, pods);
      }
    }
  }
  writeRemoteDevices(out, map, pods);
  out += "total: " + counted(static_cast<int64_t>(map.nodes.size()), "node") + ", " + counted(all.cards, "card") +
         ", " + counted(all.claims, "share") + "; core " + v1alpha::formatMilliCards(all.usedCore) + " of " +
         v1alpha::formatMilliCards(all.core) + ", memory " + v1alpha::readableBytes(all.usedMemory) + " of " +
         v1alpha::readableBytes(all.memory);
  if (!map.remote.empty()) out += "; " + counted(static_cast<int64_t>(map.remote.size()), "remote GPU");
  if (all.quarantined > 0) out += "; " + std::to_string(all.quarantined) + " not offered";
  return whatif::fitted(out + "\n", {options.color, options.columns});
}

}  // namespace egpu::server
