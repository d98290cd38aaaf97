#include "controller/standalone/sim/container_edits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace egpu::sim {
namespace {

constexpr std::array<std::string_view, 5> kLists{"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ELASTICGPU_CARDS",
                                                 "ELASTICGPU_DEVICE", "ELASTICGPU_CLAIM"};

/// Limits in percent that hold on every card.
constexpr std::array<std::string_view, 2> kPerCard{"CUDA_DEVICE_SM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"};

/// "0=4096M": of the one card that an MPS daemon serves.
constexpr std::string_view kPinned = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

bool isList(std::string_view name) { return std::find(kLists.begin(), kLists.end(), name) != kLists.end(); }

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string united(const std::string& list, const std::string& more) {
  auto all = split(list);
  for (auto& part : split(more))
    if (std::find(all.begin(), all.end(), part) == all.end()) all.push_back(std::move(part));
  std::string text;
  for (const auto& part : all) text += (text.empty() ? "" : ",") + part;
  return text;
}

/// NAME_2 for the claim's third card → its place among the claim's cards. No value: not numbered, or no such card.
std::optional<std::size_t> cardOf(const std::string& name, std::size_t cards) {
  constexpr std::size_t kDigits = 3;
  const auto last = name.find_last_not_of("0123456789");
  if (last == std::string::npos || name[last] != '_') return std::nullopt;
  if (last + 1 == name.size() || name.size() - last - 1 > kDigits) return std::nullopt;
  const std::size_t number = std::stoul(name.substr(last + 1));
  return number < cards ? std::optional(number) : std::nullopt;
}

/// "4096m" and "2048m" → "6144m"; empty if they are not two amounts in one unit.
std::string sum(const std::string& a, const std::string& b) {
  constexpr std::size_t kDigits = 18;
  const auto digits = [](const std::string& text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
  };
  const auto atA = digits(a), atB = digits(b);
  if (atA == 0 || atB == 0 || atA > kDigits || atB > kDigits || a.substr(atA) != b.substr(atB)) return {};
  return std::to_string(std::stoll(a) + std::stoll(b)) + a.substr(atA);
}

/// Whole percents of a card, never 0 for a share that is not 0: 0 would mean no limit.
int64_t percent(int64_t milliCards) { return std::max<int64_t>(1, milliCards / 10); }

/// CUDA_DEVICE_SM_LIMIT and its like hold on every card alike: the smallest, so that no card is overdrawn.
void limitAllCards(ContainerDevices& given) {
  int64_t least = 0;
  for (const auto& card : given.cards)
    if (card.core > 0) least = least == 0 ? percent(card.core) : std::min(least, percent(card.core));
  for (auto& [name, value] : given.edits.env)
    if (least > 0 && std::find(kPerCard.begin(), kPerCard.end(), name) != kPerCard.end()) value = std::to_string(least);
}

/// The container's number of each of the claim's cards; true beside it if another claim had it already.
std::vector<std::pair<std::size_t, bool>> number(ContainerDevices& into, const std::vector<plugin::CardShare>& cards) {
  std::vector<std::pair<std::size_t, bool>> out;
  for (const auto& card : cards) {
    const auto there =
        std::find_if(into.cards.begin(), into.cards.end(), [&](const auto& c) { return c.uuid == card.uuid; });
    out.emplace_back(there - into.cards.begin(), there != into.cards.end());
    if (there == into.cards.end()) {
      into.cards.push_back(card);
    } else {
      there->core += card.core;
      there->memory += card.memory;
    }
  }
  return out;
}

template <class T>
void addOnce(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

}  // namespace

void merge(ContainerDevices& given, const plugin::ContainerEdits& more, const std::vector<plugin::CardShare>& cards) {
  const bool first = given.cards.empty();
  const auto numbers = number(given, cards);
  auto& into = given.edits;
  const bool sameCards = !first && std::all_of(numbers.begin(), numbers.end(), [](const auto& n) { return n.second; });
  for (const auto& [plain, value] : more.env) {
    const auto card = cardOf(plain, cards.size());
    const auto name =
        card ? plain.substr(0, plain.find_last_of('_') + 1) + std::to_string(numbers[*card].first) : plain;
    const auto there =
        std::find_if(into.env.begin(), into.env.end(), [&n = name](const auto& entry) { return entry.first == n; });
    if (there == into.env.end()) {
      into.env.emplace_back(name, value);
      continue;
    }
    std::string both;
    if (isList(name)) both = united(there->second, value);
    if (card && numbers[*card].second) both = sum(there->second, value);
    if (name == kPinned && sameCards && there->second.rfind("0=", 0) == 0 && value.rfind("0=", 0) == 0)
      if (const auto added = sum(there->second.substr(2), value.substr(2)); !added.empty()) both = "0=" + added;
    there->second = both.empty() ? value : both;
  }
  if (!first) limitAllCards(given);
  for (const auto& node : more.deviceNodes) addOnce(into.deviceNodes, node);
  for (const auto& mount : more.mounts) {
    const auto there = std::find_if(into.mounts.begin(), into.mounts.end(),
                                    [&](const auto& other) { return other.containerPath == mount.containerPath; });
    if (there == into.mounts.end())
      into.mounts.push_back(mount);
    else
      *there = mount;
  }
  for (const auto& device : more.cdiDevices) addOnce(into.cdiDevices, device);
}

std::string describeEdits(const plugin::ContainerEdits& edits) {
  std::string out;
  for (const auto& [k, v] : edits.env) out += "\n  env " + k + "=" + v;
  for (const auto& d : edits.deviceNodes) {
    out += "\n  device " + d.path;
    if (!d.hostPath.empty() && d.hostPath != d.path) out += " (host " + d.hostPath + ")";
  }
  for (const auto& m : edits.mounts) {
    out += "\n  mount " + m.hostPath + " → " + m.containerPath;
    if (std::find(m.options.begin(), m.options.end(), "ro") != m.options.end()) out += " (ro)";
  }
  for (const auto& c : edits.cdiDevices) out += "\n  cdi " + c;
  return out;
}

}  // namespace egpu::sim
