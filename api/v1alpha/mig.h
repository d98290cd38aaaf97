// MIG (multi-instance GPU): the slots of a card in MIG mode, and the profiles of the instances that it can be divided
// into. Standard library only.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace egpu::v1alpha {

/// A set of slots of a card: 0 … 7 are memory slots, and kMedia stands for the media engines, which one instance of a
/// card can have.
struct Slots {
  static constexpr unsigned kMemory = 8;          ///< number of memory slots
  static constexpr unsigned kMedia = kMemory;     ///< slot of the media engines
  static constexpr unsigned kCount = kMedia + 1;  ///< number of slots
  uint16_t bits = 0;                              ///< one bit per slot

  bool empty() const { return bits == 0; }
  bool has(unsigned slot) const { return ((bits >> slot) & 1u) != 0; }
  bool overlaps(Slots other) const { return (bits & other.bits) != 0; }
  Slots with(Slots other) const { return {static_cast<uint16_t>(bits | other.bits)}; }
  Slots without(Slots other) const { return {static_cast<uint16_t>(bits & ~other.bits)}; }
  auto operator<=>(const Slots&) const = default;
};

/// A profile that the card's driver reports. No table is built in, because it differs between card models.
struct MigProfile {
  std::string name;     ///< as the driver writes it: "1g.5gb", "1g.5gb+me"
  int64_t memory = 0;   ///< bytes of an instance
  int64_t compute = 0;  ///< compute slices of an instance; the whole card has kComputeSlices
  int64_t size = 0;     ///< memory slots of an instance, 1 … Slots::kMemory
  Slots starts{};       ///< memory slots at which an instance can start
  bool media = false;   ///< an instance has the media engines
  static constexpr int64_t kComputeSlices = 7;
  auto operator<=>(const MigProfile&) const = default;

  /// Slots of an instance that starts at this slot, which must be one of `starts`.
  Slots slotsFrom(unsigned start) const {
    const unsigned slots = ((1u << static_cast<unsigned>(size)) - 1u) << start;
    return {static_cast<uint16_t>(slots | (media ? 1u << Slots::kMedia : 0u))};
  }
  /// True if an instance can start at this slot while these slots are in use.
  bool fitsAt(unsigned start, Slots used) const { return starts.has(start) && !slotsFrom(start).overlaps(used); }
};

/// MIG instances as users write them: "2x1g.10gb".
struct InstancesText {
  std::string number;   ///< digits; empty if there are none
  std::string profile;  ///< the rest
};
inline InstancesText splitInstances(const std::string& text) {
  const auto end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string::npos || text[end] != 'x') return {{}, text};
  return {text.substr(0, end), text.substr(end + 1)};
}

/// Returns a text for people: "5, 6 and the media engines".
inline std::string slotList(Slots slots) {
  std::string text;
  for (unsigned slot = 0; slot < Slots::kMemory; ++slot)
    if (slots.has(slot)) text += (text.empty() ? "" : ", ") + std::to_string(slot);
  if (slots.has(Slots::kMedia)) text += text.empty() ? "the media engines" : " and the media engines";
  return text;
}

}  // namespace egpu::v1alpha
