// What one device, or one decision, has of one card, as three sources tell it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "controller/scheduler/request.h"

namespace egpu::cache {

/// Who says so: an entry on the card; a device that names the card; a decision that is not yet written.
enum class AllocationSource : uint8_t { ledger, device, assumed };

/// Not thread-safe: the view's lock protects it.
class ToldAllocation {
 public:
  explicit ToldAllocation(std::string uid) : uid_(std::move(uid)) {}

  /// Of the device, or "claim/<uid>".
  const std::string& uid() const { return uid_; }
  /// What the source says, if it says anything.
  const std::optional<scheduler::Amount>& of(AllocationSource source) const {
    return told_[static_cast<std::size_t>(source)];
  }
  bool says(AllocationSource source) const { return of(source).has_value(); }
  bool nobodySays() const {
    return std::none_of(told_.begin(), told_.end(), [](const auto& amount) { return amount.has_value(); });
  }
  void set(AllocationSource source, const std::optional<scheduler::Amount>& amount) {
    told_[static_cast<std::size_t>(source)] = amount;
  }
  /// What counts: the largest of each amount.
  scheduler::Amount sum() const {
    scheduler::Amount sum;
    for (const auto& amount : told_) {
      if (!amount) continue;
      sum.core = std::max(sum.core, amount->core);
      sum.memory = std::max(sum.memory, amount->memory);
    }
    return sum;
  }

 private:
  std::string uid_;
  std::array<std::optional<scheduler::Amount>, 3> told_;  ///< by source
};

}  // namespace egpu::cache
