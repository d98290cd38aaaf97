// Isolation modes of cards. The shares of one card have one mode, because containers with different mechanisms would
// not be limited against each other. Internal to scheduler/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace egpu::scheduler {

/// Number of a mode. A card without holders has none, whatever is recorded.
using ModeId = uint8_t;
inline constexpr ModeId kNoIsolation = 0, kLimiter = 1, kDriverLimits = 2, kMps = 3;
/// All modes beyond the first 31, the most that a card's record can number. No request has it, so each of their cards
/// gets a single share.
inline constexpr ModeId kUnnumbered = 31;
/// Modes that only requests have. kAnyMode: whole cards and admin access. kAutoMode: the strongest mode that the card
/// offers. kNewMode: a mode that no card has.
inline constexpr ModeId kAnyMode = 253, kAutoMode = 254, kNewMode = 255;

/// Whether the node of a card has the limiter.
enum class LimiterSupport : uint8_t { unknown, available, missing };

class Modes {
 public:
  ModeId find(std::string_view name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    return at == names_.end() ? kNewMode : static_cast<ModeId>(at - names_.begin());
  }
  ModeId obtain(std::string_view name) {
    if (const ModeId known = find(name); known != kNewMode) return known;
    if (names_.size() == kUnnumbered) return kUnnumbered;
    names_.emplace_back(name);
    return static_cast<ModeId>(names_.size() - 1);
  }
  std::string_view nameOf(ModeId id) const {
    return id == kUnnumbered ? std::string_view("another mode") : std::string_view(names_[id]);
  }

 private:
  std::vector<std::string> names_{"none", "limiter", "driver", "mps"};
};

}  // namespace egpu::scheduler
