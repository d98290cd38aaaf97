// Allocation of one card to one device, or to one assumed decision. Three sources report it: the card's ledger entry,
// the device object, and the assume cache. While watch events are in flight they may differ; the effective amount is
// the component-wise maximum, with the slots of all three.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "controller/scheduler/request.h"

namespace egpu::allocator {

/// Source of an amount: an entry on the card; a device that names the card; a decision that is not yet written.
enum class AllocationSource : uint8_t { ledger, device, assumed };

/// Not thread-safe: the allocator's lock protects it.
class TrackedAllocation {
 public:
  explicit TrackedAllocation(std::string uid) : uid_(std::move(uid)) {}

  /// Uid of the device, or "claim/<uid>".
  const std::string& uid() const { return uid_; }
  /// Amount that the source reports; nullopt if it reports none.
  const std::optional<scheduler::Amount>& of(AllocationSource source) const {
    return reported_[static_cast<std::size_t>(source)];
  }
  bool hasSource(AllocationSource source) const { return of(source).has_value(); }
  bool empty() const {
    return std::none_of(reported_.begin(), reported_.end(), [](const auto& amount) { return amount.has_value(); });
  }
  void set(AllocationSource source, const std::optional<scheduler::Amount>& amount) {
    reported_[static_cast<std::size_t>(source)] = amount;
  }
  /// Returns the effective amount: the component-wise maximum.
  scheduler::Amount effective() const {
    scheduler::Amount sum;
    for (const auto& amount : reported_) {
      if (!amount) continue;
      sum.core = std::max(sum.core, amount->core);
      sum.memory = std::max(sum.memory, amount->memory);
      sum.slots = sum.slots.with(amount->slots);
    }
    return sum;
  }

 private:
  std::string uid_;
  std::array<std::optional<scheduler::Amount>, 3> reported_;  ///< by source
};

}  // namespace egpu::allocator
