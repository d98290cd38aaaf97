#include "controller/agent/prepare/merge.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace egpu::agent {

namespace {

/// Variables that list devices, cards, claims, MIG instances and their profiles, or addresses of remote GPUs.
constexpr std::array<std::string_view, 8> kLists{
    "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",     "ELASTICGPU_CARDS",       "ELASTICGPU_DEVICE",
    "ELASTICGPU_CLAIM",       "ELASTICGPU_MIG_INSTANCES", "ELASTICGPU_MIG_PROFILE", "ELASTICGPU_REMOTE_ENDPOINT"};
/// Element of a list in kLists that stands for no card.
constexpr std::string_view kVoid = "void";

/// Limits in percent that apply to every card.
constexpr std::array<std::string_view, 2> kPerCard{"CUDA_DEVICE_SM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"};

/// "0=4096M": limit of the single card that an MPS daemon serves.
constexpr std::string_view kPinned = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

using Texts = std::vector<std::string>;

template <class List, class Value>
bool has(const List& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void addParts(Texts& all, const std::string& list) {
  for (std::size_t at = 0; at <= list.size();) {
    const auto end = std::min(list.find(',', at), list.size());
    auto part = list.substr(at, end - at);
    if (!has(all, part)) all.push_back(std::move(part));
    at = end + 1;
  }
}

/// Returns the index among the claim's cards in a name such as NAME_2, which is for the third card; nullopt if the name
/// has no number, or no card has it.
std::optional<std::size_t> cardOf(const std::string& name, std::size_t cards) {
  constexpr std::size_t kDigits = 3;
  const auto last = name.find_last_not_of("0123456789");
  if (last == std::string::npos || name[last] != '_') return std::nullopt;
  if (last + 1 == name.size() || name.size() - last - 1 > kDigits) return std::nullopt;
  const std::size_t number = std::stoul(name.substr(last + 1));
  return number < cards ? std::optional(number) : std::nullopt;
}

/// Adds two amounts, "4096m" and "2048m" → "6144m"; returns an empty string if they have different units or are no
/// amounts.
std::string sum(const std::string& a, const std::string& b) {
  constexpr std::size_t kDigits = 18;
  const auto digits = [](const std::string& text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
  };
  const auto atA = digits(a), atB = digits(b);
  if (atA == 0 || atB == 0 || atA > kDigits || atB > kDigits || a.substr(atA) != b.substr(atB)) return {};
  return std::to_string(std::stoll(a) + std::stoll(b)) + a.substr(atA);
}

/// Returns whole percents of a card, at least 1 because 0 would mean no limit.
int64_t percent(int64_t milliCards) { return std::max<int64_t>(1, milliCards / 10); }

/// Returns the container's cards in the order of their numbers, without duplicates, each with the sum of its shares.
std::vector<plugin::CardShare> cardsOf(const std::vector<ClaimPart>& claims) {
  std::vector<plugin::CardShare> all;
  for (const auto& claim : claims)
    for (const auto& card : claim.cards) {
      const auto there = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.uuid == card.uuid; });
      if (there == all.end()) {
        all.push_back(card);
      } else {
        there->core += card.core;
        there->memory += card.memory;
      }
    }
  std::stable_sort(all.begin(), all.end(), comesBefore);
  return all;
}

/// Builds the variables of one container, claim by claim.
class Merge {
 public:
  explicit Merge(const std::vector<ClaimPart>& claims) : cards_(cardsOf(claims)) {}

  void add(const ClaimPart& claim) {
    const auto& of = claim.cards;
    const bool sameCards =
        !of.empty() && std::all_of(of.begin(), of.end(), [&](const auto& card) { return has(seen_, card.uuid); });
    for (const auto& [plain, value] : claim.env) {
      const auto card = cardOf(plain, of.size());
      const auto name =
          card ? plain.substr(0, plain.find_last_of('_') + 1) + std::to_string(numberOf(of[*card].uuid)) : plain;
      set(name, value, card && has(seen_, of[*card].uuid), sameCards);
    }
    for (const auto& card : of) seen_.push_back(card.uuid);
  }

  Variables take() {
    int64_t least = 0;
    for (const auto& card : cards_)
      if (card.core > 0) least = least == 0 ? percent(card.core) : std::min(least, percent(card.core));
    for (auto& [name, value] : env_) {
      if (least > 0 && has(kPerCard, name)) value = std::to_string(least);
      if (has(kLists, name)) value = ordered(value);
    }
    return std::move(env_);
  }

 private:
  std::size_t numberOf(std::string_view uuid) const {
    const auto at = std::find_if(cards_.begin(), cards_.end(), [&](const auto& card) { return card.uuid == uuid; });
    return static_cast<std::size_t>(at - cards_.begin());
  }

  void set(const std::string& name, const std::string& value, bool again, bool sameCards) {
    const auto there = std::find_if(env_.begin(), env_.end(), [&](const auto& entry) { return entry.first == name; });
    if (there == env_.end()) {
      env_.emplace_back(name, value);
      return;
    }
    std::string both;
    if (has(kLists, name)) both = there->second + "," + value;
    if (again) both = sum(there->second, value);
    if (name == kPinned && sameCards && there->second.rfind("0=", 0) == 0 && value.rfind("0=", 0) == 0)
      if (const auto added = sum(there->second.substr(2), value.substr(2)); !added.empty()) both = "0=" + added;
    there->second = both.empty() ? value : both;
  }

  /// Returns the list without duplicates: cards in the order of their numbers, then other elements.
  std::string ordered(const std::string& list) const {
    Texts parts;
    addParts(parts, list);
    if (parts.size() > 1) std::erase(parts, kVoid);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const auto& a, const auto& b) { return numberOf(a) < numberOf(b); });
    std::string text;
    for (const auto& part : parts) text += (text.empty() ? "" : ",") + part;
    return text;
  }

  const std::vector<plugin::CardShare> cards_;
  Texts seen_;  ///< uuids of the cards of preceding claims
  Variables env_;
};

}  // namespace

bool comesBefore(const plugin::CardShare& a, const plugin::CardShare& b) {
  // A longer address has a larger PCI domain, such as 10000:01:00.0.
  const auto place = [](const auto& card) { return std::tuple(card.pciAddress.size(), card.pciAddress, card.index); };
  return place(a) < place(b);
}

Variables merged(const std::vector<ClaimPart>& claims) {
  if (claims.size() == 1) return claims.front().env;
  Merge all(claims);
  for (const auto& claim : claims) all.add(claim);
  return all.take();
}

}  // namespace egpu::agent
