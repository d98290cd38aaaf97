// Free part of a card's capacity. Internal to scheduler/.
#pragma once

#include <cstdint>

#include "controller/scheduler/request.h"

namespace egpu::scheduler {

/// Free capacity and used slots, in 16 bytes, because the records of cards are read for every decision.
class CardLeft {
 public:
  /// Capacity − sum of charged; negative if overdrawn.
  Amount amount() const { return {coreAndSlots_ >> kSlotBits, memory_}; }
  v1alpha::Slots used() const { return {static_cast<uint16_t>(coreAndSlots_ & kSlotMask)}; }
  void setAmount(int64_t core, int64_t memory) {
    coreAndSlots_ = core * (kSlotMask + 1) + (coreAndSlots_ & kSlotMask);
    memory_ = memory;
  }
  void add(int64_t core, int64_t memory) {
    coreAndSlots_ += core * (kSlotMask + 1);
    memory_ += memory;
  }
  void setUsed(v1alpha::Slots slots) { coreAndSlots_ = (coreAndSlots_ & ~kSlotMask) | slots.bits; }

 private:
  static constexpr int kSlotBits = 16;
  static constexpr int64_t kSlotMask = 0xffff;
  int64_t coreAndSlots_ = 0;  ///< milli-cards × 2^16 + slots
  int64_t memory_ = 0;
};

}  // namespace egpu::scheduler
