// What one device, or one decision, has of one card, as three sources tell it. They tell the same but for the moments
// between two watches, so it is kept once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "controller/cache/packed_text.h"
#include "controller/scheduler/request.h"

namespace egpu::cache {

/// Who says so: an entry on the card; a device that names the card; a decision that is not yet written.
enum class AllocationSource : uint8_t { ledger, device, assumed };

/// Movable. Not thread-safe: the view's lock protects it.
class ToldAllocation {
 public:
  explicit ToldAllocation(PackedText uid) : uid_(std::move(uid)) {}

  /// Of the device, or "claim/<uid>".
  const PackedText& uid() const { return uid_; }
  bool says(AllocationSource source) const { return (who_ & bit(source)) != 0; }
  bool nobodySays() const { return who_ == 0; }
  /// What the source says, if it says anything.
  std::optional<scheduler::Amount> of(AllocationSource source) const {
    if (!says(source)) return std::nullopt;
    return apart_ ? (*apart_)[static_cast<std::size_t>(source)] : sum_;
  }
  void set(AllocationSource source, const std::optional<scheduler::Amount>& amount);
  /// What counts: the largest of each amount.
  const scheduler::Amount& sum() const { return sum_; }

 private:
  static constexpr std::size_t kSources = 3;
  using Each = std::array<scheduler::Amount, kSources>;
  static constexpr uint8_t bit(AllocationSource source) {
    return static_cast<uint8_t>(1U << static_cast<unsigned>(source));
  }

  PackedText uid_;
  scheduler::Amount sum_;
  std::unique_ptr<Each> apart_;  ///< by source, while they differ
  uint8_t who_ = 0;              ///< bits of those that say something
};

}  // namespace egpu::cache
